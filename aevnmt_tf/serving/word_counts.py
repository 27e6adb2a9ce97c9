"""How many subwords the lines of a request have, before the model sees them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import sentencepiece
from tensorflow.core.protobuf import saved_model_pb2

from aevnmt_tf.serving import op_check

BYTES_PER_WORD = 16  # longer words are rare: a line of more bytes counts as the longest
USUAL_VOCABULARY = 8000  # score keeps a vocabulary per word: larger ones cost more
MOST = 2**20  # words of a line, where the export does not say where lines are cut


class WordCounter:
    """Counts with the SentencePiece models in a SavedModel; without one, words at spaces."""

    def __init__(self, model: saved_model_pb2.SavedModel, manifest: Mapping[str, Any]):
        protos = {
            node.attr["model"].s
            for graph in model.meta_graphs
            for _, node in op_check.nodes(graph.graph_def)
            if node.op == "SentencepieceOp" and node.attr["model"].s
        }
        self._processors = [
            sentencepiece.SentencePieceProcessor(model_proto=proto) for proto in sorted(protos)
        ]
        names = ("src_max_len_infer", "tgt_max_len_infer")  # targets: the larger one
        limits = [_settings(manifest).get(name) for name in names]
        self._most = max((n for n in limits if isinstance(n, int) and n > 0), default=MOST)

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the words of each row: those of its longest text, and the end of sentence."""
        rows = len(next(iter(inputs.values())))
        counts = np.zeros(rows, np.int64)
        for array in inputs.values():
            if array.dtype == object:
                texts = array.reshape(rows, -1)
                found = [max(map(self._count, row), default=0) for row in texts]
                counts = np.maximum(counts, found)
        return counts + 1

    def _count(self, line: bytes | str) -> int:
        encoded = line.encode() if isinstance(line, str) else line
        if len(encoded) > BYTES_PER_WORD * self._most:
            return self._most  # words may follow any number of spaces
        text = encoded.decode("utf-8", errors="replace")
        if not self._processors:
            return min(len(text.split()), self._most)
        return min(max(len(one.encode(text)) for one in self._processors), self._most)


def widths(manifest: Mapping[str, Any]) -> dict[str, int]:
    """Return how many hypotheses, or draws of z, each signature of an export has per row."""
    decoding = manifest.get("decoding")
    if not isinstance(decoding, dict):
        return {}
    found = {
        name: _hypotheses(decoding.get(rule))
        for name, rule in (
            ("serving_default", "translate"),
            ("attention", "translate"),
            ("nbest", "nbest"),
            ("sample", "sample"),
            ("mbr", "mbr"),
        )
    }
    vocabularies = -(-_whole(_settings(manifest).get("vocab_size")) // USUAL_VOCABULARY)
    return {**found, "score": vocabularies * _whole(decoding.get("score_samples"))}


def _settings(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    found = manifest.get("hparams")
    return found if isinstance(found, dict) else {}


def _hypotheses(options: Any) -> int:
    if not isinstance(options, dict):
        return 1
    if options.get("search") == "mbr":
        return _whole(options.get("num_samples"))
    width = max(_whole(options.get("beam_width")), _whole(options.get("n_best")))
    return width * _whole(options.get("num_z"))


def _whole(value: Any) -> int:
    return max(1, value) if isinstance(value, int) else 1
