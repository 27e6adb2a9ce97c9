"""TensorProto <-> arrays, as TensorFlow Serving's gRPC API has them."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from aevnmt_tf.serving.server_options import ServerOptions
from aevnmt_tf.serving.status import invalid

if TYPE_CHECKING:
    from aevnmt_tf.serving.servable import ServedSignature, TensorForm

# The field that holds the values of each type. Clients read them, so `tensor_content`, which
# is the same in fewer bytes, will not do.
_FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "string": "string_val",
    **dict.fromkeys(("int32", "int16", "int8", "uint16", "uint8"), "int_val"),
}

MOST_VALUES = 2**22


def to_arrays(
    protos: Mapping[str, tensor_pb2.TensorProto],
    signature: "ServedSignature",
    *,
    limits: ServerOptions | None = None,
) -> dict[str, np.ndarray]:
    """Return the inputs of a request, checked against the signature.

    One value can stand for a huge tensor full of it, so shapes are checked first.
    """
    signature.check_names(protos)
    arrays = {}
    for name, proto in protos.items():
        arrays[name] = _to_array(name, proto, signature.inputs[name], limits)
    return arrays


def _to_array(
    name: str,
    proto: tensor_pb2.TensorProto,
    spec: "TensorForm",
    limits: ServerOptions | None,
) -> np.ndarray:
    try:
        dtype = tf.dtypes.as_dtype(proto.dtype)
    except TypeError:
        raise invalid(f"tensor parsing error: {name}") from None
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    if proto.tensor_shape.unknown_rank or any(size < 0 for size in shape):
        raise invalid(f"tensor parsing error: {name}")
    spec.check(name, dtype, shape)
    if limits and shape:
        limits.check_lines(shape[0])
    if math.prod(shape) > MOST_VALUES:
        raise invalid(f"input {name} has more than {MOST_VALUES} values")
    try:
        return tf.make_ndarray(proto)
    except (TypeError, ValueError):
        raise invalid(f"tensor parsing error: {name}") from None


def to_proto(array: np.ndarray, dtype: tf.DType) -> tensor_pb2.TensorProto:
    """Return one output, with its values in the field of its type."""
    field = _FIELDS.get(dtype.name)
    if field is None:
        return tf.make_tensor_proto(array, dtype=dtype)
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    getattr(proto, field).extend(array.ravel().tolist())
    return proto
