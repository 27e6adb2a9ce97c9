"""Results for people, where text is made outside of the graph."""

import numpy as np
import pytest

from aevnmt_tf.translator import Decoding, Translation
from aevnmt_tf.translator.translated_lines import one_of_each


def found():
    """What Moses writes in one way: "do n't" and "don 't"."""
    return [
        Translation("don't", -1.0 / 1.0, -1.0, length=1),
        Translation("no", -1.5, -1.5, length=1),
        Translation("don't", -2.0, -2.0, length=1),
        Translation("nothing", -2.5, -2.5, length=1),
    ]


def test_texts_that_become_equal_are_merged():
    merged = one_of_each(found(), Decoding(n_best=4, length_penalty_weight=1.0))
    assert [t.text for t in merged] == ["don't", "no", "nothing"]
    assert merged[0].log_prob == merged[0].score == pytest.approx(np.logaddexp(-1, -2))


def test_probabilities_under_different_z_and_utilities_are_not_added():
    for rule in (Decoding(z="sample", num_z=2), Decoding(search="mbr", references="aggregate")):
        merged = one_of_each(found(), rule)
        assert [(t.text, t.score) for t in merged][:2] == [("don't", -1.0), ("no", -1.5)]


def test_a_sum_may_come_first():
    first, second = (
        Translation("a", -1.0, -1.0, length=1),
        Translation("b", -1.2, -1.2, length=1),
    )
    again = Translation("b", -1.3, -1.3, length=1)
    merged = one_of_each([first, second, again], Decoding(n_best=3))
    assert [t.text for t in merged] == ["b", "a"]
