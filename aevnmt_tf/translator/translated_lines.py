"""The results of translating a line, made of the outputs of the graph for a batch."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf import search, text
from aevnmt_tf.translator import line_encoder, pooling
from aevnmt_tf.translator.decode_path import Graph
from aevnmt_tf.translator.rules import Decoding


@dataclasses.dataclass
class Translation:
    """One translation of a sentence."""

    text: str
    score: float  # log_prob / length penalty; for mbr, the expected utility
    log_prob: float  # log P(text|x, z) of the segmentations that were found
    length: int = 0  # in subwords, including </s>
    target_pieces: list[str] | None = None
    attention: np.ndarray | None = None  # [Ty, Tx]
    z: Any = None  # [Z]; for an ensemble, a tuple with one per model


@dataclasses.dataclass
class TranslatedLine:
    """The result for a line: its translations, best first; at least one."""

    translations: list[Translation]
    was_cut: bool = False  # whether it was longer than src_max_len_infer
    num_words: int = 0  # subwords of the source, without </s>
    num_unknown: int = 0  # unknown ones among them
    source_pieces: list[str] | None = None


def outputs(
    graph: Graph,
    found: search.Hypotheses,
    z: search.Nest,
    x: tf.Tensor,
    x_len: tf.Tensor,
    *,
    details: bool,
) -> dict[str, Any]:
    """Return the outputs of the graph for a batch, by name."""
    texts, scores = graph.translations(found, x_len)
    unknown = tf.reduce_sum(tf.cast(x == text.UNK, tf.int32), 1)  # [B]
    named = {"texts": texts, "scores": scores, "log_probs": found.log_probs}
    named |= {"lengths": found.lengths, "x_len": x_len, "unknown": unknown}
    if details:
        named["source_pieces"] = graph.x_tokenizer.pieces(x)
        named["target_pieces"] = graph.y_tokenizer.pieces(found.ids)
        named |= {"attention": found.attention, "z": z}
    return named


def line_of(found: dict[str, Any], row: int, *, raw: Callable[[str], str]) -> TranslatedLine:
    """Return the result of one row of a batch; `raw` turns tokenizer output into raw text."""
    num_words = int(found["x_len"][row]) - 1
    # An empty line has one translation, which is empty.
    lengths = [n for n in found["lengths"][row] if n > 0] if num_words else [0]
    translations = [_translation(found, row, k, n, raw=raw) for k, n in enumerate(lengths)]
    if not num_words:
        translations[0].score = translations[0].log_prob = 0.0
    unknown = int(found["unknown"][row])
    result = TranslatedLine(translations, num_words=num_words, num_unknown=unknown)
    if "source_pieces" in found:
        pieces = found["source_pieces"][row, : num_words + 1]
        result.source_pieces = line_encoder.decoded(pieces)
    return result


def _translation(
    found: dict[str, Any], row: int, k: int, length: int, *, raw: Callable[[str], str]
) -> Translation:
    """Return hypothesis `k` of a row, which has `length` subwords."""
    translation = Translation(
        text=raw(found["texts"][row, k].decode("utf-8", errors="replace")),
        score=float(found["scores"][row, k]),
        log_prob=float(found["log_probs"][row, k]),
        length=int(length),
    )
    if "attention" in found:
        time_x = found["x_len"][row]
        # A copy, because a view would keep the whole batch in memory.
        translation.attention = found["attention"][row, k, :length, :time_x].copy()
        pieces = found["target_pieces"][row, k, :length]
        translation.target_pieces = line_encoder.decoded(pieces)
        translation.z = pooling.map_tensors(lambda v: v[row, k], found["z"])
    return translation


def one_of_each(translations: list[Translation], rule: Decoding) -> list[Translation]:
    """Merge translations that become the same text after Moses' detokenisation.

    This does outside of the graph what pooling.py does inside.
    """
    kept: dict[str, Translation] = {}
    for t in translations:
        same = kept.setdefault(t.text, t)
        if same is not t and rule.search != "mbr" and rule.num_z == 1:
            both = float(np.logaddexp(same.log_prob, t.log_prob))
            penalty = search.length_penalty(same.length, weight=rule.length_penalty_weight)
            same.score += (both - same.log_prob) / float(penalty)
            same.log_prob = both
    return sorted(kept.values(), key=lambda t: t.score, reverse=True)
