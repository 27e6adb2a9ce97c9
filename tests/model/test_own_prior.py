"""A new prior is a class and an entry of PRIORS: nothing else has to know it.

The prior of this file learns the location and the scale of a diagonal Gaussian, and has no KL
by dimension, so that training and scores have to estimate it.
"""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import aevnmt_tf
from aevnmt_tf import export, nets
from aevnmt_tf.model import Aevnmt, importance
from aevnmt_tf.training import train_step
from tests import tiny, tiny_export
from tests.reference import log_normal
from tests.tiny_translator import LINES, make


@keras.saving.register_keras_serializable("tests")
class LearnedPrior(nets.Prior):
    """N(loc, softplus(scale)^2)."""

    def build(self, *_: Any) -> None:
        self.loc = self.add_weight(name="loc", shape=(self.z_size,), initializer="zeros")
        self.scale = self.add_weight(name="scale", shape=(self.z_size,), initializer="zeros")
        self.built = True

    def call(self, sides: nets.Sides, noise: nets.Noise | None = None) -> tfd.Distribution:
        scale = tf.nn.softplus(tf.convert_to_tensor(self.scale))
        return tfd.Independent(tfd.Normal(tf.convert_to_tensor(self.loc), scale), 1)


@pytest.fixture(autouse=True)
def chosen(monkeypatch):
    """What a new entry of the registry would do once a setting names it."""
    monkeypatch.setitem(nets.PRIORS, "standard", LearnedPrior)


@pytest.mark.parametrize("system", ["source_only", "KLq"])
def test_a_step_of_training_moves_it(system):
    model = train_step.build(
        tiny.settings(system, learning_rate=0.1), tiny.VOCAB_X, tiny.VOCAB_Y
    )
    before = [variable.numpy() for variable in model.prior.trainable_variables]
    found = model.train_on(tiny.batch())
    assert found["skipped"] == 0 and len(before) == 2
    for old, new in zip(before, model.prior.trainable_variables, strict=True):
        assert np.all(np.abs(old - new) > 1e-3)


def test_the_bound_is_that_of_an_integral_over_it():
    model = tiny.build("source_only", z_dim=1, vocab_x=3, vocab_y=3, num_units=3)
    model.prior.loc.assign([0.7])
    model.prior.scale.assign([0.2])
    scale = np.log1p(np.exp(0.2))
    batch = tiny.batch([([1, 0, tiny.EOS], [1, tiny.EOS])])
    line = np.arange(-9.0, 9.0, 0.02)
    tiled = {name: tf.repeat(value, len(line), axis=0) for name, value in batch.items()}
    terms = model.loss_terms(tiled, z=tf.constant(line[:, None], tf.float32))
    prior = log_normal(line[:, None], 0.7, scale)
    log_px = np.log(np.sum(np.exp(prior - terms.nll_x)) * 0.02)
    log_pxy = np.log(np.sum(np.exp(prior - terms.nll_x - terms.nll_y)) * 0.02)
    head = tiny.layers(model)["q_s_out"]
    head["kernel"].assign(tf.zeros_like(head["kernel"]))
    head["bias"].assign([1.0])
    epsilon = tf.constant(tiny.epsilon([50_000, 1, 1]))
    draws = importance.weigh(model, batch, epsilon)
    for log_w, expected in ((draws.log_w_xy, log_pxy), (draws.log_w_x, log_px)):
        bound = importance.importance_weighted(log_w)
        np.testing.assert_allclose(bound, [expected], atol=0.02)
    # Its KL is an estimate for the whole of z: close to the closed form, on average.
    assert draws.terms.kl.shape == (50_000, 1, 1)
    exact = tfd.kl_divergence(model.infer(batch), model.prior({}))
    np.testing.assert_allclose([np.mean(draws.terms.kl)], exact, atol=0.02)


def test_it_scores_and_samples():
    translator = make("source_only")
    scores = translator.score(["a b", "c"], ["b", "a d"], samples=4)
    np.testing.assert_allclose(
        scores["elbo"], scores["log_px"] + scores["log_py"] - scores["kl"], rtol=1e-5
    )
    assert np.all(scores["ess"] >= 1 - 1e-4)
    model = translator.model
    model.prior.loc.assign(np.full(4, 3.0))
    seeds = tf.range(1000, dtype=tf.int64)
    z = translator.graph.prior_z(seeds, kind="sample")
    expected = tf.nn.softplus(tf.convert_to_tensor(model.prior.scale))
    np.testing.assert_allclose(np.mean(z, axis=0), 3.0, atol=0.2)
    np.testing.assert_allclose(np.std(z, axis=0), expected, rtol=0.1)
    np.testing.assert_array_equal(
        translator.graph.prior_z(seeds[:2], kind="mean"), np.full([2, 4], 3.0)
    )
    pairs = translator.sample(3, seed=2)
    model.prior.loc.assign(np.full(4, -3.0))
    assert pairs != translator.sample(3, seed=2)
    assert len(translator.translate(LINES)) == len(LINES)


def test_the_kl_by_dimension_of_a_diagnosis_has_one_column():
    loc, scale, kl = make("KLr").embedder.posterior(["a b", "c"], ["b", "a d"])
    assert loc.shape == scale.shape == (2, 4) and kl.shape == (2, 1)


def test_it_is_kept_in_files(tmp_path):
    model = tiny.build("source_only")
    model.save(tmp_path / "model.keras")
    other = keras.saving.load_model(tmp_path / "model.keras")
    assert isinstance(other, Aevnmt) and isinstance(other.prior, LearnedPrior)
    for one, two in zip(model(tiny.batch()), other(tiny.batch()), strict=True):
        np.testing.assert_array_equal(one, two)


def test_it_is_exported(tmp_path):
    run = tiny_export.save_run(tmp_path / "run")
    words = ["--model", run, "--export_dir", tmp_path / "export", "--samples", 3]
    assert export.main(list(map(str, words))) == 0
    served = tf.saved_model.load(str(tmp_path / "export" / "1"))
    found = tiny_export.ask(served, "score", source=["a b"], target=["c"])
    loaded = aevnmt_tf.load(run)
    assert isinstance(loaded.model.prior, LearnedPrior)
    expected = loaded.score(["a b"], ["c"], samples=3)
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-4)
