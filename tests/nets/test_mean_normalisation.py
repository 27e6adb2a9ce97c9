"""Batch normalisation of the posterior's mean, against NumPy and differences."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.nets.mean_normalisation import MeanNormalisation
from aevnmt_tf.training import train_step
from tests import tiny
from tests.reference import Reference

SCALE, SIZE = 0.6, 3
ROWS = np.random.default_rng(0).normal(2.0, 3.0, size=(6, SIZE))
WEIGHT = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 1.0])  # two fillers


def layer():
    made = MeanNormalisation(size=SIZE, scale=SCALE, name="norm")
    made.build()
    made.shift.assign([0.1, -0.2, 0.3])
    return made


def normalised(rows, weight=WEIGHT, shift=(0.1, -0.2, 0.3)):
    kept = rows[weight > 0]
    mean, variance = kept.mean(axis=0), kept.var(axis=0)
    return SCALE * (rows - mean) / np.sqrt(variance + 1e-5) + np.array(shift), mean, variance


def test_training_takes_the_statistics_of_the_rows_that_count():
    norm = layer()
    found = norm(tf.constant(ROWS, tf.float32), tf.constant(WEIGHT, tf.float32))
    expected, mean, variance = normalised(ROWS)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(norm.moving_mean, 0.1 * mean, rtol=1e-5)
    np.testing.assert_allclose(norm.moving_variance, 0.9 + 0.1 * variance, rtol=1e-5)
    # The bound of Zhu et al.: the mean square is scale^2 + shift^2.
    square = (found.numpy()[WEIGHT > 0] ** 2).mean(axis=0)
    np.testing.assert_allclose(square, SCALE**2 + np.square([0.1, -0.2, 0.3]), rtol=1e-4)


def test_its_gradient_goes_through_the_statistics():
    norm, factor = layer(), np.random.default_rng(1).normal(size=ROWS.shape)
    rows = tf.Variable(ROWS, dtype=tf.float32)
    with tf.GradientTape() as tape:
        found = norm(rows, tf.constant(WEIGHT, tf.float32))
        total = tf.reduce_sum(found * tf.constant(factor, tf.float32))
    gradient = tape.gradient(total, rows).numpy()
    for place in np.ndindex(ROWS.shape):
        step = np.zeros_like(ROWS)
        step[place] = 1e-5
        up, down = ((normalised(ROWS + s)[0] * factor).sum() for s in (step, -step))
        assert gradient[place] == pytest.approx((up - down) / 2e-5, rel=1e-3, abs=1e-5)


def test_evaluation_takes_moving_statistics_that_follow_the_batches():
    norm = layer()
    for _ in range(200):
        norm(tf.constant(ROWS, tf.float32), tf.constant(WEIGHT, tf.float32))
    expected, _, _ = normalised(ROWS)
    found = norm(tf.constant(ROWS, tf.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    alone = norm(tf.constant(ROWS[:1], tf.float32))
    np.testing.assert_allclose(alone, found[:1], rtol=1e-6)


def test_a_batch_that_is_not_finite_is_not_followed():
    norm = layer()
    norm(tf.constant([[np.nan, 1.0, 2.0]] * 2, tf.float32), tf.ones([2]))
    np.testing.assert_array_equal(norm.moving_mean, np.zeros(SIZE))
    np.testing.assert_array_equal(norm.moving_variance, np.ones(SIZE))


def test_the_posterior_of_a_training_step_against_numpy():
    """In training q's mean is normalised over the batch; the filler has no say."""
    model = tiny.build("menu")
    batch = tiny.batch() | {"weight": tf.constant([1.0, 1.0, 1.0, 1.0, 0.0])}
    q = model.posterior(model.embed(batch), noise=model.noise(batch, 1))
    plain = Reference(tiny.weights(model))
    locs = np.stack([plain.posterior(x, y)[0] for x, y in tiny.PAIRS])
    norm = (0.6, locs[:4].mean(axis=0), locs[:4].var(axis=0))
    twin = Reference(tiny.weights(model), norm=norm)
    for b, (x, y) in enumerate(tiny.PAIRS):
        loc, scale = twin.posterior(x, y)
        np.testing.assert_allclose(q.mean()[b], loc, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(q.stddev()[b], scale, rtol=1e-5)


def test_a_keras_file_has_the_moving_statistics(tmp_path):
    model = train_step.build(tiny.settings("menu"), tiny.VOCAB_X, tiny.VOCAB_Y)
    model.train_on(tiny.batch())
    model.save(str(tmp_path / "model.keras"))
    other = keras.saving.load_model(str(tmp_path / "model.keras"))
    norm = model.posterior.norm
    assert np.any(norm.moving_mean.numpy() != 0.0)
    np.testing.assert_array_equal(other.posterior.norm.moving_mean, norm.moving_mean)
    np.testing.assert_allclose(
        other.infer(tiny.batch()).mean(), model.infer(tiny.batch()).mean(), rtol=1e-5
    )
