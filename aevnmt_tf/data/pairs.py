"""Parallel text files -> checked pairs of lines, read from disk on demand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage.text_files import FileLines, count_lines, different_lengths, find_file

Lines = tuple[list[bytes], list[bytes]]  # of a source and a target, in UTF-8


@dataclass(frozen=True)
class Pairs:
    """Aligned lines of a source and a target file.

    Args:
        src: The lines of the source.
        tgt: The same number of lines of the target.
        name: Where the pairs come from.
        tag: A word to put in front of every source that is not empty.
    """

    src: FileLines
    tgt: FileLines
    name: str
    tag: str | None = None

    def __len__(self) -> int:
        return len(self.src)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for x, y in self.chunks(1000):
            yield from zip(map(bytes.decode, x), map(bytes.decode, y), strict=True)

    def chunks(self, size: int, *, first: int = 0) -> Iterator[Lines]:
        """Yield `size` pairs at a time, starting with pair `first`."""
        start = b"" if self.tag is None else f"{self.tag} ".encode()
        x_lines = itertools.islice(self.src.encoded(), first, None)
        y_lines = itertools.islice(self.tgt.encoded(), first, None)
        while x := list(itertools.islice(x_lines, size)):
            if start:
                x = [start + line if line.decode().strip() else line for line in x]
            yield x, list(itertools.islice(y_lines, size))


def read_pairs(
    prefix: str | Path, *, src: str, tgt: str, max_pairs: int = 0, tag: str | None = None
) -> Pairs:
    """Return the first `max_pairs` of PREFIX.SRC and PREFIX.TGT, plain or .gz; 0: all.

    Both files are read once to count their lines and to check that they are UTF-8.
    """
    x, y = find_file(f"{prefix}.{src}"), find_file(f"{prefix}.{tgt}")
    counts = count_lines(x), count_lines(y)
    if counts[0] != counts[1]:
        raise UserError(different_lengths(str(x), counts[0], str(y), counts[1]))
    count = min(counts[0], max_pairs or counts[0])
    return Pairs(FileLines(((x, count),)), FileLines(((y, count),)), str(prefix), tag)
