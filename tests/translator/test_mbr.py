"""Minimum Bayes risk: pairwise against brute force, aggregated against sacreBLEU's n-grams."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu import metrics
from sacrebleu.metrics import helpers

from aevnmt_tf.translator import Translation, mbr
from tests.tiny_translator import LINES, make

K = 8
METRICS = {"chrf": metrics.CHRF(), "bleu": metrics.BLEU(effective_order=True)}


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


# References aggregated into one, in the graph.

run = tf.function(mbr.aggregated_chrf, input_signature=[tf.TensorSpec([None, None], tf.string)])


def averaged(texts):
    """The same by Counters and exact fractions, with sacreBLEU's formula."""
    metric = metrics.CHRF()
    ngrams = [helpers.extract_all_char_ngrams(t, metric.char_order) for t in texts]
    means = [Counter() for _ in range(metric.char_order)]
    for found in ngrams:
        for order, counts in enumerate(found):
            means[order].update({g: Fraction(c, len(texts)) for g, c in counts.items()})
    scores = []
    for found in ngrams:
        statistics = []
        for mine, mean in zip(found, means, strict=True):
            matches = sum(min(count, mean[gram]) for gram, count in mine.items())
            statistics += [sum(mine.values()), sum(mean.values()), matches]
        scores.append(metric._compute_f_score([float(value) for value in statistics]))
    return scores


# Spaces of all kinds, letters of several bytes, a letter outside of the basic plane.
TEXTS = st.text("ab c.é日𝄞\t\u00a0\u2003\u3000\x1f\x85", max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5).flatmap(lambda k: st.lists(
    st.lists(TEXTS, min_size=k, max_size=k), min_size=1, max_size=3)))  # fmt: skip
def test_it_is_sacrebleus_chrf_of_averaged_counts(rows):
    np.testing.assert_allclose(run(tf.constant(rows)), [averaged(r) for r in rows], rtol=1e-12)


def test_python_has_no_other_spaces():
    """Every character that str.split takes for a space is left out, and no other is."""
    for number in (*range(1, 0xD800), *range(0xE000, 0x3100)):
        if chr(number).isspace():
            assert run(tf.constant([["ab", f"a{chr(number)}b"]])).numpy().min() == 100.0
    for number in (0x180E, 0x200B, 0x2060, 0xFEFF):
        assert run(tf.constant([["ab", f"a{chr(number)}b"]])).numpy().min() < 100.0


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=2))
def test_one_reference_is_the_pairwise_score(texts):
    """Where all samples are one text, averaging changes nothing: plain sentence chrF."""
    (score,) = averaged(texts[:1])
    assert run(tf.constant([texts[:1] * 4])).numpy()[0].tolist() == pytest.approx([score] * 4)
    assert score == pytest.approx(metrics.CHRF().sentence_score(texts[0], texts[:1]).score)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.permutations("abcdé"), min_size=1, max_size=6))
def test_it_is_the_pairwise_utility_where_averages_lose_nothing(letters):
    """Texts of one length without an n-gram twice: the same utilities, the same winner.

    Then min(count, mean count) is a mean of minima, and precision is recall, so that F is
    linear.
    """
    texts = ["".join(each[:4]) for each in letters]
    pairwise = mbr.expected_utilities(Counter(texts), utility="chrf")
    expected = [pairwise[name] for name in texts]
    scores = run(tf.constant([texts])).numpy()[0]
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    assert np.argmax(scores) == np.argmax(np.round(expected, 9))


@pytest.mark.parametrize("options", [{}, {"epsilon": 0.1}])
def test_aggregate_takes_the_best_of_the_same_samples(options):
    """The graph's choice is the oracle's among what `sample` draws, and is in order."""
    t, count = make(), 8
    drawn = t.n_best(LINES, search="sample", z="sample", n_best=count, seed=2, **options)
    rule = {"search": "mbr", "references": "aggregate", "num_samples": count}
    chosen = t.n_best(LINES, **rule, n_best=3, seed=2, **options)
    for line, samples, found in zip(LINES, drawn, chosen, strict=True):
        if not line.strip():
            assert [(one.text, one.score) for one in found] == [("", 0.0)]
            continue
        texts = [one.text for one in samples]
        scores = dict(zip(texts[::-1], averaged(texts)[::-1], strict=True))
        best = sorted(dict.fromkeys(texts), key=lambda name: -round(scores[name], 9))[:3]
        assert [one.text for one in found] == best
        np.testing.assert_allclose([o.score for o in found], [scores[b] for b in best], 1e-5)
        assert found[0].log_prob == pytest.approx(samples[texts.index(best[0])].log_prob)
