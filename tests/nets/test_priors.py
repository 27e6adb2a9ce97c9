"""Priors: the KL to them against Monte Carlo, their densities and draws."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from aevnmt_tf import nets
from tests import reference, tiny

tfd = tfp.distributions

LOC = np.array([[0.3, -1.1, 0.0], [0.8, 0.1, 2.0]])
SCALE = np.array([[0.5, 1.3, 1.0], [0.2, 2.0, 0.7]])
DRAWS = 200_000


def posterior():
    loc, scale = tf.constant(LOC, tf.float32), tf.constant(SCALE, tf.float32)
    return tfd.Independent(tfd.Normal(loc, scale), 1)


def monte_carlo_kl():
    """The mean and standard error of log q - log p by dimension, p = N(0, I)."""
    epsilon = np.random.default_rng(1).normal(size=(DRAWS, *LOC.shape))
    ratio = 0.5 * (LOC + SCALE * epsilon) ** 2 - 0.5 * epsilon**2 - np.log(SCALE)
    return ratio.mean(axis=0), ratio.std(axis=0) / np.sqrt(DRAWS)


def test_kl_to_the_standard_normal_against_monte_carlo():
    prior = nets.StandardNormal(z_size=3)
    kl = prior.kl(posterior(), prior({}), None)
    assert kl.shape == (2, 3) and kl.dtype == tf.float32
    mean, error = monte_carlo_kl()
    assert np.all(np.abs(kl - mean) <= 4.0 * error + 1e-6)
    np.testing.assert_allclose(kl, reference.kl_from_standard(LOC, SCALE), rtol=1e-5, atol=1e-6)


def test_a_prior_without_a_closed_form_estimates_the_kl_of_the_whole_z():
    class Estimated(nets.StandardNormal):
        kl = nets.Prior.kl

    prior, q = Estimated(z_size=3), posterior()
    z = q.mean() + tf.constant(tiny.epsilon([50_000, 2, 3])) * q.stddev()
    kl = prior.kl(q, prior({}), z)
    assert kl.shape == (50_000, 2, 1)
    error = np.std(kl, axis=0) / np.sqrt(len(kl))
    exact = tf.reduce_sum(prior_kl(q), axis=-1, keepdims=True)
    assert np.all(np.abs(np.mean(kl, axis=0) - exact) < 4.0 * error)


def prior_kl(q):
    prior = nets.StandardNormal(z_size=3)
    return prior.kl(q, prior({}), None)


def mixture():
    prior = nets.MixturePrior(z_size=2, components=3)
    prior.build()
    prior.logits.assign(np.log([0.5, 0.3, 0.2]))
    prior.loc.assign([[-4.0, 0.0], [0.0, 4.0], [4.0, -4.0]])
    prior.scale.assign(np.log(np.expm1([[0.5, 1.0], [1.0, 0.5], [0.2, 0.2]])))
    return prior


def test_a_mixture_draws_from_its_components():
    prior = mixture()
    epsilon = tf.constant(tiny.epsilon([2, 50_000, prior.noise_size]))
    z = prior.draw(prior({}), epsilon).numpy()  # [2, N, 2]
    assert prior.noise_size == 3 and z.shape == (2, 50_000, 2)
    z = z.reshape(-1, 2)
    nearest = np.argmin(((z[:, None] - prior.loc.numpy()) ** 2).sum(axis=-1), axis=-1)
    shares = np.bincount(nearest, minlength=3) / len(z)
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=0.01)
    for k, scale in enumerate([[0.5, 1.0], [1.0, 0.5], [0.2, 0.2]]):
        np.testing.assert_allclose(z[nearest == k].std(axis=0), scale, rtol=0.03)
    mean = [0.5 * -4.0 + 0.2 * 4.0, 0.3 * 4.0 + 0.2 * -4.0]
    np.testing.assert_allclose(prior.draw(prior({}), None), mean, rtol=1e-5)
    np.testing.assert_allclose(z.mean(axis=0), mean, atol=0.05)


def test_the_kl_to_a_mixture_is_that_of_an_integral():
    prior = mixture()
    q = tfd.Independent(tfd.Normal([[-1.0, 1.5]], [[0.8, 0.6]]), 1)
    line = np.arange(-9.0, 9.0, 0.02)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 1, 2).astype(np.float32)
    log_q = reference.log_normal(grid[:, 0].astype(np.float64), [-1.0, 1.5], [0.8, 0.6])
    log_p = prior({}).log_prob(grid)[:, 0].numpy().astype(np.float64)
    assert np.sum(np.exp(log_p)) * 0.02**2 == pytest.approx(1.0, abs=1e-4)
    exact = np.sum(np.exp(log_q) * (log_q - log_p)) * 0.02**2
    z = q.mean() + tf.constant(tiny.epsilon([50_000, 1, 2])) * q.stddev()
    kl = prior.kl(q, prior({}), z).numpy()
    assert kl.shape == (50_000, 1, 1)
    assert abs(kl.mean() - exact) < 4.0 * kl.std() / np.sqrt(len(kl))


def test_components_start_apart_with_equal_weights():
    prior = nets.MixturePrior(z_size=5, components=4)
    prior.build()
    p = prior({})
    np.testing.assert_allclose(p.mixture_distribution.probs_parameter(), np.full(4, 0.25))
    np.testing.assert_allclose(p.components_distribution.distribution.scale, 1.0, rtol=1e-6)
    assert len(np.unique(prior.loc.numpy())) == 20


def test_draws_of_the_standard_normal_are_the_numbers_given():
    prior = nets.StandardNormal(z_size=3)
    epsilon = tiny.epsilon([2, 4, prior.noise_size])
    np.testing.assert_array_equal(prior.draw(prior({}), tf.constant(epsilon)), epsilon)
    np.testing.assert_array_equal(prior.draw(prior({}), None), np.zeros(3))
    expected = reference.log_normal(epsilon.astype(np.float64), 0.0, 1.0)
    np.testing.assert_allclose(prior({}).log_prob(epsilon), expected, rtol=1e-5)
