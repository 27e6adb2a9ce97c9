"""TensorFlow Serving's messages: tensors, and the state and the signatures of versions."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2

from aevnmt_tf.serving.status import CODES, invalid

if TYPE_CHECKING:
    from aevnmt_tf.serving.servable import ServedSignature
    from aevnmt_tf.serving.server_options import ServerOptions
    from aevnmt_tf.serving.versions import Version

# The field for the values of each type. Clients read these fields, not `tensor_content`, which
# would take fewer bytes.
_FIELDS = {
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int32: "int_val",
    tf.int64: "int64_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
}
MOST_VALUES = 2**22
_NUMBERS = {name: number for number, name in CODES.items()}


def to_arrays(
    protos: Mapping[str, tensor_pb2.TensorProto],
    signature: "ServedSignature",
    *,
    limits: "ServerOptions | None" = None,
) -> dict[str, np.ndarray]:
    """Return the inputs of a request, checked against the signature.

    Shapes are checked first, because a single value can stand for a huge constant tensor.
    """
    signature.check_names(protos)
    arrays = {}
    for name, proto in protos.items():
        shape = [dim.size for dim in proto.tensor_shape.dim]
        try:
            if proto.tensor_shape.unknown_rank or min(shape, default=0) < 0:
                raise ValueError
            signature.check_input(name, tf.dtypes.as_dtype(proto.dtype), shape)
            if limits and shape:
                limits.check_lines(shape[0])
            if math.prod(shape) > MOST_VALUES:
                raise invalid(f"Input {name} has more than {MOST_VALUES} values.")
            arrays[name] = tf.make_ndarray(proto)
        except (TypeError, ValueError):
            raise invalid(f"tensor parsing error: {name}") from None
    return arrays


def to_proto(array: np.ndarray, dtype: tf.DType) -> tensor_pb2.TensorProto:
    """Return an output with its values in the field of its type."""
    if dtype not in _FIELDS:
        return tf.make_tensor_proto(array, dtype=dtype)
    proto = tensor_pb2.TensorProto(
        dtype=dtype.as_datatype_enum, tensor_shape=tf.TensorShape(array.shape).as_proto()
    )
    getattr(proto, _FIELDS[dtype]).extend(array.ravel().tolist())
    return proto


def spec(name: str, number: int, *, signature: str = "") -> model_pb2.ModelSpec:
    """Return the model and version that answered."""
    return model_pb2.ModelSpec(name=name, version={"value": number}, signature_name=signature)


def status(versions: "Iterable[Version]") -> get_model_status_pb2.GetModelStatusResponse:
    """Return the state of each version."""
    response = get_model_status_pb2.GetModelStatusResponse()
    for one in versions:
        error = {
            "error_code": _NUMBERS[one.error_code],
            "error_message": one.error_message,
        }
        response.model_version_status.add(version=one.number, state=one.state, status=error)
    return response


def signatures(version: "Version") -> get_model_metadata_pb2.SignatureDefMap:
    """Return the signatures of a version."""
    return get_model_metadata_pb2.SignatureDefMap(signature_def=version.servable.signature_defs)
