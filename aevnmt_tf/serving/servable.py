"""One loaded version of a model: its signatures, and how to run them."""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of SentencePiece
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow.python.eager.cancellation import CancellationManager
from tensorflow_serving.apis import prediction_log_pb2

from aevnmt_tf.serving import export_record, op_check, proto_tensors, warmup, word_counts
from aevnmt_tf.serving.status import RequestError, invalid

DEFAULT_SIGNATURE = "serving_default"


@dataclasses.dataclass(frozen=True)
class TensorForm:
    """What a tensor of a signature must be; an unknown length is None."""

    dtype: tf.DType
    shape: tuple[int | None, ...] | None

    @classmethod
    def of(cls, info: meta_graph_pb2.TensorInfo) -> "TensorForm":
        """Return the form of a TensorInfo of a signature."""
        shape = None
        if not info.tensor_shape.unknown_rank:
            sizes = [dim.size for dim in info.tensor_shape.dim]
            shape = tuple(None if size < 0 else size for size in sizes)
        return cls(tf.dtypes.as_dtype(info.dtype), shape)

    def check(self, name: str, dtype: tf.DType, shape: tuple[int, ...]) -> None:
        """Refuse a tensor that the graph could not take."""
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


def _shown(shape: Iterable[object]) -> str:
    return f"[{','.join(map(str, shape))}]"


@dataclasses.dataclass(frozen=True)
class ServedSignature:
    """The named inputs and outputs of one function."""

    name: str
    inputs: Mapping[str, TensorForm]
    outputs: Mapping[str, TensorForm]

    def check(self, inputs: Mapping[str, np.ndarray]) -> int:
        """Refuse inputs that the graph could not take in a batch; return how many rows."""
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

    def num_values(self, words: np.ndarray) -> int:
        """Return how many values the answer to rows of so many words has, if known.

        An unknown length of an output is taken to be that of the longest row.
        """
        longest = int(words.max())
        shapes = [form.shape[1:] for form in self.outputs.values() if form.shape]
        sizes = [[longest if size is None else size for size in shape] for shape in shapes]
        return len(words) * sum(map(math.prod, sizes))

    def check_names(self, names: Iterable[str]) -> None:
        """Refuse inputs that are missing or not known."""
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
        model = op_check.read(folder)
        self.signature_defs = _signature_defs(model, folder)
        self._model = tf.saved_model.load(str(folder), tags=["serve"])
        self._functions = dict(self._model.signatures)
        self.signatures = {
            name: _signature(name, self.signature_defs[name]) for name in self._functions
        }
        self.manifest = _manifest(folder)
        self.widths = word_counts.widths(self.manifest)
        self.count_words = word_counts.WordCounter(model, self.manifest)

    @property
    def text(self) -> dict[str, Any]:
        """What text the model takes and gives, as the export says; empty where it does not."""
        found = self.manifest.get("text")
        return found if isinstance(found, dict) else {}

    def signature(self, name: str) -> ServedSignature:
        """Return the signature of a name; no name is the default one."""
        name = name or DEFAULT_SIGNATURE
        if name not in self.signatures:
            raise RequestError(
                "FAILED_PRECONDITION", f'Serving signature key "{name}" not found.'
            )
        return self.signatures[name]

    def run(
        self,
        signature: str,
        inputs: Mapping[str, np.ndarray],
        abandoned: Future | None = None,
    ) -> dict[str, np.ndarray]:
        """Run a function; strings are arrays of bytes objects.

        Args:
            signature: its name.
            inputs: arrays by name.
            abandoned: stops the function when it is cancelled.
        """
        specs = self.signatures[signature].inputs
        tensors = {
            name: tf.constant(array, dtype=specs[name].dtype) for name, array in inputs.items()
        }
        manager = CancellationManager()
        if abandoned is not None:
            abandoned.add_done_callback(lambda _: manager.start_cancel())
        outputs = manager.get_cancelable_function(self._functions[signature])(**tensors)
        # A scalar would come as a Python or NumPy scalar; strings as bytes.
        return {name: _array(tensor) for name, tensor in sorted(outputs.items())}

    def warm_up(self) -> int:
        """Answer the requests that the model brings along; return how many there are."""
        path = self.folder / warmup.FILE
        if not path.exists():
            return 0
        count = 0
        for record in tf.data.TFRecordDataset(str(path)):
            count += 1
            if count > warmup.MOST_RECORDS:
                raise invalid(f"{path} has more than {warmup.MOST_RECORDS} requests")
            log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
            if log.HasField("predict_log"):
                request = log.predict_log.request
                signature = self.signature(request.model_spec.signature_name)
                inputs = proto_tensors.to_arrays(request.inputs, signature)
                signature.check(inputs)
                self.run(signature.name, inputs)
        return count


def _array(tensor: tf.Tensor) -> np.ndarray:
    array = np.asarray(tensor.numpy())
    return array.astype(object) if tensor.dtype == tf.string else array


def _signature(name: str, definition: meta_graph_pb2.SignatureDef) -> ServedSignature:
    sides = (
        {key: TensorForm.of(info) for key, info in sorted(side.items())}
        for side in (definition.inputs, definition.outputs)
    )
    return ServedSignature(name, *sides)


def _signature_defs(
    model: saved_model_pb2.SavedModel, folder: Path
) -> dict[str, meta_graph_pb2.SignatureDef]:
    """Return the signatures as the file has them, for clients that ask."""
    for graph in model.meta_graphs:
        if "serve" in graph.meta_info_def.tags:
            return dict(graph.signature_def)
    raise invalid(f"{folder / op_check.MODEL_FILE} has no graph for serving")


def _manifest(folder: Path) -> dict[str, Any]:
    """Return what an export of ours says about itself."""
    try:
        found = json.loads((folder / export_record.FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
