"""The cost of a request, known before the model runs: subwords per row, hypotheses per row."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import sentencepiece
from tensorflow.core.protobuf import saved_model_pb2

from aevnmt_tf.serving import op_check

BYTES_PER_WORD = 16  # a line with more bytes per word than this counts as the longest line
USUAL_VOCABULARY = 8000  # score computes a distribution per word: larger ones cost more
MOST = 2**20  # words of a line, for models without a manifest
# The decision rule of each signature, by the name that it has in the manifest.
RULES = {
    "serving_default": "translate",
    "attention": "translate",
    "nbest": "nbest",
    "sample": "sample",
    "mbr": "mbr",
}


class WordCounter:
    """Counts with the SentencePiece models of a SavedModel, or words if it has none."""

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
        hparams = manifest.get("hparams", {})
        limits = [hparams.get(name) for name in ("src_max_len_infer", "tgt_max_len_infer")]
        self._most = max(filter(None, limits), default=MOST)

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the number of words per row: those of its longest text, and </s>."""
        rows = len(next(iter(inputs.values())))
        counts = np.zeros(rows, np.int64)
        for array in inputs.values():
            if array.dtype == object:
                texts = array.reshape(rows, -1)
                found = [max(map(self._count, row), default=0) for row in texts]
                counts = np.maximum(counts, found)
        return counts + 1

    def _count(self, line: bytes) -> int:
        if len(line) > BYTES_PER_WORD * self._most:
            return self._most  # do not tokenise it; it may be spaces with words at the end
        text = line.decode("utf-8", errors="replace")
        if not self._processors:
            return min(len(text.split()), self._most)
        return min(max(len(one.encode(text)) for one in self._processors), self._most)


def widths(manifest: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of hypotheses, or of draws of z, that each signature has per row."""
    decoding = manifest.get("decoding", {})
    found = {
        name: _hypotheses(decoding[rule]) for name, rule in RULES.items() if rule in decoding
    }
    vocabulary = manifest.get("hparams", {}).get("vocab_size") or 1
    vocabularies = -(-vocabulary // USUAL_VOCABULARY)
    return {**found, "score": vocabularies * decoding.get("score_samples", 1)}


def _hypotheses(rule: Mapping[str, Any]) -> int:
    if rule.get("search") == "mbr":
        return rule.get("num_samples", 1)
    return max(rule.get("beam_width", 1), rule.get("n_best", 1)) * rule.get("num_z", 1)
