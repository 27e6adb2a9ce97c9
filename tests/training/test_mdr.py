"""Minimum desired rate: a Lagrange multiplier that is trained, reported and kept."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.training import train_step
from tests import tiny
from tests.training.conftest import VOCABULARY
from tests.training.toy_session import Session, metrics


def build(system="source_only", **changes):
    model = train_step.build(tiny.settings(system, **changes), tiny.VOCAB_X, tiny.VOCAB_Y)
    tiny.randomise(model, seed=0)
    return model


@pytest.mark.parametrize("system", ["source_only", "KLq", "mixture", "vnmt"])
def test_the_loss_is_the_lagrangian(system):
    model, batch = build(system, mdr_rate=7.0), tiny.batch()
    model.mdr_weight.assign(0.3)
    noise = model.noise(batch, 1)
    with tf.GradientTape() as tape:
        terms = model.loss_terms(batch, noise)
        kl = tf.reduce_sum(terms.kl, axis=-1)
        loss = terms.nll_x + terms.nll_y + 0.5 * (kl + terms.r_divergence) + 0.3 * (7.0 - kl)
        total = tf.reduce_sum(loss)
    expected = tape.gradient(total, model.trainable_variables)
    totals, gradients = model.loss_and_gradients(batch, noise, tf.constant(0.5))
    np.testing.assert_allclose(totals["loss"], total, rtol=1e-5)
    for one, other in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rate", [1000.0, 1e-3])
def test_the_multiplier_grows_while_the_kl_is_short_and_is_never_negative(rate):
    model = build(mdr_rate=rate, mdr_step=0.1)
    found = model.train_on(tiny.batch())
    kl = float(found["kl"] / found["pairs"])
    expected = max(0.0, 0.1 * (rate - kl))
    assert (expected > 0.0) == (rate > kl)
    assert float(model.mdr_weight) == pytest.approx(expected, rel=1e-5)


def test_a_batch_that_is_skipped_leaves_it():
    model = build(mdr_rate=1000.0)
    model.emb_x.embeddings.assign(np.full(model.emb_x.embeddings.shape, np.nan))
    assert model.train_on(tiny.batch())["skipped"] == 1
    assert float(model.mdr_weight) == 0.0


def test_without_a_rate_or_a_z_there_is_none():
    assert build().mdr_weight is None and build("joint", mdr_rate=3.0).mdr_weight is None


@pytest.mark.slow
def test_kill_and_resume(settings, training_data, tmp_path):
    """A run that is killed goes on from its checkpoint with the multiplier it had."""

    def session(hp):
        return Session(hp, training_data, train_step.build(hp, VOCABULARY, VOCABULARY))

    options = {"mdr_rate": 50.0, "num_train_steps": 6, "steps_per_checkpoint": 2}
    options["steps_per_stats"] = 2
    whole = settings(out_dir=str(tmp_path / "whole"), **options)
    expected = session(whole).run()
    parts = settings(out_dir=str(tmp_path / "parts"), **options)
    first = session(parts)
    first.run_until_killed(3)
    second = session(parts)
    assert second.resumed and float(second.model.mdr_weight) > 0.0
    second.run()
    assert float(second.model.mdr_weight) == float(expected.model.mdr_weight)
    assert metrics(parts) == metrics(whole)
    assert metrics(whole)[-1]["mdr_weight"] == pytest.approx(float(expected.model.mdr_weight))
