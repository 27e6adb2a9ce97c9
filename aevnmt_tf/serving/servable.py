"""One loaded version of a model: its signatures, and how to run them."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of SentencePiece
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from aevnmt_tf.serving import proto_tensors
from aevnmt_tf.serving.status import RequestError, invalid

MODEL_FILE = "saved_model.pb"
WARM_UP = Path("assets.extra") / "tf_serving_warmup_requests"
# As many as TensorFlow Serving allows.
MOST_WARM_UPS = 1000
DEFAULT_SIGNATURE = "serving_default"


@dataclasses.dataclass(frozen=True)
class Spec:
    """What a tensor of a signature must be; an unknown length is None."""

    dtype: tf.DType
    shape: tuple[int | None, ...] | None

    @classmethod
    def of(cls, info) -> "Spec":
        """From the TensorInfo of a signature."""
        shape = None
        if not info.tensor_shape.unknown_rank:
            sizes = [dim.size for dim in info.tensor_shape.dim]
            shape = tuple(None if size < 0 else size for size in sizes)
        return cls(tf.dtypes.as_dtype(info.dtype), shape)

    def check(self, name: str, dtype: tf.DType, shape: tuple[int, ...]) -> None:
        """Refuses a tensor that the graph could not take."""
        if dtype != self.dtype:
            raise invalid(f"input {name} must be {self.dtype.name}, not {dtype.name}")
        if self.shape is None:
            return
        fits = len(shape) == len(self.shape) and all(
            wanted in (None, size) for wanted, size in zip(self.shape, shape, strict=True)
        )
        if not fits:
            wanted = ["?" if size is None else size for size in self.shape]
            raise invalid(f"input {name} must have shape {_shown(wanted)}, not {_shown(shape)}")


def _shown(shape) -> str:
    return f"[{','.join(map(str, shape))}]"


@dataclasses.dataclass(frozen=True)
class Signature:
    """The named inputs and outputs of one function."""

    name: str
    inputs: Mapping[str, Spec]
    outputs: Mapping[str, Spec]

    def check(self, inputs: Mapping[str, np.ndarray]) -> int:
        """Refuses inputs that the graph could not take in a batch; returns how many rows."""
        self.check_names(inputs)
        for name, array in inputs.items():
            dtype = tf.string if array.dtype == object else tf.dtypes.as_dtype(array.dtype)
            self.inputs[name].check(name, dtype, array.shape)
        # The words of TensorFlow Serving, whose batching needs the same.
        if any(array.ndim == 0 for array in inputs.values()):
            raise invalid("Batching Run() input tensors must have at least one dimension")
        rows = {len(array) for array in inputs.values()}
        if len(rows) != 1:
            raise invalid("Batching Run() input tensors must have equal 0th-dimension size")
        (number,) = rows
        if number == 0:
            raise invalid("the inputs have no rows")
        return number

    def check_names(self, names) -> None:
        """Refuses inputs that are missing or not known."""
        sent, wanted = sorted(names), sorted(self.inputs)
        if sent != wanted:
            extra = ",".join(name for name in sent if name not in wanted)
            missing = ",".join(name for name in wanted if name not in sent)
            raise invalid(
                f"input size does not match signature: {len(sent)}!={len(wanted)} "
                f"len({{{','.join(sent)}}}) != len({{{','.join(wanted)}}}). "
                f"Sent extra: {{{extra}}}. Missing but required: {{{missing}}}."
            )


class Servable:
    """A SavedModel in memory; its functions may be called from any thread."""

    def __init__(self, folder: Path | str):
        folder = Path(folder)
        self.folder = folder
        self.signature_defs = _signature_defs(folder)
        self._model = tf.saved_model.load(str(folder), tags=["serve"])
        self._functions = dict(self._model.signatures)
        self.signatures = {
            name: _signature(name, self.signature_defs[name]) for name in self._functions
        }

    def signature(self, name: str) -> Signature:
        """The signature of a name; no name is the default one."""
        name = name or DEFAULT_SIGNATURE
        if name not in self.signatures:
            raise RequestError(
                "FAILED_PRECONDITION", f'Serving signature key "{name}" not found.'
            )
        return self.signatures[name]

    def run(self, signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs a function; strings are arrays of bytes objects."""
        specs = self.signatures[signature].inputs
        tensors = {
            name: tf.constant(array, dtype=specs[name].dtype) for name, array in inputs.items()
        }
        outputs = self._functions[signature](**tensors)
        # A scalar would come as a Python or NumPy scalar; strings as bytes.
        return {name: _array(tensor) for name, tensor in sorted(outputs.items())}

    def warm_up(self) -> int:
        """Answers the requests that the model brings along; returns how many there are."""
        path = self.folder / WARM_UP
        if not path.exists():
            return 0
        count = 0
        for record in tf.data.TFRecordDataset(str(path)):
            count += 1
            if count > MOST_WARM_UPS:
                raise invalid(f"{path} has more than {MOST_WARM_UPS} requests")
            log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
            if log.HasField("predict_log"):
                request = log.predict_log.request
                signature = self.signature(request.model_spec.signature_name)
                inputs = proto_tensors.to_arrays(request.inputs, signature)
                signature.check(inputs)
                self.run(signature.name, inputs)
        return count


def _array(tensor) -> np.ndarray:
    array = np.asarray(tensor.numpy())
    return array.astype(object) if tensor.dtype == tf.string else array


def _signature(name: str, definition) -> Signature:
    sides = (
        {key: Spec.of(info) for key, info in sorted(side.items())}
        for side in (definition.inputs, definition.outputs)
    )
    return Signature(name, *sides)


def _signature_defs(folder: Path) -> dict:
    """The signatures as the file has them, for clients that ask."""
    proto = saved_model_pb2.SavedModel.FromString((folder / MODEL_FILE).read_bytes())
    for graph in proto.meta_graphs:
        if "serve" in graph.meta_info_def.tags:
            return dict(graph.signature_def)
    raise invalid(f"{folder / MODEL_FILE} has no graph for serving")
