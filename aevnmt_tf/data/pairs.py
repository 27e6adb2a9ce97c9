"""Parallel text files -> checked pairs of lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage.text_files import TextLines, different_lengths, read_lines


@dataclass(frozen=True)
class Pairs:
    """Aligned lines of a source and a target file; `name` says where they come from."""

    src: TextLines
    tgt: TextLines
    name: str

    def __len__(self) -> int:
        return len(self.src)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.src, self.tgt, strict=True)


def read_pairs(prefix: str | Path, *, src: str, tgt: str, max_pairs: int = 0) -> Pairs:
    """Return the first `max_pairs` of PREFIX.SRC and PREFIX.TGT, plain or .gz; 0: all."""
    x, y = read_lines(f"{prefix}.{src}"), read_lines(f"{prefix}.{tgt}")
    if len(x) != len(y):
        raise UserError(different_lengths(x.name, len(x), y.name, len(y)))
    if max_pairs:
        x, y = x.cut(max_pairs), y.cut(max_pairs)
    return Pairs(x, y, str(prefix))


def read_synthetic(
    prefix: str | Path, *, src: str, tgt: str, max_pairs: int = 0, tag: str | None = None
) -> Pairs:
    """Return back-translated pairs: PREFIX.translation.SRC, made by a model, and PREFIX.TGT.

    `tag` is a word to put in front of every source that is not empty.
    """
    pairs = read_pairs(prefix, src=f"translation.{src}", tgt=tgt, max_pairs=max_pairs)
    if tag is None:
        return pairs
    start = f"{tag} ".encode()
    lines = [start + line if line.decode().strip() else line for line in pairs.src.encoded()]
    buffer = b"".join(line + b"\n" for line in lines)
    return Pairs(TextLines(buffer, name=pairs.src.name), pairs.tgt, pairs.name)
