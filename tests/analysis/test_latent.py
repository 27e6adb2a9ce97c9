"""Is z in use? Numbers against exact ones, verdicts on models made to collapse or not."""

import json
import math
import random

import numpy as np
import pytest

from aevnmt_tf.analysis import latent, latent_plot
from aevnmt_tf.errors import UserError
from aevnmt_tf.translator import Decoding, Ensemble
from tests import tiny
from tests.tiny_translator import make

GREEDY = Decoding(search="greedy")


def density(z, loc, scale):
    return np.exp(-0.5 * ((z - loc) / scale) ** 2) / (scale * math.sqrt(2 * math.pi))


def integral(values, grid):
    return np.trapezoid(values, grid)


# The numbers.


def test_kl_against_an_integral():
    grid = np.linspace(-15, 15, 200_001)
    loc, scale = np.array([[0.3, -1.0], [2.0, 0.0]]), np.array([[0.5, 1.5], [0.1, 1.0]])
    for index in np.ndindex(2, 2):
        q = density(grid, loc[index], scale[index])
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(q > 1e-300, q * np.log(q / density(grid, 0, 1)), 0)
        found = latent.kl_by_dimension(loc, scale)[index]
        assert found == pytest.approx(integral(terms, grid), abs=1e-6)
    assert latent.kl_by_dimension(0.0, 1.0) == 0


def test_equal_posteriors_say_nothing():
    loc, scale = np.full([50, 3], 2.5, np.float32), np.full([50, 3], 0.3, np.float32)
    assert latent.mutual_information(loc, scale) == pytest.approx(0, abs=1e-9)


def test_posteriors_far_from_each_other_say_all():
    loc = np.arange(40, dtype=np.float32)[:, None] * [[1.0, -1.0]]
    scale = np.full_like(loc, 0.01)
    assert latent.mutual_information(loc, scale) == pytest.approx(math.log(40), abs=1e-9)
    # With three copies of each, z tells the copy by chance alone.
    loc, scale = (np.repeat(v, 3, axis=0) for v in (loc, scale))
    assert latent.mutual_information(loc, scale) == pytest.approx(math.log(40), abs=1e-9)


def test_mutual_information_against_an_integral(monkeypatch):
    monkeypatch.setattr(latent, "ROWS", 7)  # in parts that do not divide the number of draws
    loc, scale = np.array([-1.0, 0.2, 0.5, 3.0]), np.array([0.4, 1.0, 0.3, 0.7])
    grid = np.linspace(-12, 14, 200_001)
    each = density(grid, loc[:, None], scale[:, None])  # [4, grid]
    mixture = each.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = integral(np.where(each > 1e-300, each * np.log(each / mixture), 0), grid).mean()
    found = latent.mutual_information(loc[:, None], scale[:, None], samples=40_000)
    assert found == pytest.approx(exact, abs=0.005)
    # A second dimension that is the same for all adds nothing.
    wider = [np.stack([v, np.full(4, 0.7)], axis=1) for v in (loc, scale)]
    assert latent.mutual_information(*wider, samples=40_000) == pytest.approx(exact, abs=0.005)
    kl = latent.kl_by_dimension(loc, scale).mean()
    marginal = integral(mixture * np.log(mixture / density(grid, 0, 1)), grid)
    assert kl - marginal == pytest.approx(exact, abs=1e-6)  # the identity of the docstring


@pytest.mark.parametrize("count", [2, 3, 10, 101])
def test_nobody_keeps_their_z(count):
    found = latent.derangement(count)
    assert sorted(found) == list(range(count))
    assert (found != np.arange(count)).all()
    assert (found == latent.derangement(count)).all()


# Models.


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
    return translator, sources, translator.translate(sources)


@pytest.fixture(scope="module")
def diagnosis(in_use):
    translator, sources, references = in_use
    return latent.diagnose(translator, sources, references, decoding=GREEDY, samples=5)


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
    """One by one, by the graph's own search, with the z of the sentence that was drawn."""
    import tensorflow as tf

    translator, sources, references = in_use
    loc, _ = translator.embed(sources)
    lines = []
    for source, other in zip(sources, latent.derangement(30), strict=True):
        x, x_len, _ = translator.encode(tf.constant([source]))
        found = translator.search_with(
            loc[other : other + 1], x, x_len, seeds=tf.constant([0], tf.int64), decoding=GREEDY
        )
        lines.append(translator.translations(found, x_len)[0].numpy()[0, 0].decode())
    from aevnmt_tf.analysis import metrics

    bleu = metrics.score(lines, references, names=["bleu"])["bleu"].value
    assert diagnosis["z"]["other"]["bleu"] == pytest.approx(bleu, abs=1e-6)


