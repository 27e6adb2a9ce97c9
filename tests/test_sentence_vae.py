"""A run with no pairs at all: a VAE of sentences trains, scores, samples and is probed."""

import numpy as np
import pytest

import aevnmt_tf
from aevnmt_tf import export, hparams, sample, score, train
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import latent_use
from aevnmt_tf.probing import features
from aevnmt_tf.training import train_step
from aevnmt_tf.translator import Decoding
from tests import tiny, tiny_run
from tests.reference import Reference

LINES = ["red house", "two trees and", "five"]


def build(**changes):
    return tiny.build("vae", vocab_y=tiny.VOCAB_X, **changes)


def batch():
    pairs = [(x, x) for x, _ in tiny.PAIRS]
    return tiny.batch(pairs, pad_x=2, pad_y=2)


@pytest.mark.parametrize("changes", [{}, {"prior": "mixture", "prior_components": 3}])
def test_its_loss_is_the_bound_on_log_p_x(changes):
    model = build(**changes)
    noise = model.noise(batch(), 1)
    terms = model.loss_terms(batch(), noise)
    twin = Reference(tiny.weights(model))
    for b, (x, _) in enumerate(tiny.PAIRS):
        z = twin.sample(x, x, noise["epsilon"][b])
        np.testing.assert_allclose(terms.nll_x[b], -twin.log_px(x, z)[0], rtol=1e-5)
        kl = twin.kl(twin.posterior(x, x), z, x)
        np.testing.assert_allclose(terms.kl[b], kl, rtol=1e-4, atol=1e-5)
        assert terms.nll_y[b] == terms.smoothing[b] == 0.0


def test_a_step_moves_every_variable_and_reports_no_target():
    hp = tiny.settings("vae", dropout=0.2, word_dropout=0.1, bow_source_weight=0.5, feed_z=True)
    model = train_step.build(hp, tiny.VOCAB_X, tiny.VOCAB_X)
    before = [variable.numpy() for variable in model.trainable_variables]
    assert model.train_on(batch())["skipped"] == 0
    for old, new in zip(before, model.trainable_variables, strict=True):
        assert np.any(old != new.numpy()), new.path
    assert "nll_x" in {m.name for m in model.metrics} and "nll_y" not in {
        m.name for m in model.metrics
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a corpus that has no target files."""
    folder = tmp_path_factory.mktemp("vae")
    path = tiny_run.write_settings(
        folder, model_type="vae", steps_per_external_eval=20, steps_per_checkpoint=20
    )
    for file in (folder / "corpus").glob("*.de"):
        file.unlink()
    assert train.main(["--hparams", str(path)]) == 0
    return folder / "run"


def test_training_reports_reconstruction(run):
    last = tiny_run.read_metrics(run)[-1]
    assert last["dev_bleu"] >= 0.0 and np.isfinite(last["dev_elbo"])
    assert "dev_nll_x" in last and "dev_nll_y" not in last


def test_commands(run, tmp_path, capsys):
    (tmp_path / "x.en").write_text("\n".join(LINES) + "\n")
    words = ["--model", str(run), "--src", str(tmp_path / "x.en")]
    assert score.main(words) == 0
    names, *rows = capsys.readouterr().out.splitlines()
    assert names.split("\t")[:5] == ["elbo", "log_px", "kl", "iw_log_px", "ess"]
    for row in rows:
        elbo, log_px, kl, *_ = map(float, row.split("\t"))
        assert elbo == pytest.approx(log_px - kl, abs=1e-3)
    assert score.main([*words, "--tgt", str(tmp_path / "x.en")]) == 2
    assert "leave --tgt out" in capsys.readouterr().err
    assert sample.main(["--model", str(run), "--num", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and not any("\t" in line for line in lines)
    assert sample.main(["--model", str(run), "--interpolate", *LINES[:2], "--steps", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    exported = ["--model", str(run), "--export_dir", str(tmp_path / "export")]
    assert export.main(exported) == 2
    assert "vae" in capsys.readouterr().err


def test_its_z_is_probed_and_diagnosed(run):
    translator = aevnmt_tf.load(run)
    assert len(translator.translate(LINES, beam_width=3)) == len(LINES)  # found again from z
    (mean,) = features.z_features(translator, LINES, kind="mean", seed=1)
    assert mean.values.shape == (3, 4)
    found = latent_use.diagnose(
        translator, LINES, LINES, decoding=Decoding(search="greedy"), samples=3
    )
    assert np.isfinite(found["iw_gap"]) and found["verdict"]


def test_what_it_has_not_is_refused():
    for changes in (
        {"z_inference_from": "source_target"},
        {"mono_prefix": "a"},
        {"bow_target_weight": 1.0},
    ):
        with pytest.raises(UserError, match="model_type"):
            hparams.load(model_type="vae", **changes)
    hp = hparams.load(model_type="vae", src="de")
    assert (hp.tgt, hp.share_vocab) == ("de", True)
