"""Join subwords to words outside the graph.

Inside the graph, tokenizers use the same patterns.
"""

import re
from collections.abc import Iterable

# The end of a subword inside a word, valid in Python's `re` and TensorFlow's RE2. A lone @@ is
# a word.
BPE_END = r"([^ ])@@(?: |$)"
PIECE_START = "▁"  # SentencePiece's mark of a word's start

_BPE_END = re.compile(BPE_END)


def join_bpe(line: str) -> str:
    """Join BPE subwords: `lo@@ w@@ er` becomes `lower`."""
    return _BPE_END.sub(r"\1", line)


def join_pieces(line: str) -> str:
    """Join SentencePiece pieces; return a line that does not start with a piece unchanged."""
    if not line.startswith(PIECE_START):
        return line
    return line.replace(" ", "").replace(PIECE_START, " ").strip(" ")


def join(lines: Iterable[str], option: str) -> list[str]:
    """Join the subwords of lines; words remain unchanged.

    Args:
      lines: The text.
      option: The subword_option of a run: "" (words), "bpe" or "spm".
    """
    joiner = {"bpe": join_bpe, "spm": join_pieces}.get(option)
    return list(lines) if joiner is None else [joiner(line) for line in lines]
