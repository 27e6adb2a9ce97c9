"""`evaluate --latent` on models that were made to use z, or to have none."""

import json
import math
import random

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import evaluate
from aevnmt_tf import translator as translators
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import evaluated_systems, latent_use, metrics
from aevnmt_tf.plots import figures, latent_plot
from aevnmt_tf.translator import Decoding, decision, line_encoder
from aevnmt_tf.translator.loading import ensemble
from tests import tiny
from tests.tiny_translator import make, save_run

pytestmark = pytest.mark.slow  # four ways of decoding are traced for each model

GREEDY = Decoding(search="greedy", beam_width=1)  # as the settings of these models say


def sentences(count, *, seed=0):
    dice = random.Random(seed)
    return [" ".join(dice.choices("abcdefgh", k=dice.randint(2, 7))) for _ in range(count)]


def with_posterior(translator, *, loc, scale):
    """Make q's location `loc` times as large, and its scale softplus(`scale`) everywhere."""
    heads = tiny.layers(translator.model)
    for variable in heads["q_u_out"].values():
        variable.assign(variable * loc)
    heads["q_s_out"]["kernel"].assign(heads["q_s_out"]["kernel"] * 0)
    heads["q_s_out"]["bias"].assign(heads["q_s_out"]["bias"] * 0 + scale)
    return translator


@pytest.fixture(scope="module")
def in_use():
    """A model, sources, and what it translates them to: to it, z is all important."""
    translator = with_posterior(make(beam_width=0, scale=1.5), loc=5, scale=-3)
    sources = sentences(30)
    z = translator.embed(sources)[0]
    results = translator.stream(sources, decoding=GREEDY, z=z)
    return translator, sources, [result.translations[0].text for result in results]


@pytest.fixture(scope="module")
def diagnosis(in_use):
    translator, sources, references = in_use
    return latent_use.diagnose(translator, sources, references, decoding=GREEDY, samples=5)


def test_a_model_that_uses_z(diagnosis, in_use):
    translator, sources, references = in_use
    assert diagnosis["verdict"] == "in use", diagnosis["sentence"]
    assert diagnosis["sentence"].startswith("z is in use: with another sentence's z")
    assert json.loads(json.dumps(diagnosis)) == diagnosis
    z = diagnosis["z"]
    assert z["mean"]["bleu"] == pytest.approx(100) and z["mean"]["changed"] == 0
    assert z["mean"]["p_value"] is None and z["mean"]["log_py_loss"] == 0
    assert z["other"]["bleu"] < 95 and z["other"]["changed"] > 0.3
    assert z["other"]["p_value"] < 0.05
    # The same numbers by other ways.
    scores = translator.score(sources, references, samples=5)
    for name in ("elbo", "iw_log_pxy", "kl"):
        assert diagnosis[name] == pytest.approx(np.mean(scores[name]), rel=1e-4)
    assert sum(diagnosis["kl_by_dimension"]) == pytest.approx(diagnosis["kl"])
    assert diagnosis["iw_gap"] == pytest.approx(diagnosis["iw_log_pxy"] - diagnosis["elbo"])
    assert z["mean"]["log_py"] == pytest.approx(np.mean(scores["log_py_at_mean"]), rel=1e-4)
    information = diagnosis["mutual_information"]
    assert 1 < information <= math.log(30)
    assert diagnosis["marginal_kl"] == pytest.approx(diagnosis["kl"] - information)
    assert diagnosis["active_units"] == np.sum(np.var(translator.embed(sources)[0], 0) > 0.01)


def test_another_sentences_z_is_what_the_decoder_gets(diagnosis, in_use):
    translator, sources, references = in_use
    loc, _ = translator.embed(sources)
    z = loc[latent_use.derangement(len(sources))]
    results = translator.stream(sources, decoding=GREEDY, z=z, window=7)
    lines = [result.translations[0].text for result in results]
    bleu = metrics.score(lines, references, names=["bleu"])["bleu"].value
    assert diagnosis["z"]["other"]["bleu"] == pytest.approx(bleu, abs=1e-6)
    # One line alone, by the graph's own search.
    row = next(n for n, line in enumerate(lines) if line != references[n])
    x, x_len, _ = translator.graph.encode(tf.constant([sources[row]]))
    seeds = tf.constant([0], tf.int64)
    found = decision.search_with(
        translator.graph, z[row : row + 1], x, x_len, seeds=seeds, decoding=GREEDY
    )
    assert translator.graph.translations(found, x_len)[0].numpy()[0, 0].decode() == lines[row]


def test_a_draw_is_that_of_translate(in_use):
    translator, sources, _ = in_use
    drawn = translator.embedder.draw(sources, seed=3)
    x, x_len, _ = translator.graph.encode(line_encoder.strings(sources[:2]))
    seeds = line_encoder.line_seeds(3, np.arange(2))
    z = translator.graph.z(x, x_len, kind="sample", seeds=seeds)
    np.testing.assert_allclose(drawn[:2], z, rtol=1e-5)
    assert not np.allclose(drawn, translator.embedder.draw(sources, seed=4))
    with pytest.raises(UserError, match="neither drawn nor refined"):
        list(translator.stream(["a"], decoding=Decoding(search="mbr"), z=drawn[:1]))


