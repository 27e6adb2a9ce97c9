"""Subwords are joined outside the graph as they are inside it."""

import pytest
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.text import subwords

LINES = ["lo@@ w@@ er", "@@ a", "x@@", "a@@  b", "no subwords", "", "a@@ b@@ c d"]


def test_bpe_as_in_the_graph():
    pieces = sorted({word for line in LINES for word in line.split()})
    tokenizer = text.VocabularyTokenizer(["<unk>", "<s>", "</s>", *pieces], "bpe")
    lines = [" ".join(line.split()) for line in LINES]
    decoded = [word.decode() for word in tokenizer.decode(tokenizer.encode(lines)).numpy()]
    assert subwords.join(lines, "bpe") == decoded
    assert decoded[:3] == ["lower", "@@ a", "x"] and decoded[-1] == "abc d"
    assert subwords.join(lines, "") == lines
    matched = tf.strings.regex_replace(LINES, subwords.BPE_END, r"\1").numpy()
    assert [word.decode() for word in matched] == subwords.join(LINES, "bpe")


@pytest.mark.parametrize("line", ["▁Hel lo ▁wor ld .", "Hello world."])
def test_pieces_of_sentencepiece(line):
    assert subwords.join([line], "spm") == ["Hello world."]
