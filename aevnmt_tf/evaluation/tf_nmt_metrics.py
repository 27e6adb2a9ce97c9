"""The metrics of TF-NMT other than BLEU, for sacreBLEU: means over sentences, times 100.

rouge            ROUGE-L: F-measure of the longest common subsequence, beta = precision / recall
accuracy         share of sentences that equal their reference
word_accuracy    words equal to the reference at their position, over the longer length
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric, Score

Rows = list[list[float]]


class _SentenceMean(Metric):
    """The mean over sentences of a number between 0 and 1."""

    title = ""

    def __init__(self, references: Sequence[Sequence[str]] | None = None) -> None:
        super().__init__()
        if references is not None:
            self._ref_cache = self._cache_references(references)

    def of_sentence(self, ours: list[str], theirs: list[str]) -> float:
        """Return the score of a translation and its reference, both split into words."""
        raise NotImplementedError

    def _preprocess_segment(self, sent: str) -> str:
        return sent.strip()

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"reference": refs[0]}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict) -> list[float]:
        return [self.of_sentence(hypothesis.split(), ref_kwargs["reference"].split()), 1.0]

    def _compute_score_from_stats(self, stats: Any) -> Score:
        total, count = stats
        return Score(self.title, 100.0 * total / max(count, 1.0))

    def _aggregate_and_compute(self, stats: Rows) -> Score:
        some = len(stats) > 0  # approximate randomisation passes an array
        return self._compute_score_from_stats(np.sum(stats, axis=0) if some else (0.0, 0.0))


class RougeL(_SentenceMean):
    """ROUGE-L as TF-NMT computes it."""

    title = "ROUGE-L"

    def of_sentence(self, ours: list[str], theirs: list[str]) -> float:
        """Return the F-measure."""
        common = _longest_common(ours, theirs)
        if not common:
            return 0.0
        precision, recall = common / len(ours), common / len(theirs)
        squared = (precision / recall) ** 2
        return (1 + squared) * recall * precision / (recall + squared * precision)


class Accuracy(_SentenceMean):
    """Accuracy of whole sentences."""

    title = "accuracy"

    def of_sentence(self, ours: list[str], theirs: list[str]) -> float:
        """Return whether the sentences are equal."""
        return float(ours == theirs)


class WordAccuracy(_SentenceMean):
    """Accuracy of words at their positions."""

    title = "word accuracy"

    def of_sentence(self, ours: list[str], theirs: list[str]) -> float:
        """Return the share of correct words."""
        right = sum(one == other for one, other in zip(ours, theirs, strict=False))
        # An empty translation of an empty reference is correct.
        return right / max(len(ours), len(theirs)) if ours or theirs else 1.0


METRICS = {"rouge": RougeL, "accuracy": Accuracy, "word_accuracy": WordAccuracy}


def _longest_common(ours: list[str], theirs: list[str]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(theirs) + 1)
    for word in ours:
        before = 0  # the entry to the upper left
        for place, other in enumerate(theirs, 1):
            above = row[place]
            row[place] = before + 1 if word == other else max(above, row[place - 1])
            before = above
    return row[-1]
