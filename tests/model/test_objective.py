"""KL, D(r, q), the training loss and importance weighting, against Monte Carlo and by hand."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from aevnmt_tf.model import objective

tfd = tfp.distributions

# loc and scale, [B, Z].
Q = (
    np.array([[0.3, -1.1, 0.0], [0.8, 0.1, 2.0]]),
    np.array([[0.5, 1.3, 1.0], [0.2, 2.0, 0.7]]),
)
R = (
    np.array([[0.1, -0.4, 0.3], [0.8, 0.0, 1.5]]),
    np.array([[0.6, 1.0, 0.9], [0.3, 1.1, 1.7]]),
)
DRAWS = 200_000


def gaussian(parameters):
    loc, scale = (tf.constant(p, tf.float32) for p in parameters)
    return tfd.Independent(tfd.Normal(loc, scale), 1)


def draws(parameters, seed):
    loc, scale = parameters
    return loc + scale * np.random.default_rng(seed).normal(size=(DRAWS, *loc.shape))


def log_density(z, parameters):
    """By dimension, [S, B, Z]; SciPy's and ours are not used on purpose."""
    loc, scale = parameters
    return -0.5 * ((z - loc) / scale) ** 2 - np.log(scale * np.sqrt(2.0 * np.pi))


def estimate_kl(a, b, seed):
    """Monte Carlo mean and standard error of KL(a || b) by dimension."""
    z = draws(a, seed)
    ratio = log_density(z, a) - log_density(z, b)
    return ratio.mean(axis=0), ratio.std(axis=0) / np.sqrt(DRAWS)


def assert_within(actual, mean, error, *, errors=4.0):
    assert np.all(np.abs(np.asarray(actual) - mean) <= errors * error + 1e-6)


@pytest.mark.parametrize("mode", ["KLq", "KLr", "JS"])
def test_divergence_against_monte_carlo(mode):
    forward, forward_error = (a.sum(-1) for a in estimate_kl(Q, R, 2))
    backward, backward_error = (a.sum(-1) for a in estimate_kl(R, Q, 3))
    expected = {
        "KLq": (forward, forward_error),
        "KLr": (backward, backward_error),
        "JS": (forward + backward, forward_error + backward_error),
    }[mode]
    actual = objective.DIVERGENCES[mode](gaussian(R), gaussian(Q))
    assert actual.shape == (2,)
    assert_within(actual, *expected)


def test_l2_against_monte_carlo():
    """The squared distance between the point and the average of draws from q."""
    z = draws(Q, 4)
    error = z.std(axis=0) / np.sqrt(DRAWS)
    distance = np.abs(R[0] - z.mean(axis=0))
    point = tfd.VectorDeterministic(tf.constant(R[0], tf.float32))
    actual = objective.DIVERGENCES["l2"](point, gaussian(Q))
    assert actual.shape == (2,)
    assert_within(actual, (distance**2).sum(-1), (2.0 * distance * error + error**2).sum(-1))


@pytest.mark.parametrize("mode", sorted(objective.DIVERGENCES))
def test_divergence_is_zero_only_where_r_is_q(mode):
    divergence = objective.DIVERGENCES[mode]
    np.testing.assert_allclose(divergence(gaussian(Q), gaussian(Q)), [0.0, 0.0], atol=1e-6)
    assert np.all(divergence(gaussian(R), gaussian(Q)) > 0.01)


ONE_OF_TWO = tf.constant([1.0, 0.0])
FREE_BITS_FOR = ["z", "dimension", "batch", "batch_dimension"]


def terms():
    return objective.LossTerms(
        nll_x=tf.constant([1.0, 2.0]),
        nll_y=tf.constant([10.0, 20.0]),
        kl=tf.constant([[0.5, 0.25], [3.0, 1.0]]),
        r_divergence=tf.constant([0.125, 2.0]),
        correct_x=tf.zeros([2]),
        correct_y=tf.zeros([2]),
        smoothing=tf.zeros([2]),
        bow_x=tf.zeros([2]),
        bow_y=tf.zeros([2]),
        consistency=tf.constant([0.5, 4.0]),
    )


def test_elbo_by_hand():
    np.testing.assert_allclose(objective.elbo(terms()), [-11.75, -26.0])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [11.875, 28.0]),
        ({"kl_weight": 0.0}, [11.0, 22.0]),
        ({"consistency_weight": 2.0, "kl_weight": 0.5}, [12.4375, 33.0]),
        ({"kl_weight": 0.5}, [11.4375, 25.0]),
        ({"free_bits": 2.0}, [13.125, 28.0]),
        ({"free_bits": 2.0, "kl_weight": 0.5}, [12.0625, 25.0]),
        ({"free_bits": 2.0, "free_bits_for": "dimension"}, [15.125, 29.0]),
        ({"free_bits": 0.3, "free_bits_for": "dimension"}, [11.925, 28.0]),
        # The mean KL of the batch is 2.375: 1.75 and 0.625 by dimension.
        ({"free_bits": 2.0, "free_bits_for": "batch"}, [11.875, 28.0]),
        ({"free_bits": 3.0, "free_bits_for": "batch"}, [14.125, 27.0]),
        ({"free_bits": 1.0, "free_bits_for": "batch_dimension"}, [12.625, 28.0]),
        # Without the second sentence it is 0.75.
        ({"free_bits": 2.0, "free_bits_for": "batch", "weight": ONE_OF_TWO}, [13.125, 26.0]),
    ],
)
def test_loss_by_hand(options, expected):
    np.testing.assert_allclose(objective.loss(terms(), **options), expected, rtol=1e-6)


@pytest.mark.parametrize("free_bits_for", FREE_BITS_FOR)
def test_free_bits_cost_nothing_without_z(free_bits_for):
    """A system without a latent variable has the same loss whatever free_bits says."""
    without = terms()._replace(kl=tf.zeros([2, 0]), r_divergence=tf.zeros([2]))
    loss = objective.loss(without, free_bits=2.0, free_bits_for=free_bits_for)
    np.testing.assert_allclose(loss, [11.0, 22.0])


def test_an_estimate_of_the_kl_may_be_negative():
    """Cut off at 0, the estimates of a mixture's KL would be too high on average."""
    estimated = terms()._replace(kl=tf.constant([[-0.5], [4.0]]))
    np.testing.assert_allclose(objective.loss(estimated), [10.625, 28.0])


@pytest.mark.parametrize(
    ("free_bits_for", "expected"),
    [("batch", [[1.0, 1.0], [1.0, 1.0]]), ("batch_dimension", [[1.0, 0.0], [1.0, 0.0]])],
)
def test_the_mean_over_the_batch_decides_for_all_its_sentences(free_bits_for, expected):
    kl = tf.constant([[0.5, 0.25], [3.0, 1.5]])  # the means are 1.75 and 0.875
    with tf.GradientTape() as tape:
        tape.watch(kl)
        loss = objective.loss(
            terms()._replace(kl=kl), free_bits=1.0, free_bits_for=free_bits_for
        )
    np.testing.assert_array_equal(tape.gradient(loss, kl), expected)


@pytest.mark.parametrize("free_bits_for", ["z", "dimension"])
def test_free_bits_stop_the_gradient_of_the_kl(free_bits_for):
    kl = tf.constant([[0.5, 0.25], [3.0, 1.5]])
    with tf.GradientTape() as tape:
        tape.watch(kl)
        loss = objective.loss(
            terms()._replace(kl=kl), free_bits=1.0, free_bits_for=free_bits_for
        )
    np.testing.assert_array_equal(tape.gradient(loss, kl), [[0.0, 0.0], [1.0, 1.0]])
