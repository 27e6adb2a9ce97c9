"""The schedules' values, worked out by hand and by TF-NMT's own formulas."""

import math

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.training import schedules


@pytest.mark.parametrize(
    ("updates", "steps", "expected"),
    [
        (0, 0, 1.0),
        (7, 0, 1.0),
        (0, 80000, 0.0),
        (1, 4, 0.25),
        (3, 4, 0.75),
        (4, 4, 1.0),
        (9, 4, 1.0),
    ],
)
def test_kl_weight(updates, steps, expected):
    assert float(schedules.kl_weight(updates, steps)) == expected
    tensor = schedules.kl_weight(tf.constant(updates, tf.int64), steps)
    assert tensor.dtype == tf.float32
    assert float(tensor) == expected


def weight_after(updates, **options):
    return float(schedules.kl_weight(updates, 10, **options))


def test_cycles_of_annealing():
    """Up for 10 updates, 1 for 10, three times; then 1 for good."""
    for updates, expected in {0: 0, 5: 0.5, 10: 1, 19: 1, 20: 0, 22: 0.2, 35: 1}.items():
        assert weight_after(updates, cycles=3) == pytest.approx(expected)
        assert weight_after(tf.constant(updates, tf.int64), cycles=3) == pytest.approx(expected)
    after = [weight_after(updates, cycles=3) for updates in (40, 45, 50, 60, 1000)]
    assert after == [0.0, 0.5, 1.0, 1.0, 1.0]
    one = [weight_after(updates, cycles=1) for updates in range(50)]
    assert one == [weight_after(updates) for updates in range(50)]


def test_kl_weight_of_a_variable_follows_it_inside_a_graph():
    updates = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def weight():
        return schedules.kl_weight(updates, 10)

    values = []
    for _ in range(12):
        values.append(float(weight()))
        updates.assign_add(1)
    assert values == pytest.approx([min(1.0, n / 10) for n in range(12)])


def test_learning_rate_is_constant_by_default():
    for updates in (0, 1, 10**6):
        assert float(schedules.learning_rate(updates, base=0.0003)) == np.float32(0.0003)
        tensor = schedules.learning_rate(tf.constant(updates, tf.int64), base=0.0003)
        assert tensor.dtype == tf.float32
        assert float(tensor) == pytest.approx(0.0003)


def test_warmup_starts_at_a_hundredth_and_ends_at_the_rate():
    def rate(updates):
        return float(schedules.learning_rate(updates, base=2.0, warmup_steps=100))

    factor = math.exp(math.log(0.01) / 100)
    assert rate(0) == pytest.approx(0.02)
    assert rate(50) == pytest.approx(0.2)
    assert rate(99) == pytest.approx(2.0 * factor)
    assert rate(100) == 2.0
    assert rate(5000) == 2.0
    for updates in (0, 50, 99, 100, 5000):
        assert rate(tf.constant(updates, tf.int64)) == rate(updates)


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        # start 6000, one halving every 1200
        ("luong5", {0: 0, 6000: 0, 7199: 0, 7200: 1, 8400: 2, 11999: 4, 12000: 5, 13200: 6}),
        # start 6000, every 600
        ("luong10", {6599: 0, 6600: 1, 9000: 5, 11999: 9, 12000: 10}),
        # start 8000, every 1000
        ("luong234", {8000: 0, 8999: 0, 9000: 1, 11999: 3, 12000: 4}),
    ],
)
def test_decay(scheme, expected):
    for updates, halvings in expected.items():
        arguments = {"base": 1.0, "decay_scheme": scheme, "num_train_steps": 12000}
        assert float(schedules.learning_rate(updates, **arguments)) == 0.5**halvings
        tensor = schedules.learning_rate(tf.constant(updates, tf.int64), **arguments)
        assert float(tensor) == 0.5**halvings


def test_linear_decay_ends_at_zero():
    arguments = {"base": 2.0, "decay_scheme": "linear", "num_train_steps": 8}
    expected = [2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    for updates, rate in enumerate(expected):
        assert float(schedules.learning_rate(updates, **arguments)) == rate
        tensor = schedules.learning_rate(tf.constant(updates, tf.int64), **arguments)
        assert tensor.dtype == tf.float32 and float(tensor) == rate


def test_warmup_and_decay_multiply():
    rate = schedules.learning_rate(
        9000, base=1.0, warmup_steps=18000, decay_scheme="luong234", num_train_steps=12000
    )
    assert float(rate) == pytest.approx(0.1 * 0.5)


def test_more_halvings_than_steps_is_no_division_by_zero():
    rate = schedules.learning_rate(4, base=1.0, decay_scheme="luong10", num_train_steps=4)
    assert float(rate) == 0.25
