"""Features: z as the model has it, and the encoder's average."""

import numpy as np
import pytest

from aevnmt_tf.probing import features
from tests.tiny_translator import LINES, make


@pytest.fixture(scope="module")
def models():
    """Translators by the kind of their model, traced once."""
    return {
        name: make(name, src="en", tgt="de") for name in ("source_only", "cond", "KLr", "l2")
    }


def test_z_is_the_mean_and_a_draw_of_the_posterior(models):
    t = models["source_only"]
    lines = [line for line in LINES if line.strip()] * 100
    mean, draw = features.z_features(t, lines, kind="both", seed=3)
    loc, scale = t.embed(lines)
    np.testing.assert_array_equal(mean.values, loc)
    standardised = (draw.values - loc) / scale
    assert abs(standardised.mean()) < 0.1 and abs(standardised.std() - 1) < 0.1
    again = features.z_features(t, lines, kind="sample", seed=3)
    assert len(again) == 1
    np.testing.assert_array_equal(again[0].values, draw.values)
    assert (features.z_features(t, lines, kind="sample", seed=4)[0].values != draw.values).all()


@pytest.mark.parametrize(
    "system, origin, kinds",
    [
        ("source_only", "q(z|x)", ["z mean", "z sample"]),
        ("KLr", "r(z|x), which the model predicts with: its q(z|x, y)", ["z mean", "z sample"]),
        ("l2", "the point r(x), which the model predicts with", ["z mean"]),
    ],
)
def test_where_z_is_from_is_said(models, system, origin, kinds):
    t = models[system]
    assert features.z_origin(t).startswith(origin)
    found = features.z_features(t, ["a b", "c"], kind="both", seed=1)
    assert [one.name for one in found] == kinds
    assert len(features.z_features(t, ["a b"], kind="sample", seed=1)) == 1


@pytest.mark.parametrize("system", ["cond", "source_only"])
def test_the_encoder_average_is_over_real_positions(models, system):
    """Each line by itself, without padding: the plain mean."""
    t = models[system]
    lines = LINES[:4]
    found = features.encoder_average(t, lines)
    assert found.shape == (4, 2 * t.hp.num_units)
    for line, row in zip(lines, found, strict=True):
        x, x_len, _ = t.graph.encode([line])
        z = t.model.z_for_prediction(x, x_len)
        states = t.model.encoder(t.model.emb_x(x), x_len, z).numpy()
        assert states.shape[1] == len(line.split()) + 1  # </s>
        np.testing.assert_allclose(row, states[0].mean(axis=0), atol=1e-5)
