"""The metrics of TF-NMT other than BLEU, for sacreBLEU: means over sentences, times 100.

rouge            ROUGE-L: F-measure of the longest common subsequence, beta = precision / recall
accuracy         share of sentences that equal their reference
word_accuracy    words equal to the reference at their position, over the longer length
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric, Score


class SentenceMean(Metric):
    """The mean of a function of the words of a translation and the words of its reference."""

    def __init__(
        self,
        title: str,
        of_sentence: Callable[[list[str], list[str]], float],
        references: Sequence[Sequence[str]] | None = None,
    ) -> None:
        super().__init__()
        self._title, self._of_sentence = title, of_sentence
        if references is not None:
            self._ref_cache = self._cache_references(references)

    def _preprocess_segment(self, sent: str) -> str:
        return sent.strip()

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"reference": refs[0]}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict) -> list[float]:
        return [self._of_sentence(hypothesis.split(), ref_kwargs["reference"].split()), 1.0]

    def _compute_score_from_stats(self, stats: Any) -> Score:
        total, count = stats
        return Score(self._title, 100.0 * total / max(count, 1.0))

    def _aggregate_and_compute(self, stats: list[list[float]]) -> Score:
        some = len(stats) > 0  # approximate randomisation passes an array
        return self._compute_score_from_stats(np.sum(stats, axis=0) if some else (0.0, 0.0))


def rouge_l(ours: list[str], theirs: list[str]) -> float:
    """Return ROUGE-L as TF-NMT computes it."""
    common = longest_common(ours, theirs)
    if not common:
        return 0.0
    precision, recall = common / len(ours), common / len(theirs)
    squared = (precision / recall) ** 2
    return (1 + squared) * recall * precision / (recall + squared * precision)


def longest_common(ours: list[str], theirs: list[str]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(theirs) + 1)
    for word in ours:
        before = 0  # the entry to the upper left
        for place, other in enumerate(theirs, 1):
            above = row[place]
            row[place] = before + 1 if word == other else max(above, row[place - 1])
            before = above
    return row[-1]


def accuracy(ours: list[str], theirs: list[str]) -> float:
    """Return whether the sentences are equal."""
    return float(ours == theirs)


def word_accuracy(ours: list[str], theirs: list[str]) -> float:
    """Return the share of correct words; an empty translation of an empty line is correct."""
    right = sum(one == other for one, other in zip(ours, theirs, strict=False))
    return right / max(len(ours), len(theirs)) if ours or theirs else 1.0


METRICS = {
    "rouge": partial(SentenceMean, "ROUGE-L", rouge_l),
    "accuracy": partial(SentenceMean, "accuracy", accuracy),
    "word_accuracy": partial(SentenceMean, "word accuracy", word_accuracy),
}
