"""Passes over the vocabulary, against TensorFlow's own functions."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from aevnmt_tf import search
from aevnmt_tf.search import vocabulary
from tests.search.toy import Toy


@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([5, 400, 1000, 1023, 1024]),
    count=st.integers(1, 5),
    levels=st.sampled_from([3, 40, 10**6]),
)
@settings(max_examples=25)
def test_best_words_is_top_k(seed, size, count, levels):
    """With few levels there are ties, which must come in the same order."""
    random = np.random.default_rng(seed)
    logits = tf.constant(random.integers(0, levels, (4, size)).astype(np.float32))
    expected = tf.math.top_k(logits, count)
    values, words = vocabulary.best_words(logits, count=count)
    np.testing.assert_array_equal(values, expected.values)
    np.testing.assert_array_equal(words, expected.indices)


@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([5, 67, 400, 1023, 1024]),
    width=st.sampled_from([1, 3, 40]),
    levels=st.sampled_from([3, 40, 10**6]),
    dead=st.booleans(),
)
@settings(max_examples=40)
def test_best_continuations_are_those_of_the_whole_table(seed, size, width, levels, dead):
    """Of K V log-probabilities a sentence, ties in order; a dead hypothesis is never better."""
    random = np.random.default_rng(seed)
    logits = tf.constant(random.integers(0, levels, (2 * width, size)).astype(np.float32))
    live = random.normal(size=(2, width)).astype(np.float32)
    if dead:
        live[:, 1:] = -np.inf
    count = min(2 * width, width * size)
    normaliser = vocabulary.log_normaliser(logits, best=tf.reduce_max(logits, 1))
    log_probs = logits - normaliser[:, None]
    table = tf.reshape(log_probs, [2, width, size]) + live[:, :, None]
    expected = tf.math.top_k(tf.reshape(table, [2, -1]), count)
    got, words, parents = vocabulary.best_continuations(logits, tf.constant(live), count=count)
    np.testing.assert_array_equal(got, expected.values)
    assert (0 <= words.numpy()).all() and (words.numpy() < size).all()
    real = np.isfinite(got)
    assert real[:, : min(count, size)].all()
    np.testing.assert_array_equal(words.numpy()[real], (expected.indices.numpy() % size)[real])
    np.testing.assert_array_equal(
        parents.numpy()[real], (expected.indices.numpy() // size)[real]
    )


@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
def test_all_ways_to_the_normaliser(scale):
    logits = scale * np.random.default_rng(3).normal(size=(7, 50))
    expected = np.logaddexp.reduce(logits, axis=1)  # in float64
    logits = tf.constant(logits, tf.float32)
    got = vocabulary.log_normaliser(logits, best=tf.reduce_max(logits, 1))
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    best, words = (v[:, 0] for v in tf.math.top_k(logits, 1))
    got = vocabulary.log_normaliser(logits, best=best, words=words)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_large_logits_do_not_overflow():
    toy = Toy(15, vocab=6, scale=200.0)
    sources = toy.sources(2)
    got = search.beam(toy.problem(sources, [6, 6]), width=3)
    assert np.isfinite(got.scores.numpy()).all()
