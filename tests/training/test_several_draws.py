"""Several draws of z for each pair in training: the mean of ELBOs, and IWAE."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.training import train_step
from tests import tiny

SYSTEMS = ["menu", "KLq", "mixture", "vnmt"]
NOISY = {"dropout": 0.3, "word_dropout": 0.2, "label_smoothing": 0.1}


def build(system, **changes):
    model = train_step.build(tiny.settings(system, **changes), tiny.VOCAB_X, tiny.VOCAB_Y)
    tiny.randomise(model, seed=0)
    return model


def plain_terms(model, batch, noise):
    """loss_terms and log p(z) - log q(z) [B] of each draw, one after the other."""
    masks = {name: mask for name, mask in noise.items() if name != "epsilon"}
    sides = model.embed(batch)
    q, p = model.posterior(sides, noise=masks), model.prior(sides, noise=masks)
    for epsilon in tf.unstack(noise["epsilon"]):
        z = q.mean() + epsilon * q.stddev()
        yield model.loss_terms(batch, masks, z=z), p.log_prob(z) - q.log_prob(z)


def assert_same(model, batch, noise, loss):
    """The loss [B], a function without arguments, and its gradients are those of training."""
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(loss())
    expected = tape.gradient(total, model.trainable_variables)
    totals, gradients = model.loss_and_gradients(batch, noise, tf.constant(0.4))
    np.testing.assert_allclose(totals["loss"], total, rtol=1e-5)
    largest = max(np.abs(g).max() for g in expected)
    for one, other in zip(gradients, expected, strict=True):
        assert np.abs(one - other).max() <= 1e-4 * largest
        assert np.any(one)


@pytest.mark.parametrize("system", SYSTEMS)
def test_iwae_is_the_log_mean_exp_written_plainly(system):
    model = build(system, objective="iwae", num_train_samples=3, **NOISY)
    batch = tiny.batch()
    noise = model.noise(batch, 5)
    assert noise["epsilon"].shape == (3, 5, 4)

    def loss():
        weights, rest = [], 0.0
        for terms, log_ratio in plain_terms(model, batch, noise):
            weights.append(tf.exp(0.4 * log_ratio - terms.nll_x - terms.nll_y))
            rest += (terms.smoothing + 0.4 * terms.r_divergence) / 3
            if system == "menu":
                rest += (0.3 * terms.bow_x + 0.7 * terms.bow_y) / 3
        return rest - tf.math.log(sum(weights) / 3)

    assert_same(model, batch, noise, loss)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_elbo_of_several_draws_is_their_mean(system):
    model = build(system, num_train_samples=3, **NOISY)
    batch = tiny.batch()
    noise = model.noise(batch, 5)

    def loss():
        each = [model.objective(t, kl_weight=0.4) for t, _ in plain_terms(model, batch, noise)]
        return sum(each) / 3

    assert_same(model, batch, noise, loss)


def test_one_draw_is_what_it_was():
    """The same numbers, and no other way than the one without several draws."""
    model, batch = build("source_only", **NOISY), tiny.batch()
    noise = model.noise(batch, 5)
    assert not model.takes_several_draws and noise["epsilon"].shape == (5, 4)
    iwae = build("source_only", objective="iwae", **NOISY)
    np.testing.assert_array_equal(iwae.noise(batch, 5)["epsilon"][0], noise["epsilon"])
    several = build("source_only", num_train_samples=2, **NOISY)
    one = {**noise, "epsilon": noise["epsilon"][None]}
    found, gradients = several.loss_and_gradients(batch, one, tf.constant(1.0))
    expected, others = model.loss_and_gradients(batch, noise, tf.constant(1.0))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5)
    for a, b in zip(gradients, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("objective", ["elbo", "iwae"])
def test_neither_padding_nor_other_rows_matter(objective):
    model = build("KLq", objective=objective, num_train_samples=4)
    noise = model.noise(tiny.batch(), 2)
    _, whole = model.terms_and_loss(tiny.batch(pad_x=2, pad_y=3), noise, 1.0)
    for b, pair in enumerate(tiny.PAIRS):
        row = {"epsilon": noise["epsilon"][:, b : b + 1]}
        _, alone = model.terms_and_loss(tiny.batch([pair]), row, 1.0)
        np.testing.assert_allclose(alone[0], whole[b], rtol=1e-4)


def test_reports_keep_the_elbo():
    """`loss` is the tighter bound's; the terms are those of the ELBO."""
    model = build("mixture", objective="iwae", num_train_samples=8)
    found = model.train_on(tiny.batch())
    assert found["skipped"] == 0
    assert float(found["loss"]) < float(found["nll_x"] + found["nll_y"] + found["kl"])


@pytest.mark.parametrize("system", ["cond", "joint"])
def test_without_z_there_is_nothing_to_draw(system):
    model = build(system, objective="iwae", num_train_samples=5)
    assert "epsilon" not in model.noise(tiny.batch(), 1)
    assert model.train_on(tiny.batch())["skipped"] == 0
