"""TF-NMT's metrics by hand."""

import itertools

import numpy as np
import pytest

from aevnmt_tf.evaluation import metrics, tf_nmt_metrics

HYPOTHESES = ["a b c d", "a b", "", "x y z"]
REFERENCES = ["a c d e f", "a b", "", "p q"]


def test_rouge_by_hand():
    # 3 words of 4 and of 5 in common: P 3/4, R 3/5, beta P / R; two sentences without any.
    p, r = 3 / 4, 3 / 5
    beta = p / r
    expected = [(1 + beta**2) * r * p / (r + beta**2 * p), 1.0, 0.0, 0.0]
    found = metrics.score(HYPOTHESES, REFERENCES, names=["rouge"])["rouge"]
    assert found.value == pytest.approx(100 * np.mean(expected))
    assert metrics.sentence_scores(HYPOTHESES, REFERENCES, name="rouge") == pytest.approx(
        [100 * value for value in expected]
    )


def test_accuracies_by_hand():
    found = metrics.score(HYPOTHESES, REFERENCES, names=["accuracy", "word_accuracy"])
    assert found["accuracy"].value == pytest.approx(100 * 2 / 4)
    assert found["word_accuracy"].value == pytest.approx(100 * (1 / 5 + 1 + 1 + 0) / 4)
    assert "nrefs:1" in found["accuracy"].signature


def test_longest_common_subsequence_is_that_of_exhaustive_search():
    def exhaustive(ours, theirs):
        for size in range(len(ours), 0, -1):
            for chosen in itertools.combinations(ours, size):
                rest = iter(theirs)
                if all(word in rest for word in chosen):
                    return size
        return 0

    rng = np.random.default_rng(0)
    for _ in range(50):
        ours, theirs = (list(rng.choice(list("abc"), rng.integers(0, 7))) for _ in "xy")
        assert tf_nmt_metrics.longest_common(ours, theirs) == exhaustive(ours, theirs)
