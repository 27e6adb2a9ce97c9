"""A loaded version of a model: its signatures, and how to run them."""

import dataclasses
import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of SentencePiece
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.eager import cancellation
from tensorflow_serving.apis import prediction_log_pb2

from aevnmt_tf.serving import export_folder, op_check, protos, warmup, word_counts
from aevnmt_tf.serving.status import RequestError, invalid

DEFAULT_SIGNATURE = "serving_default"
Forms = Mapping[str, tf.TensorSpec]  # dtype and shape of tensors


class _CancellationOfThread(threading.local):
    manager: cancellation.CancellationManager | None = None


_running = _CancellationOfThread()
# TensorFlow keeps one manager for all threads. A function that one thread starts could then be
# cancelled by the failure of another thread's function.
cancellation.context = lambda: _running.manager


@dataclasses.dataclass(frozen=True)
class ServedSignature:
    """The inputs and outputs of a signature, by name."""

    name: str
    inputs: Forms
    outputs: Forms

    def check_names(self, names: Iterable[str]) -> None:
        """Refuse inputs that are missing or unknown."""
        sent, wanted = sorted(names), sorted(self.inputs)
        if sent != wanted:
            extra = ",".join(name for name in sent if name not in wanted)
            missing = ",".join(name for name in wanted if name not in sent)
            raise invalid(
                f"input size does not match signature: {len(sent)}!={len(wanted)} "
                f"len({{{','.join(sent)}}}) != len({{{','.join(wanted)}}}). "
                f"Sent extra: {{{extra}}}. Missing but required: {{{missing}}}."
            )

    def check_input(self, name: str, dtype: tf.DType, shape: Sequence[int]) -> None:
        """Refuse a tensor of the wrong type or shape."""
        form = self.inputs[name]
        if dtype != form.dtype:
            raise invalid(f"Input {name} must be {form.dtype.name}, not {dtype.name}.")
        if not form.shape.is_compatible_with(shape):
            wanted = ["?" if size is None else size for size in form.shape.as_list()]
            shown, found = (",".join(map(str, sizes)) for sizes in (wanted, shape))
            raise invalid(f"Input {name} must have shape [{shown}], not [{found}].")

    def check_rows(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Refuse inputs without rows, or with different numbers of rows."""
        # The messages of TensorFlow Serving, whose batching has the same requirements.
        if any(array.ndim == 0 for array in inputs.values()):
            raise invalid("Batching Run() input tensors must have at least one dimension")
        rows = {len(array) for array in inputs.values()}
        if len(rows) != 1:
            raise invalid("Batching Run() input tensors must have equal 0th-dimension size")
        if rows == {0}:
            raise invalid("The inputs have no rows.")

    def num_values(self, words: np.ndarray) -> int:
        """Return the expected number of values of the answer to rows of so many words.

        An unknown dimension of an output counts as the number of words of the longest row.
        """
        longest = int(words.max())
        sizes = [
            [longest if size is None else size for size in form.shape.as_list()[1:]]
            for form in self.outputs.values()
            if form.shape.rank
        ]
        return len(words) * sum(map(math.prod, sizes))


class Servable:
    """A SavedModel in memory; any thread may run its signatures."""

    def __init__(self, folder: Path):
        self.folder = folder
        model = op_check.read(folder)
        self._model = tf.saved_model.load(str(folder), tags=["serve"])  # or an error
        graph = next(one for one in model.meta_graphs if "serve" in one.meta_info_def.tags)
        self.signature_defs = dict(graph.signature_def)
        self._functions = dict(self._model.signatures)
        self.signatures = {
            name: ServedSignature(name, _forms(one.inputs), _forms(one.outputs))
            for name, one in self.signature_defs.items()
            if name in self._functions
        }
        manifest = export_folder.read_manifest(folder)
        self.text = manifest.get("text", {})  # the kind of text that it takes and returns
        self.widths = word_counts.widths(manifest)
        self.count_words = word_counts.WordCounter(model, manifest)

    def signature(self, name: str) -> ServedSignature:
        """Return a signature; "" is the default one."""
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
        """Run a signature until `abandoned` is cancelled; strings are bytes objects."""
        specs = self.signatures[signature].inputs
        tensors = {
            name: tf.constant(array, dtype=specs[name].dtype) for name, array in inputs.items()
        }
        manager = cancellation.CancellationManager()
        if abandoned is not None:
            abandoned.add_done_callback(lambda _: manager.start_cancel())
        _running.manager = manager
        try:
            outputs = self._functions[signature](**tensors)
        finally:
            _running.manager = None
        return {name: _array(tensor) for name, tensor in sorted(outputs.items())}

    def warm_up(self) -> int:
        """Run the warm-up requests of the model; return their number."""
        path = self.folder / warmup.FILE
        if not path.exists():
            return 0
        count = 0
        for record in tf.data.TFRecordDataset(str(path)):
            count += 1
            if count > warmup.MOST_RECORDS:
                raise invalid(f"{path} has more than {warmup.MOST_RECORDS} requests.")
            log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
            if log.HasField("predict_log"):
                request = log.predict_log.request
                signature = self.signature(request.model_spec.signature_name)
                self.run(signature.name, protos.to_arrays(request.inputs, signature))
        return count


def _array(tensor: tf.Tensor) -> np.ndarray:
    array = np.asarray(tensor.numpy())  # a scalar is no array before
    return array.astype(object) if tensor.dtype == tf.string else array


def _forms(infos: Mapping[str, meta_graph_pb2.TensorInfo]) -> Forms:
    return {
        name: tf.TensorSpec(tf.TensorShape(info.tensor_shape), tf.as_dtype(info.dtype))
        for name, info in sorted(infos.items())
    }
