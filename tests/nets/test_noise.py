"""Noise is a pure function of (seed, step, row), with the rates that were asked for."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.nets import noise


def mask(rows, *, step=3, name="gru_lm", rate=0.3, shape=(11, 7), num_rows=8):
    seed = noise.seed_for(name, seed=1, step=step)
    return noise.dropout_mask(
        shape, rate=rate, seed=seed, rows=tf.constant(rows), num_rows=num_rows
    ).numpy()


def test_a_row_has_its_mask_wherever_it_is():
    whole = mask(range(8))
    np.testing.assert_array_equal(mask([5, 2]), whole[[5, 2]])


@pytest.mark.parametrize("other", [{"step": 4}, {"name": "gru_dec"}])
def test_streams_differ(other):
    assert (mask(range(8)) != mask(range(8), **other)).any()


def test_rows_differ():
    whole = mask(range(8), shape=(100,))
    assert len({row.tobytes() for row in whole}) == 8


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_rate_and_scale(rate):
    values = mask(range(8), rate=rate, shape=(101, 101))
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / (1 - rate))}
    error = np.sqrt(rate * (1 - rate) / values.size)
    assert abs((values == 0).mean() - rate) < 4 * error


def test_neighbours_are_independent():
    dropped = mask(range(8), rate=0.5, shape=(64, 64)) == 0
    for axis in range(3):
        same = (np.roll(dropped, 1, axis) == dropped).mean()
        assert abs(same - 0.5) < 4 * 0.5 / np.sqrt(dropped.size)


def test_normal_rows():
    seed = noise.seed_for("epsilon", seed=1, step=0)
    whole = noise.normal((500,), seed=seed, rows=tf.range(8), num_rows=8).numpy()
    some = noise.normal((500,), seed=seed, rows=tf.constant([7, 0]), num_rows=8).numpy()
    np.testing.assert_array_equal(some, whole[[7, 0]])
    assert abs(whole.mean()) < 4 / np.sqrt(whole.size)
    assert abs(whole.std() - 1) < 4 / np.sqrt(2 * whole.size)
