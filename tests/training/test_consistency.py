"""Consistency training: two passes per update, against two separate passes."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from aevnmt_tf.training import train_step
from tests import tiny

WEIGHT = 1.5
NOISE = {"dropout": 0.3, "word_dropout": 0.2, "output_dropout": 0.3}


def build(system, **options):
    hp = tiny.settings(system, optimizer="sgd", learning_rate=0.1, **{**NOISE, **options})
    model = train_step.build(hp, tiny.VOCAB_X, tiny.VOCAB_Y)
    tiny.randomise(model, seed=4)
    return model


def predictions(model, batch, noise, rows):
    """log P(y_j|y_<j, x, z) of all words [B, Ty, Vy], from one pass over half of the rows."""
    noise = {name: value[rows] for name, value in noise.items()}
    kept = []
    out_y = model.decoder.out_y
    original = out_y.nll
    try:
        out_y.nll = lambda features, *rest, **_: (
            kept.append(features) or original(features, *rest)
        )
        terms = model.loss_terms(batch, noise)
    finally:
        del out_y.nll
    return tf.nn.log_softmax(out_y(kept[0])), terms


@pytest.mark.parametrize("system", ["cond", "source_only", "KLq", "vnmt"])
def test_loss_is_that_of_two_passes_and_their_symmetric_kl(system):
    model, batch = build(system, consistency_weight=WEIGHT), tiny.batch()
    batch["weight"] = tf.constant([1.0, 1.0, 0.0, 1.0, 1.0])
    twins = train_step.with_twins(batch, num_rows=5)
    noise = model.noise(twins, model.batches)
    halves = [predictions(model, batch, noise, rows) for rows in (slice(0, 5), slice(5, 10))]
    p, other = (tfd.Categorical(logits=logits) for logits, _ in halves)
    real = tf.sequence_mask(batch["y_len"], tf.shape(batch["y"])[1])
    apart = 0.5 * (tfd.kl_divergence(p, other) + tfd.kl_divergence(other, p))  # [B, Ty]
    consistency = tf.reduce_sum(tf.where(real, apart, 0.0), axis=1)
    losses = [model.objective(terms, weight=batch["weight"]) for _, terms in halves]
    expected = (losses[0] + losses[1]) / 2 + WEIGHT * consistency
    report = tf.function(model.train_on)(batch)
    assert float(report["pairs"]) == 4.0
    assert np.all(consistency > 0.01)
    for name, value in (("loss", expected), ("consistency", consistency)):
        total = float(tf.reduce_sum(batch["weight"] * value))
        assert float(report[name]) == pytest.approx(total, rel=1e-5), name


def test_the_two_passes_have_different_noise():
    model = build("source_only", consistency_weight=WEIGHT)
    noise = model.noise(train_step.with_twins(tiny.batch(), num_rows=5), 0)
    assert {"epsilon", "out_y"} <= set(noise)
    for name, value in noise.items():
        first, second = tf.split(value, 2)
        assert np.any(first != second), name


def test_without_noise_the_passes_agree():
    quiet = dict.fromkeys(NOISE, 0.0)
    twice, once = build("cond", consistency_weight=WEIGHT, **quiet), build("cond", **quiet)
    reports = [tf.function(model.train_on)(tiny.batch()) for model in (twice, once)]
    assert float(reports[0]["consistency"]) == pytest.approx(0.0, abs=1e-5)
    assert float(reports[0]["loss"]) == pytest.approx(float(reports[1]["loss"]), rel=1e-6)
    for a, b in zip(twice.get_weights(), once.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
