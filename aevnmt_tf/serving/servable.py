"""One loaded version of a model: its signatures, and how to run them."""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of SentencePiece
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.eager.cancellation import CancellationManager
from tensorflow_serving.apis import prediction_log_pb2

from aevnmt_tf.serving import export_record, op_check, protos, warmup, word_counts
from aevnmt_tf.serving.status import RequestError, invalid

DEFAULT_SIGNATURE = "serving_default"
Forms = Mapping[str, tf.TensorSpec]  # what tensors of a signature must be


@dataclasses.dataclass(frozen=True)
class ServedSignature:
    """The named inputs and outputs of one function."""

    name: str
    inputs: Forms
    outputs: Forms

    def check(self, inputs: Mapping[str, np.ndarray]) -> int:
        """Refuse inputs that the graph could not take in a batch; return how many rows."""
        self.check_names(inputs)
        for name, array in inputs.items():
            dtype = tf.string if array.dtype == object else tf.dtypes.as_dtype(array.dtype)
            self.check_input(name, dtype, array.shape)
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

    def check_input(self, name: str, dtype: tf.DType, shape: Sequence[int]) -> None:
        """Refuse a tensor that the graph could not take."""
        form = self.inputs[name]
        if dtype != form.dtype:
            raise invalid(f"input {name} must be {form.dtype.name}, not {dtype.name}")
        if not form.shape.is_compatible_with(shape):
            wanted = ["?" if size is None else size for size in form.shape.as_list()]
            raise invalid(f"input {name} must have shape {_shown(wanted)}, not {_shown(shape)}")

    def num_values(self, words: np.ndarray) -> int:
        """Return how many values the answer to rows of so many words has, if known.

        An unknown length of an output is taken to be that of the longest row.
        """
        longest = int(words.max())
        sizes = [
            [longest if size is None else size for size in form.shape.as_list()[1:]]
            for form in self.outputs.values()
            if form.shape.rank
        ]
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
        graphs = [one for one in model.meta_graphs if "serve" in one.meta_info_def.tags]
        if not graphs:
            raise invalid(f"{folder / op_check.MODEL_FILE} has no graph for serving")
        # As the file has them, for clients that ask.
        self.signature_defs = dict(graphs[0].signature_def)
        self._model = tf.saved_model.load(str(folder), tags=["serve"])
        self._functions = dict(self._model.signatures)
        self.signatures = {
            name: ServedSignature(name, _forms(one.inputs), _forms(one.outputs))
            for name, one in self.signature_defs.items()
            if name in self._functions
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
                inputs = protos.to_arrays(request.inputs, signature)
                signature.check(inputs)
                self.run(signature.name, inputs)
        return count


def _array(tensor: tf.Tensor) -> np.ndarray:
    array = np.asarray(tensor.numpy())
    return array.astype(object) if tensor.dtype == tf.string else array


def _forms(infos: Mapping[str, meta_graph_pb2.TensorInfo]) -> Forms:
    return {
        name: tf.TensorSpec(tf.TensorShape(info.tensor_shape), tf.as_dtype(info.dtype))
        for name, info in sorted(infos.items())
    }


def _shown(shape: Iterable[object]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _manifest(folder: Path) -> dict[str, Any]:
    """Return what an export of ours says about itself."""
    try:
        found = json.loads((folder / export_record.FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
