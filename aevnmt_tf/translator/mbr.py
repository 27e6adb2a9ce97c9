"""Minimum Bayes risk decoding: the sample with the highest expected utility.

    argmax over h of 1/K sum_k u(h, y_k)        y_k ~ P(y|x, z_k), z_k ~ q(z|x) or r(z|x)

The samples are both candidates and references. `rank` compares them pairwise, outside of the
graph, with a sentence score of sacreBLEU as u. `aggregated_chrf` works inside the graph. It
aggregates the references (Vamvas and Sennrich, 2024): it compares each sample once, with a
reference whose n-gram counts are the mean over the samples, so its cost grows with K instead
of K ** 2.

    count(g) = 1/K sum_k count(g, y_k)
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from aevnmt_tf.translator.translated_lines import Translation

ORDER, BETA = 6, 2  # sacreBLEU's chrF2
# The white space of Python's str.split, which chrF ignores.
SPACES = (
    r"[\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"
)


def rank(
    translations: "Sequence[Translation]", *, utility: str, n_best: int = 1
) -> "list[Translation]":
    """Return up to n_best different translations with the highest expected utility.

    The expected utility becomes their score. Ties keep the order of the samples. The first
    sample of a text represents all with this text. `utility` is "chrf" or "bleu".
    """
    counts = Counter(t.text for t in translations)
    first = {t.text: t for t in reversed(translations)}
    expected = expected_utilities(counts, utility=utility)
    best = sorted(counts, key=expected.__getitem__, reverse=True)  # stable: ties keep order
    return [dataclasses.replace(first[text], score=expected[text]) for text in best[:n_best]]


def expected_utilities(counts: Mapping[str, int], *, utility: str) -> dict[str, float]:
    """Return the mean score of each text against all samples; `counts` is samples per text."""
    texts, total = list(counts), sum(counts.values())
    scores = _chrf(texts) if utility == "chrf" else _bleu(texts)
    expected = {}
    for text, row in zip(texts, scores, strict=True):
        each = (score for y, score in zip(texts, row, strict=True) for _ in range(counts[y]))
        # fsum is exact, so the order of the samples cannot break a tie.
        expected[text] = math.fsum(each) / total
    return expected


def _bleu(texts: Sequence[str]) -> list[list[float]]:
    """Return sacreBLEU's sentence BLEU of each text against each text."""
    from sacrebleu import metrics

    metric = metrics.BLEU(effective_order=True)  # a sentence may be too short for 4-grams
    return [[metric.sentence_score(text, [y]).score for y in texts] for text in texts]


def _chrf(texts: Sequence[str]) -> np.ndarray:
    """Return sacreBLEU's sentence chrF of each text against each text.

    This is a hundred times faster than sacreBLEU, which extracts the n-grams of a text again
    for each pair. The arithmetic is the same to the last bit.
    """
    from sacrebleu import metrics
    from sacrebleu.metrics import helpers

    precision, recall, num_orders = np.zeros([3, len(texts), len(texts)])
    ngrams = [helpers.extract_all_char_ngrams(t, metrics.CHRF.CHAR_ORDER) for t in texts]
    for order in zip(*ngrams, strict=True):
        places = {ngram: place for place, ngram in enumerate(set().union(*order))}
        counts = np.zeros([len(texts), len(places)], np.int32)
        for row, found in enumerate(order):
            counts[row, [places[ngram] for ngram in found]] = list(found.values())
        matches = np.stack([np.minimum(row, counts).sum(1) for row in counts])
        totals = counts.sum(1)
        both = (totals[:, None] > 0) & (totals > 0)
        precision += np.where(both, matches / np.maximum(totals, 1)[:, None], 0.0)
        recall += np.where(both, matches / np.maximum(totals, 1), 0.0)
        num_orders += both
    precision, recall = (v / np.maximum(num_orders, 1) for v in (precision, recall))
    factor = metrics.CHRF.BETA**2
    denominator = factor * precision + recall
    score = (1 + factor) * precision * recall / np.where(denominator > 0, denominator, 1.0)
    return 100 * score


def aggregated_chrf(texts: tf.Tensor) -> tf.Tensor:
    """Return the chrF [B, K] of samples [B, K] against their average, from 0 to 100.

    Counts are exact, since tf.unique numbers the n-grams, without hashing. They are integers
    until the final divisions, so equal texts have equal scores. A sample without characters
    has score 0, as in sacreBLEU.
    """
    shape = tf.shape(texts, out_type=tf.int64)
    samples = shape[1]
    flat = tf.strings.regex_replace(tf.reshape(texts, [-1]), SPACES, "")
    characters = tf.strings.unicode_decode(flat, "UTF-8")  # [B * K, None]
    length = characters.row_lengths()  # [B * K]
    row = characters.value_rowids()  # [N] the text of each character
    place = tf.range(tf.size(row, tf.int64))
    left = (
        tf.gather(characters.row_starts() + length, row) - place
    )  # [N] to the end of the text
    alphabet, letters = tf.unique(characters.values, tf.int64)

    gram = row // samples  # n-grams of different sentences are different
    precision = recall = orders = tf.zeros_like(length, tf.float64)  # [B * K]
    for n in range(1, ORDER + 1):
        keep = left >= n
        place, left, row, gram = (tf.boolean_mask(v, keep) for v in (place, left, row, gram))
        # An n-gram is an (n-1)-gram and a letter.
        gram = gram * tf.size(alphabet, tf.int64) + tf.gather(letters, place + (n - 1))
        _, gram = tf.unique(gram, tf.int64)
        matches = _matches(gram, row, rows=shape[0] * samples, samples=samples)
        mine = tf.maximum(length - (n - 1), 0) * samples  # n-grams of a text, times K
        all_of = tf.reduce_sum(tf.reshape(mine // samples, shape), 1)  # [B]: times K
        all_of = tf.repeat(all_of, samples)
        both = tf.cast((mine > 0) & (all_of > 0), tf.float64)
        precision += both * tf.math.divide_no_nan(*_floats(matches, mine))
        recall += both * tf.math.divide_no_nan(*_floats(matches, all_of))
        orders += both
    precision, recall = (tf.math.divide_no_nan(v, orders) for v in (precision, recall))
    factor = float(BETA**2)
    score = tf.math.divide_no_nan(
        (1 + factor) * precision * recall, factor * precision + recall
    )
    return tf.reshape(100.0 * score, tf.shape(texts))


def _matches(
    gram: tf.Tensor, row: tf.Tensor, *, rows: tf.Tensor, samples: tf.Tensor
) -> tf.Tensor:
    """Return K sum_g min(count(g, y), count(g)) for each text y [rows].

    `gram` [N] numbers the n-grams, and `row` [N] is the text of each; `samples` is K.
    """
    totals = tf.math.bincount(tf.cast(gram, tf.int32), dtype=tf.int64)  # K count(g)
    pairs, _, counts = tf.unique_with_counts(gram * rows + row, tf.int64)
    matches = tf.minimum(counts * samples, tf.gather(totals, pairs // rows))
    return tf.math.unsorted_segment_sum(matches, pairs % rows, rows)


def _floats(*values: tf.Tensor) -> list[tf.Tensor]:
    return [tf.cast(value, tf.float64) for value in values]
