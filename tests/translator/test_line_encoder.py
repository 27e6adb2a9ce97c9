"""Lines as batches of ids, and what is no line."""

import pytest

from aevnmt_tf.cli.errors import UserError


def test_one_string_is_not_taken_for_lines(shared):
    for call in (shared.translate, shared.n_best, shared.embed, shared.embedder.draw):
        with pytest.raises(UserError, match="one string: pass .line."):
            call("a b")
    with pytest.raises(UserError, match="one string"):
        shared.score(["a b"], "a b")


@pytest.mark.parametrize("lines, name", [(["a", None], r"lines\[1\]"), ([b"a"], r"lines\[0\]")])
def test_what_is_no_string_is_named(shared, lines, name):
    for call in (shared.translate, shared.embed):
        with pytest.raises(UserError, match=name):
            call(lines)
    with pytest.raises(UserError, match=name):
        shared.score(["a"] * len(lines), lines)


@pytest.mark.parametrize("lines", [None, 3, b"a b"])
def test_lines_are_a_list(shared, lines):
    with pytest.raises(UserError, match="lines must be a list"):
        shared.translate(lines)
