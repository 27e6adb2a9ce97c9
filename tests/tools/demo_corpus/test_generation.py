"""The grammar still makes the text that the package ships."""

import bz2

import pytest
from demo_corpus import generation

from aevnmt_tf.data.demo_corpus import FOLDER


@pytest.mark.slow
def test_the_shipped_text_is_the_grammars():
    import make_demo_corpus

    for ending, text in make_demo_corpus.contents().items():
        assert bz2.decompress((FOLDER / f"pairs.{ending}.bz2").read_bytes()) == text, ending


def test_a_longer_list_begins_with_a_shorter_one_and_seeds_differ():
    pairs = generation.generate(seed=1, num_pairs=80)
    assert generation.generate(seed=1, num_pairs=50) == pairs[:50]
    assert generation.generate(seed=2, num_pairs=50) != pairs[:50]


def test_a_used_up_grammar_is_an_error(monkeypatch):
    same = generation.Pair("A b c d.", "A b c d.", 0)
    monkeypatch.setattr(generation, "_stream", lambda seed: iter([same] * 9999))
    with pytest.raises(ValueError, match="only 1 of 2"):
        generation.generate(seed=1, num_pairs=2)
