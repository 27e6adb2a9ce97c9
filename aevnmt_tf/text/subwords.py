"""Subwords in lines of text, and the words that they make.

What a model reads may be cut into subwords (TF-NMT's data are); what people read and metrics
score is not. Everything that joins subwords outside the graph does it here; inside the graph
the tokenizers use the same pattern.
"""

import re
from collections.abc import Iterable

# The end of a subword inside a word, for Python's `re` and for TensorFlow's RE2 alike. A word
# of nothing but @@ is a word.
BPE_END = r"([^ ])@@(?: |$)"
PIECE_START = "▁"  # how SentencePiece writes the space before a word

_BPE_END = re.compile(BPE_END)


def join_bpe(line: str) -> str:
    """Return a line with its BPE subwords joined: `lo@@ w@@ er` is `lower`."""
    return _BPE_END.sub(r"\1", line)


def join_pieces(line: str) -> str:
    """Return the text of a line of SentencePiece pieces, which starts with a word's start."""
    if not line.startswith(PIECE_START):
        return line
    return line.replace(" ", "").replace(PIECE_START, " ").strip(" ")


def join(lines: Iterable[str], option: str) -> list[str]:
    """Return lines as people read them; whole words stay as they are.

    Args:
      lines: text, in subwords or not.
      option: a run's subword_option: "" (words), "bpe" or "spm".
    """
    joiner = {"bpe": join_bpe, "spm": join_pieces}.get(option)
    return list(lines) if joiner is None else [joiner(line) for line in lines]
