"""A run's directory as a translator."""

import numpy as np
import pytest

import aevnmt_tf
from aevnmt_tf.cli.errors import UserError
from tests import tiny
from tests.tiny_translator import LINES, make, save_run


@pytest.fixture
def run(tmp_path):
    """A run with random weights in best/ and others in checkpoints/."""
    return save_run(tmp_path / "run", beam_width=0)


def test_load(run):
    t = aevnmt_tf.load(run)
    expected = make(src="en", tgt="de", beam_width=0)
    tiny.randomise(expected.model, seed=3, scale=0.8)
    assert t.translate(LINES) == expected.translate(LINES)
    tiny.randomise(expected.model, seed=4, scale=0.8)
    last = aevnmt_tf.load(run, checkpoint="last")
    for a, b in zip(last.model.weights, expected.model.weights, strict=True):
        np.testing.assert_array_equal(a, b)
    assert aevnmt_tf.load(run, beam_width=7).hp.beam_width == 7


def test_load_of_what_is_no_run(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UserError, match="is not a training run"):
            aevnmt_tf.load(folder)
