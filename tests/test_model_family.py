"""Each member of the family of models does what the commands ask of it."""

import numpy as np
import pytest
import tensorflow as tf

import aevnmt_tf
from aevnmt_tf import export
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import latent_use
from aevnmt_tf.probing import features
from aevnmt_tf.training import train_step
from aevnmt_tf.translator import Decoding
from tests import tiny, tiny_export
from tests.tiny_translator import LINES, make

SOURCES, TARGETS = ["a b", "c", "d e f"], ["b", "a d", "h"]
SYSTEMS = ["mixture", "vnmt", "menu"]


@pytest.fixture(scope="module", params=SYSTEMS)
def translator(request):
    return make(request.param)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_step_of_training_moves_every_variable(system):
    hp = tiny.settings(system, learning_rate=0.1, max_gradient_norm=1e9)
    model = train_step.build(hp, tiny.VOCAB_X, tiny.VOCAB_Y)
    before = [variable.numpy() for variable in model.trainable_variables]
    assert model.train_on(tiny.batch())["skipped"] == 0
    for old, new in zip(before, model.trainable_variables, strict=True):
        assert np.any(old != new.numpy()), new.path


def test_padding_and_other_rows_change_nothing(translator):
    model = translator.model
    noise = {"epsilon": model.noise(tiny.batch(), 1)["epsilon"]}
    whole = model.loss_terms(tiny.batch(pad_x=3, pad_y=2), noise)
    for b, pair in enumerate(tiny.PAIRS):
        alone = model.loss_terms(tiny.batch([pair]), {"epsilon": noise["epsilon"][b : b + 1]})
        for one, other in zip(alone, whole, strict=True):
            np.testing.assert_allclose(one[0], other[b], rtol=1e-4, atol=1e-5)


def test_it_translates_by_every_rule(translator):
    for changes in (
        {"search": "beam"},
        {"search": "greedy"},
        {"search": "sample", "z": "sample"},
        {"search": "mbr", "num_samples": 3},
        {"search": "beam", "z": "sample", "num_z": 2},
    ):
        assert len(translator.translate(LINES, **changes)) == len(LINES)


def test_scores_add_up(translator):
    scores = translator.score(SOURCES, TARGETS, samples=4)
    likelihood = scores["log_py"] + scores.get("log_px", 0.0)
    np.testing.assert_allclose(scores["elbo"], likelihood - scores["kl"], rtol=1e-5)
    assert np.all(scores["ess"] >= 1 - 1e-4) and np.all(scores["ess"] <= 4 + 1e-4)


def test_its_z_is_diagnosed(translator):
    found = latent_use.diagnose(
        translator, SOURCES, TARGETS, decoding=Decoding(search="greedy"), samples=3
    )
    assert np.isfinite(found["kl"]) and found["verdict"]
    assert np.isfinite(found["iw_gap"])
    loc, scale, kl = translator.embedder.posterior(SOURCES, TARGETS)
    assert loc.shape == scale.shape == (3, 4) and len(kl) == 3


def test_its_z_is_probed(translator):
    features.check_has_z(translator, "run")
    (mean, sample) = features.z_features(translator, SOURCES, kind="both", seed=1)
    assert mean.values.shape == sample.values.shape == (3, 4)
    assert not np.array_equal(mean.values, sample.values)
    assert features.z_origin(translator)


def test_vnmt_predicts_with_the_mean_of_its_prior():
    translator = make("vnmt")
    model, batch = translator.model, tiny.batch()
    p = model.prior(model.embed(batch))
    z = model.z_for_prediction(batch["x"], batch["x_len"])
    np.testing.assert_allclose(z, p.mean(), rtol=1e-5, atol=1e-6)
    assert len(translator.translate(LINES, search="refine", refine_steps=1)) == len(LINES)


def test_vnmt_refuses_what_needs_a_model_of_the_source():
    translator = make("vnmt")
    with pytest.raises(UserError, match="vnmt"):
        translator.sample(2)
    with pytest.raises(UserError, match="vnmt"):
        translator.interpolate("a", "b", steps=3)
    names = set(translator.scorer.names)
    assert "iw_log_py" in names and not {"log_px", "iw_log_px", "iw_log_pxy"} & names


def test_a_mixture_samples_pairs():
    translator = make("mixture")
    pairs = translator.sample(3, seed=2)
    assert len(pairs) == 3 and pairs == translator.sample(3, seed=2)
    prior = translator.model.prior
    prior.logits.assign([9.0, -9.0, -9.0])
    z = translator.graph.prior_z(tf.range(500, dtype=tf.int64), kind="sample")
    np.testing.assert_allclose(np.mean(z, axis=0), prior.loc[0], atol=0.3)


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_served_is_what_is_scored(system, tmp_path):
    run = tiny_export.save_run(tmp_path / "run", system)
    words = ["--model", run, "--export_dir", tmp_path / "export", "--samples", 3]
    assert export.main(list(map(str, words))) == 0
    served = tf.saved_model.load(str(tmp_path / "export" / "1"))
    loaded = aevnmt_tf.load(run)
    expected = loaded.score(["a b"], ["c"], samples=3)
    found = tiny_export.ask(served, "score", source=["a b"], target=["c"])
    assert found.keys() <= expected.keys()
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-4)
    loc = tiny_export.ask(served, "embed", source=["a b"])["loc"]
    np.testing.assert_allclose(loc, loaded.embed(["a b"])[0], rtol=1e-4, atol=1e-5)
    translated = tiny_export.ask(served, "serving_default", source=["a b"])["translation"]
    assert list(translated) == loaded.translate(["a b"])
