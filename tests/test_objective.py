"""KL, D(r, q), the training loss and importance weighting, against Monte Carlo and by hand."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from aevnmt_tf import objective
from tests import reference, tiny

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


def test_kl_to_the_prior_against_monte_carlo():
    prior = (np.zeros((2, 3)), np.ones((2, 3)))
    kl = objective.kl_to_prior(gaussian(Q))
    assert kl.shape == (2, 3) and kl.dtype == tf.float32
    assert_within(kl, *estimate_kl(Q, prior, 1))
    np.testing.assert_allclose(kl, reference.kl_from_standard(*Q), rtol=1e-5, atol=1e-6)


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


def terms():
    return objective.LossTerms(
        nll_x=tf.constant([1.0, 2.0]),
        nll_y=tf.constant([10.0, 20.0]),
        kl=tf.constant([[0.5, 0.25], [3.0, 1.0]]),
        r_divergence=tf.constant([0.125, 2.0]),
        correct_x=tf.zeros([2]),
        correct_y=tf.zeros([2]),
        smoothing=tf.zeros([2]),
    )


def test_elbo_by_hand():
    np.testing.assert_allclose(objective.elbo(terms()), [-11.75, -26.0])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [11.875, 28.0]),
        ({"kl_weight": 0.0}, [11.0, 22.0]),
        ({"kl_weight": 0.5}, [11.4375, 25.0]),
        ({"free_bits": 2.0}, [13.125, 28.0]),
        ({"free_bits": 2.0, "kl_weight": 0.5}, [12.0625, 25.0]),
        ({"free_bits": 2.0, "free_bits_for": "dimension"}, [15.125, 29.0]),
        ({"free_bits": 0.3, "free_bits_for": "dimension"}, [11.925, 28.0]),
    ],
)
def test_loss_by_hand(options, expected):
    np.testing.assert_allclose(objective.loss(terms(), **options), expected, rtol=1e-6)


@pytest.mark.parametrize("free_bits_for", ["z", "dimension"])
def test_free_bits_cost_nothing_without_z(free_bits_for):
    """A system without a latent variable has the same loss whatever free_bits says."""
    without = terms()._replace(kl=tf.zeros([2, 0]), r_divergence=tf.zeros([2]))
    loss = objective.loss(without, free_bits=2.0, free_bits_for=free_bits_for)
    np.testing.assert_allclose(loss, [11.0, 22.0])


@pytest.mark.parametrize("free_bits_for", ["z", "dimension"])
def test_free_bits_stop_the_gradient_of_the_kl(free_bits_for):
    kl = tf.constant([[0.5, 0.25], [3.0, 1.5]])
    with tf.GradientTape() as tape:
        tape.watch(kl)
        loss = objective.loss(
            terms()._replace(kl=kl), free_bits=1.0, free_bits_for=free_bits_for
        )
    np.testing.assert_array_equal(tape.gradient(loss, kl), [[0.0, 0.0], [1.0, 1.0]])


def test_importance_weighted_bound_by_hand():
    log_w = np.log([[1.0, 2.0], [3.0, 2.0], [5.0, 2.0]]).astype(np.float32)
    np.testing.assert_allclose(
        objective.importance_weighted(tf.constant(log_w)), np.log([3.0, 2.0]), rtol=1e-6
    )
    np.testing.assert_allclose(
        objective.effective_sample_size(tf.constant(log_w)), [81.0 / 35.0, 3.0], rtol=1e-6
    )


def test_importance_weighting_survives_small_probabilities():
    log_w = tf.constant([[-1000.0], [-1001.0], [-3000.0]])
    expected = -1000.0 + np.log((1.0 + np.exp(-1.0)) / 3.0)
    np.testing.assert_allclose(objective.importance_weighted(log_w), [expected], rtol=1e-6)
    size = (1.0 + np.exp(-1.0)) ** 2 / (1.0 + np.exp(-2.0))
    np.testing.assert_allclose(objective.effective_sample_size(log_w), [size], rtol=1e-5)


def test_more_draws_never_loosen_the_bound():
    """Jensen, same draws: IW over k S draws is at least the mean of IW over k groups of S."""
    log_w = np.random.default_rng(0).normal(size=(24, 7)).astype(np.float32) * 3.0
    whole = objective.importance_weighted(tf.constant(log_w)).numpy()
    for size in (1, 2, 3, 4, 6, 8, 12):
        groups = [
            objective.importance_weighted(tf.constant(group)).numpy()
            for group in np.split(log_w, 24 // size)
        ]
        assert np.all(whole >= np.mean(groups, axis=0) - 1e-6)
        assert np.any(whole > np.mean(groups, axis=0) + 0.1)


def test_log_weights_with_one_draw():
    """IW_1 = log p(data|z) + log p(z) - log q(z)."""
    z = tiny.epsilon([1, 2, 3])
    likelihood = np.array([[-3.0, -7.0]], np.float32)
    q = gaussian(Q)
    log_w = objective.log_weights(tf.constant(likelihood), tf.constant(z), q)
    prior = reference.log_normal(z.astype(np.float64), 0.0, 1.0)
    expected = likelihood + prior - reference.log_normal(z.astype(np.float64), *Q)
    np.testing.assert_allclose(log_w, expected, rtol=1e-5)
    np.testing.assert_allclose(objective.importance_weighted(log_w), expected[0], rtol=1e-5)
