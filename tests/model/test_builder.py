"""Weights before training: those of the authors' code, unless a setting says otherwise."""

import numpy as np
import pytest

from aevnmt_tf import model as models
from tests import tiny

VOCAB_X, VOCAB_Y, UNITS = 600, 500, 32


def initial(**options):
    """The variables of an AEVNMT that nothing has changed yet."""
    hp = tiny.settings("source_only", num_units=UNITS, **options)
    return tiny.layers(models.build(hp, VOCAB_X, VOCAB_Y))


@pytest.mark.parametrize(
    ("options", "stddev"), [({}, 0.5), ({"embedding_stddev": 0.1}, 0.1)], ids=["default", "0.1"]
)
def test_embeddings_are_normal_with_the_stddev_asked_for(options, stddev):
    layers = initial(**options)
    for name, size in (("emb_x", VOCAB_X), ("emb_y", VOCAB_Y)):
        table = layers[name]["embeddings"].numpy()
        assert table.shape == (size, UNITS)
        error = stddev / np.sqrt(table.size)  # of the mean; of the stddev it is less
        assert abs(table.mean()) < 4 * error
        assert abs(table.std() - stddev) < 4 * error
        within = np.mean(np.abs(table) < stddev)  # 0.683 of a normal, 0.577 of a uniform
        assert within == pytest.approx(0.683, abs=0.02)


def test_output_layers_are_glorot_uniform():
    layers = initial()
    for name in ("out_x", "out_y"):
        kernel = layers[name]["kernel"].numpy()
        limit = np.sqrt(6 / sum(kernel.shape))
        assert 0.99 * limit < np.abs(kernel).max() <= limit
        assert kernel.std() == pytest.approx(limit / np.sqrt(3), rel=0.02)
        assert not layers[name]["bias"].numpy().any()


def test_gates_start_open():
    bias = initial()["gru_dec"]["bias"].numpy()
    assert bias.tolist() == [1.0] * (2 * UNITS) + [0.0] * UNITS
