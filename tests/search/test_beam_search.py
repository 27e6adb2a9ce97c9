"""Beam search, against the list of all hypotheses."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from aevnmt_tf import search
from tests.search.toy import Toy, everything, graph, listed, score

SOS, EOS = 1, 2
PENALTIES = (0.0, 0.6, 1.0, 2.0, -0.5)


@pytest.mark.parametrize("weight", PENALTIES)
@pytest.mark.parametrize("seed", range(2))
def test_wide_beam_is_exhaustive_search(seed, weight):
    toy = Toy(seed, vocab=3)
    sources = toy.sources(3)
    limits = [5, 3, 4]
    got = graph(
        lambda: search.beam(
            toy.problem(sources, limits), width=64, n_best=6, length_penalty_weight=weight
        )
    )
    for row, limit in enumerate(limits):
        expected = everything(toy, sources[row], limit, weight)[:6]
        assert listed(got)[row][: len(expected)] == [ids for _, ids in expected]
        np.testing.assert_allclose(
            got.scores[row][: len(expected)], [s for s, _ in expected], rtol=1e-5
        )


def test_coverage_penalty_is_that_of_exhaustive_search():
    toy, limits, weight = Toy(3, vocab=3), [4, 3], 0.7
    sources, lengths = toy.sources(2), [3, 2]

    def penalised(row, limit):
        found = []
        for total, ids in everything(toy, sources[row], limit, 1.0):
            if ids[-1] != EOS:
                continue
            attention = toy.follow(sources[row], ids)[1]
            covered = np.minimum(1.0, np.sum(attention, axis=0)[: lengths[row]])
            found.append((total + weight * np.log(covered).sum(), ids))
        return sorted(found, reverse=True)[:4]

    mask = tf.sequence_mask(lengths, 3)
    got = graph(
        lambda: search.beam(
            toy.problem(sources, limits, source_mask=mask),
            width=64,
            n_best=4,
            length_penalty_weight=1.0,
            coverage_penalty_weight=weight,
        )
    )
    for row, limit in enumerate(limits):
        expected = penalised(row, limit)
        assert listed(got)[row] == [ids for _, ids in expected]
        np.testing.assert_allclose(got.scores[row], [s for s, _ in expected], rtol=1e-4)


@given(
    seed=st.integers(0, 10**6),
    vocab=st.integers(3, 6),
    width=st.integers(1, 5),
    weight=st.sampled_from(PENALTIES),
    eos_bias=st.sampled_from([-3.0, 0.0, 3.0]),
    limits=st.lists(st.integers(1, 9), min_size=1, max_size=5),
)
@settings(max_examples=15)
def test_beam_keeps_its_promises(seed, vocab, width, weight, eos_bias, limits):
    toy = Toy(seed, vocab=vocab, eos_bias=eos_bias)
    sources = toy.sources(len(limits))
    got = search.beam(
        toy.problem(sources, limits), width=width, n_best=width, length_penalty_weight=weight
    )
    ids = got.ids.numpy()
    for row, limit in enumerate(limits):
        hypotheses = listed(got)[row]
        assert list(got.scores[row]) == sorted(got.scores[row], reverse=True)
        real = [h for h in hypotheses if h]
        assert real and hypotheses[: len(real)] == real, "the best one exists"
        assert len({tuple(h) for h in real}) == len(real), "no hypothesis twice"
        for k, hypothesis in enumerate(real):
            assert len(hypothesis) <= limit
            assert EOS not in hypothesis[:-1], "a finished hypothesis does not grow"
            assert set(ids[row, k, len(hypothesis) :]) <= {EOS}, "</s> pads"
            if hypothesis[-1] != EOS:
                assert len(hypothesis) == limit and all(h[-1] != EOS for h in real)
            log_prob = toy.log_prob(sources[row], hypothesis)
            np.testing.assert_allclose(got.log_probs[row, k], log_prob, rtol=1e-4, atol=1e-5)
            expected = score(log_prob, len(hypothesis), weight)
            np.testing.assert_allclose(got.scores[row, k], expected, rtol=1e-4, atol=1e-5)
        for k in range(len(real), width):
            assert got.scores[row, k] == -np.inf and got.log_probs[row, k] == -np.inf


@given(
    seed=st.integers(0, 10**6),
    weight=st.sampled_from(PENALTIES),
    eos_bias=st.sampled_from([-2.0, 0.0, 2.0]),
    min_length=st.sampled_from([None, 3]),
)
@settings(max_examples=10)
def test_beam_of_one_is_greedy(seed, weight, eos_bias, min_length):
    toy = Toy(seed, vocab=7, eos_bias=eos_bias)
    problem = toy.problem(
        toy.sources(4), [9, 1, 4, 7], min_length=min_length, with_attention=True
    )
    one = search.beam(problem, width=1, length_penalty_weight=weight)
    other = search.greedy(problem, length_penalty_weight=weight)
    assert listed(one) == listed(other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_stops_as_soon_as_no_live_hypothesis_can_win():
    """</s> has probability 1 / (1 + e^-20) at once: no reason for a second step."""
    calls = []

    def step(memory, state, y):
        calls.append(1)
        logits = tf.tile([[0.0, -9.0, 20.0, -9.0]], [tf.shape(y)[0], 1])
        return logits, state, tf.zeros([tf.shape(y)[0], 1])

    problem = search.SearchProblem(step, (), tf.zeros([2, 1]), tf.constant([50, 50]))
    got = search.beam(problem, width=3, length_penalty_weight=1.0)
    assert len(calls) == 1 and listed(got) == [[[EOS]], [[EOS]]]
    calls.clear()
    search.beam(problem, width=3, n_best=3, length_penalty_weight=1.0)
    assert 1 < len(calls) < 50, "three are wanted, so it goes on until three are there"


def test_goes_on_while_a_live_hypothesis_can_win():
    """Short hypotheses fill the beam's list, yet the penalty makes the longest one the best."""

    def step(memory, state, y):
        ends = [[-9.0, -9.0, 9.0, -9.0]]
        early = tf.math.log([[1e-4, 1e-4, 0.3, 0.7]])
        rows = tf.shape(y)[0]
        return tf.where(state >= 5, ends, early), state + 1, tf.zeros([rows, 1])

    problem = search.SearchProblem(step, (), tf.zeros([1, 1]), tf.constant([9]))
    got = search.beam(problem, width=2, length_penalty_weight=2.0)
    assert listed(got) == [[[3, 3, 3, 3, 3, EOS]]]
    short = search.beam(problem, width=2, length_penalty_weight=0.0)
    assert listed(short) == [[[EOS]]]


@pytest.mark.parametrize("n_best", [0, 4])
def test_n_best_must_fit_the_beam(n_best):
    toy = Toy(0)
    with pytest.raises(ValueError, match="n_best must be from 1 to the beam width 3"):
        search.beam(toy.problem(toy.sources(1), [3]), width=3, n_best=n_best)
