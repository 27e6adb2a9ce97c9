"""Word vectors of files, in GloVe's form."""

import numpy as np
import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.text import word_vectors


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_rows_come_in_the_order_of_the_words(tmp_path, header):
    path = tmp_path / "glove.en"
    path.write_text(f"{header}a 1 2\nnot_asked_for 0\nb 3 4.5 \n")
    found = word_vectors.read(path, ["b", "a"], size=2)
    np.testing.assert_array_equal(found, np.float32([[3, 4.5], [1, 2]]))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a 1 2 3", "line 2: 3 numbers, but num_units is 2"),
        ("a 1 x", "line 2: a must be followed by numbers"),
        ("c 1 2", "no vector for a and 0 other words"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, line, words):
    path = tmp_path / "glove.en"
    path.write_text(f"b 1 2\n{line}\n")
    with pytest.raises(UserError, match=words):
        word_vectors.read(path, ["b", "a"], size=2)
