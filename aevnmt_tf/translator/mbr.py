"""The choice with the highest expected utility among samples: minimum Bayes risk decoding.

    argmax over h of 1/K sum_k u(h, y_k)        y_k ~ P(y|x, z_k), z_k ~ q(z|x) or r(z|x)

The samples are the candidates and the references, both; u is a sentence score of sacreBLEU.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from aevnmt_tf.translator.translated_lines import Translation


def rank(
    translations: "Sequence[Translation]", *, utility: str, n_best: int = 1
) -> "list[Translation]":
    """Return the n_best different translations by expected utility, which becomes their score.

    Args:
        translations: samples; of those with the same text the first one stands for all.
        utility: "chrf" or "bleu".
        n_best: how many to return; fewer where there are no more.

    Equal utilities keep the order of the samples.
    """
    counts = Counter(t.text for t in translations)
    first = {t.text: t for t in reversed(translations)}
    expected = expected_utilities(counts, utility=utility)
    best = sorted(
        counts, key=expected.__getitem__, reverse=True
    )  # stable, so ties keep their order
    return [dataclasses.replace(first[text], score=expected[text]) for text in best[:n_best]]


def expected_utilities(counts: Mapping[str, int], *, utility: str) -> dict[str, float]:
    """Return the mean sentence score of each text against all samples, by text.

    Args:
        counts: how many samples have a text, by text.
        utility: "chrf" or "bleu".
    """
    texts, total = list(counts), sum(counts.values())
    scores = _chrf(texts) if utility == "chrf" else _bleu(texts)
    expected = {}
    for text, row in zip(texts, scores, strict=True):
        each = (score for y, score in zip(texts, row, strict=True) for _ in range(counts[y]))
        # fsum is exact, so the order of the samples cannot break a tie.
        expected[text] = math.fsum(each) / total
    return expected


def _bleu(texts: Sequence[str]) -> list[list[float]]:
    """Return sacreBLEU's sentence BLEU of each text against each."""
    from sacrebleu import metrics

    metric = metrics.BLEU(effective_order=True)  # a sentence may be too short for 4-grams
    return [[metric.sentence_score(text, [y]).score for y in texts] for text in texts]


def _chrf(texts: Sequence[str]) -> np.ndarray:
    """Return sacreBLEU's sentence chrF of each text against each, a hundred times as fast.

    Its own function takes the n-grams of a text apart again for each pair. The arithmetic is
    the same to the last bit.
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