def test_a_model_whose_kl_is_zero_is_collapsed(diagnosis, in_use):
    translator, sources, references = in_use
    kept = translator.model.get_weights()
    with_posterior(translator, loc=0, scale=math.log(math.e - 1))
    found = latent_use.diagnose(translator, sources, references, decoding=GREEDY, samples=3)
    translator.model.set_weights(kept)
    assert found["verdict"] == "collapsed"
    assert found["sentence"].startswith("collapsed: q(z|.) is the same for every sentence")
    assert found["kl"] == pytest.approx(0, abs=1e-5)
    assert found["active_units"] == 0 and found["mutual_information"] < 1e-9
    assert found["z"]["other"]["changed"] == 0 and found["z"]["zero"]["changed"] == 0
    assert found["z"]["other"]["bleu"] == found["z"]["mean"]["bleu"]


def test_source_target_posteriors_see_the_target():
    translator = make("KLr", beam_width=0)
    sources = ["a b c", "d e"]
    loc, _, kl = translator.embedder.posterior(sources, ["a", "b"])
    other, _, _ = translator.embedder.posterior(sources, ["a", "c d e f"])
    np.testing.assert_allclose(loc[0], other[0], rtol=1e-5)
    assert np.abs(loc[1] - other[1]).max() > 1e-3
    x, x_len, _ = translator.graph.encode(tf.constant(sources[1:]))
    y, y_len, _ = translator.graph.encode_target(tf.constant(["b"]))
    terms = translator.model.loss_terms({"x": x, "x_len": x_len, "y": y, "y_len": y_len})
    np.testing.assert_allclose(kl[1], terms.kl[0], rtol=1e-4)


# The command.


def test_the_command(in_use, diagnosis, tmp_path, monkeypatch, capsys):
    translator, sources, references = in_use
    monkeypatch.setattr(translators, "load", lambda run, **_: translator)
    monkeypatch.setattr(evaluated_systems.Models, "_describe", lambda *_: None)
    for name, lines in (("x", sources), ("y", references)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    run = save_run(tmp_path / "run", beam_width=0)
    words = ["--model", str(run), "--src", str(tmp_path / "x"), "--ref", str(tmp_path / "y")]
    words += ["--metrics", "bleu", "--latent", "--samples", "5"]
    assert evaluate.main([*words, "--plot", str(tmp_path / "z.png")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == diagnosis["sentence"]
    assert (tmp_path / "z.png").read_bytes().startswith(b"\x89PNG")
    shown = {line.split("  ")[0]: line for line in lines if "  " in line}
    assert shown["sentences"].endswith("30, 5 draws of z each")
    assert shown["KL"].endswith(f"{diagnosis['kl']:.3f} nats per sentence")
    assert shown["active units"].endswith(f"{diagnosis['active_units']} of 4")
    assert shown["other"].split()[1] == f"{diagnosis['z']['other']['bleu']:.2f}"
    assert evaluate.main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["latent"] == diagnosis
    # z = mean is what translate does, and what is scored.
    assert found["systems"][0]["all"]["scores"]["bleu"]["score"] == pytest.approx(100)


# What cannot be looked at.


def test_what_cannot_be_looked_at(in_use):
    translator, sources, references = in_use
    with pytest.raises(UserError, match="at least two sentences"):
        latent_use.diagnose(translator, ["a"], ["b"], decoding=GREEDY)
    with pytest.raises(UserError, match="leave out --z"):
        latent_use.check(translator, Decoding(search="beam", z="zero"))
    with pytest.raises(UserError, match="--search beam or greedy"):
        latent_use.check(translator, Decoding(search="mbr"))
    with pytest.raises(UserError, match="needs a model with z; a cond model has none"):
        latent_use.check(make("cond"), GREEDY)
    with pytest.raises(UserError, match="not an ensemble"):
        latent_use.check(ensemble([translator, translator]), GREEDY)


def test_the_picture_shows_the_numbers(diagnosis):
    """KL is drawn in the left half, BLEU in the right one."""
    image = figures.pixels(latent_plot.draw(diagnosis))
    size = (4 * figures.DPI, 10 * figures.DPI, 3)
    assert image.dtype == np.uint8 and image.shape == size

    def changed(**numbers):  # by column of pixels
        other = figures.pixels(latent_plot.draw({**diagnosis, **numbers}))
        return (other != image).any(axis=(0, 2))

    half = size[1] // 2
    assert changed(kl_by_dimension=[0.0] * 4)[:half].any()
    z = {kind: {**values, "bleu": 1.0} for kind, values in diagnosis["z"].items()}
    assert changed(z=z)[half:].any()
