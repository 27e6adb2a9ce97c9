"""Minimum Bayes risk, against the brute-force choice."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import metrics

from aevnmt_tf.translator import Translation, mbr
from tests.tiny_translator import LINES, make

K = 8
METRICS = {"chrf": metrics.CHRF(), "bleu": metrics.BLEU(effective_order=True)}


@pytest.fixture(scope="module")
def shared():
    return make()


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_mbr_is_the_brute_force_choice_among_the_samples(shared, utility):
    samples = shared.n_best(LINES, search="sample", z="sample", n_best=K, seed=2)
    chosen = shared.n_best(LINES, search="mbr", num_samples=K, utility=utility, seed=2)
    for line, drawn, (best,) in zip(LINES, samples, chosen, strict=True):
        if not line.strip():
            assert (best.text, best.score) == ("", 0.0)
            continue
        assert len(drawn) == K and len({t.text for t in drawn}) > 1
        score = METRICS[utility].sentence_score
        means = [np.mean([score(h.text, [y.text]).score for y in drawn]) for h in drawn]
        first = next(k for k, mean in enumerate(means) if mean > max(means) - 1e-9)
        assert best.text == drawn[first].text
        assert best.log_prob == pytest.approx(drawn[first].log_prob)
        assert best.score == pytest.approx(means[first])


def test_mbr_depends_on_the_seed_alone(shared):
    options = {"search": "mbr", "num_samples": K}
    one = shared.n_best(LINES, seed=3, **options)
    assert one == shared.n_best(LINES, seed=3, **options)
    assert one != shared.n_best(LINES, seed=4, **options)
    alone = shared.n_best(["", LINES[1]], seed=3, **options)[1]
    assert [t.text for t in alone] == [t.text for t in one[1]]


def test_mbr_n_best_are_different_and_in_order(shared):
    for found in shared.n_best(LINES[:2], search="mbr", num_samples=K, n_best=4):
        assert len({t.text for t in found}) == len(found) > 1
        assert sorted((t.score for t in found), reverse=True) == [t.score for t in found]


def samples_of(*texts):
    return [Translation(t, 0.0, -float(k)) for k, t in enumerate(texts)]


def test_ties_go_to_the_first_sample():
    for texts in (("ab", "cd"), ("cd", "ab"), ("cd", "ab", "ab", "cd")):
        (best,) = mbr.rank(samples_of(*texts), utility="chrf")
        assert (best.text, best.log_prob) == (texts[0], 0.0)
    found = mbr.rank(samples_of("x", "ab", "y", "ab"), utility="chrf", n_best=9)
    assert [t.text for t in found] == ["ab", "x", "y"], "more samples, more utility"
    assert found[0].score == 50.0 and found[0].log_prob == -1.0


def test_the_order_of_the_samples_cannot_break_a_tie():
    """b and c have the same utilities in another order, of which a naive sum may differ."""
    texts = ["abcdefg", "abcdxyz", "stcdefg", "abqqefg"]
    scores = {}
    for shift in range(4):
        turned = texts[shift:] + texts[:shift]
        found = mbr.rank(samples_of(*turned), utility="chrf", n_best=4)
        for t in found:
            assert scores.setdefault(t.text, t.score) == t.score


@given(st.lists(st.text("ab c.é日", max_size=12), min_size=1, max_size=6, unique=True))
def test_chrf_is_sacrebleus(texts):
    expected = mbr.expected_utilities(dict.fromkeys(texts, 1), utility="chrf")
    for h in texts:
        scores = [METRICS["chrf"].sentence_score(h, [y]).score for y in texts]
        assert expected[h] == math.fsum(scores) / len(texts)


def test_mbr_without_z():
    """The words alone are drawn."""
    (found,) = make("cond").n_best(["a b c"], search="mbr", num_samples=4, n_best=4)
    assert len(found) > 1