def test_z_that_is_given_is_used(in_use):
    translator, sources, references = in_use
    loc, _ = translator.embed(sources)
    for kind, z in (("zero", 0 * loc), ("sample", translator.draw_z(sources, seed=3))):
        given = translator.stream(sources, decoding=GREEDY, z=z, window=7)
        rule = Decoding(search="greedy", z=kind)
        alone = translator.stream(sources, decoding=rule, seed=3)
        assert [r.translations[0].text for r in given] == [
            r.translations[0].text for r in alone
        ]
    with pytest.raises(UserError, match="neither drawn nor refined"):
        list(translator.stream(["a"], decoding=Decoding(search="mbr"), z=loc[:1]))


def test_a_model_whose_kl_is_zero_is_collapsed():
    translator = with_posterior(make(beam_width=0), loc=0, scale=math.log(math.e - 1))
    sources = sentences(12)
    found = latent.diagnose(
        translator, sources, sentences(12, seed=1), decoding=GREEDY, samples=3
    )
    assert found["verdict"] == "collapsed"
    assert found["sentence"].startswith("collapsed: q(z|.) is the same for every sentence")
    assert found["kl"] == pytest.approx(0, abs=1e-5)
    assert found["active_units"] == 0 and found["mutual_information"] < 1e-9
    assert found["z"]["other"]["changed"] == 0 and found["z"]["zero"]["changed"] == 0
    assert found["z"]["other"]["bleu"] == found["z"]["mean"]["bleu"]


def test_source_target_posteriors_see_the_target():
    translator = make("KLr", beam_width=0)
    sources = ["a b c", "d e"]
    loc, scale = translator.posterior(sources, ["a", "b"])
    other, _ = translator.posterior(sources, ["a", "c d e f"])
    np.testing.assert_allclose(loc[0], other[0], rtol=1e-5)
    assert np.abs(loc[1] - other[1]).max() > 1e-3
    kl = translator.score(sources, ["a", "b"], samples=1)["kl"]
    np.testing.assert_allclose(latent.kl_by_dimension(loc, scale).sum(1), kl, rtol=1e-4)


# Verdicts, and what cannot be looked at.


def found_with(*, information, loss_x, loss_y, error=0.01):
    losses = {"log_px_loss": loss_x, "log_py_loss": loss_y}
    errors = {"log_px_loss_error": error, "log_py_loss_error": error}
    return {
        "kl": 3.0,
        "mutual_information": information,
        "active_units": 2,
        "z_dim": 4,
        "z": {"mean": {"bleu": 30.0}, "other": {"bleu": 20.0, **losses, **errors}},
    }


@pytest.mark.parametrize(
    "numbers, verdict, words",
    [
        (dict(information=0.01, loss_x=5, loss_y=5), "collapsed", "collapsed: "),
        (dict(information=1, loss_x=0, loss_y=2), "in use", "z is in use: "),
        (dict(information=1, loss_x=2, loss_y=0.05), "source only", "for the source only"),
        (dict(information=1, loss_x=-1, loss_y=0), "ignored", "ignored: "),
        (dict(information=1, loss_x=0, loss_y=2, error=1.5), "ignored", "ignored: "),
    ],
)
def test_verdicts(numbers, verdict, words):
    found = latent.verdict(found_with(**numbers))
    assert found["verdict"] == verdict and words in found["sentence"]
    assert "KL 3.00 nats" in found["sentence"] and "\n" not in found["sentence"]


def test_what_cannot_be_looked_at(in_use):
    translator, sources, references = in_use
    with pytest.raises(UserError, match="two sentences or more"):
        latent.diagnose(translator, ["a"], ["b"], decoding=GREEDY)
    with pytest.raises(UserError, match="leave --z out"):
        latent.check(translator, Decoding(search="beam", z="zero"))
    with pytest.raises(UserError, match="search by beam or greedy"):
        latent.check(translator, Decoding(search="mbr"))
    with pytest.raises(UserError, match="needs a model with z, and this one is cond"):
        latent.check(make("cond"), GREEDY)
    with pytest.raises(UserError, match="not for an ensemble"):
        latent.check(Ensemble([translator, translator]), GREEDY)


def test_the_picture_shows_the_numbers(diagnosis):
    image = latent_plot.draw(diagnosis)
    assert image.dtype == np.uint8 and image.shape == (400, 1000, 3)
    other = {**diagnosis, "kl_by_dimension": [0.0] * 4}
    changed = (latent_plot.draw(other) != image).any(axis=(0, 2))  # by column of pixels
    assert changed[:500].any()
    z = {kind: {**values, "bleu": 1.0} for kind, values in diagnosis["z"].items()}
    changed = (latent_plot.draw({**diagnosis, "z": z}) != image).any(axis=(0, 2))
    assert changed[500:].any()
