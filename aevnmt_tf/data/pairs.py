"""Parallel text files -> checked pairs of lines."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aevnmt_tf.errors import UserError

_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 24  # bytes checked at a time


class Lines(Sequence[str]):
    """The lines of a text file: one buffer and offsets, about the size of the file.

    Only a line feed ends a line: other separators of Unicode may stand inside a sentence and
    must not move the lines after it. A carriage return before the line feed is not part of
    the line, a byte order mark is not part of the first.
    """

    def __init__(self, buffer: bytes, *, name: str):
        self.name = name
        self._buffer = buffer
        codes = np.frombuffer(buffer, np.uint8)
        ends = np.flatnonzero(codes == ord("\n"))
        if len(buffer) and not buffer.endswith(b"\n"):
            ends = np.append(ends, len(buffer))
        starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        if buffer.startswith(_BOM):
            starts[0] = len(_BOM)
        returns = (ends > starts) & (codes[np.maximum(ends, 1) - 1] == ord("\r"))
        self._starts, self._ends = starts, ends - returns

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [line.decode() for line in self.encoded(index)]
        start, end = self._starts[index], self._ends[index]
        return self._buffer[start:end].decode()

    def __iter__(self):
        for start, end in zip(self._starts.tolist(), self._ends.tolist(), strict=True):
            yield self._buffer[start:end].decode()

    def encoded(self, index: slice = slice(None)) -> list[bytes]:
        """The lines of a slice in UTF-8, without the price of decoding them."""
        bounds = zip(self._starts[index].tolist(), self._ends[index].tolist(), strict=True)
        return [self._buffer[start:end] for start, end in bounds]

    def cut(self, num_lines: int) -> Lines:
        """The first `num_lines` lines, in a buffer of their own."""
        if num_lines >= len(self):
            return self
        return Lines(self._buffer[: int(self._starts[num_lines])], name=self.name)


@dataclass(frozen=True)
class Pairs:
    """Aligned lines of a source and a target file; `name` says where they come from."""

    src: Lines
    tgt: Lines
    name: str

    def __len__(self) -> int:
        return len(self.src)

    def __iter__(self):
        return zip(self.src, self.tgt, strict=True)


def find_file(path: str | Path) -> Path:
    """`path`, or `path`.gz where only that exists."""
    plain = Path(path)
    packed = Path(f"{path}.gz")
    for candidate in (plain, packed):
        if candidate.is_file():
            return candidate
    raise UserError(f"There is no file {plain} and no file {packed}; check the prefix.")


def read_lines(path: str | Path) -> Lines:
    """All lines of a UTF-8 file, plain or gzipped; an error names the first bad line."""
    found = find_file(path)
    try:
        if found.suffix == ".gz":
            with gzip.open(found) as file:
                buffer = file.read()
        else:
            buffer = found.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"Cannot read {found}: {error}.") from error
    _check_utf8(buffer, path=found)
    return Lines(buffer, name=str(found))


def _check_utf8(buffer: bytes, *, path: Path) -> None:
    view = memoryview(buffer)
    start = 0
    while start < len(buffer):
        # Blocks end after a line feed, so that no character is cut in two.
        end = buffer.rfind(b"\n", start, start + _BLOCK) + 1
        if not end:
            end = buffer.find(b"\n", start) + 1 or len(buffer)
        try:
            str(view[start:end], "utf-8")
        except UnicodeDecodeError as error:
            position = start + error.start
            line = buffer.count(b"\n", 0, position) + 1
            raise UserError(
                f"{path}, line {line}: byte 0x{buffer[position]:02x} is not valid UTF-8; "
                "convert the file to UTF-8."
            ) from error
        start = end


def read_pairs(prefix: str | Path, *, src: str, tgt: str, max_pairs: int = 0) -> Pairs:
    """The pairs of PREFIX.SRC and PREFIX.TGT, plain or .gz; the first `max_pairs`, 0 = all."""
    return _align(
        read_lines(f"{prefix}.{src}"),
        read_lines(f"{prefix}.{tgt}"),
        name=str(prefix),
        max_pairs=max_pairs,
    )


def read_synthetic(
    prefix: str | Path, *, src: str, tgt: str, max_pairs: int = 0, tag: str | None = None
) -> Pairs:
    """Back-translated pairs: PREFIX.translation.SRC, made by a model, and PREFIX.TGT.

    `tag` is a word to put in front of every source that is not empty.
    """
    pairs = _align(
        read_lines(f"{prefix}.translation.{src}"),
        read_lines(f"{prefix}.{tgt}"),
        name=str(prefix),
        max_pairs=max_pairs,
    )
    if tag is None:
        return pairs
    start = f"{tag} ".encode()
    lines = [start + line if line.decode().strip() else line for line in pairs.src.encoded()]
    buffer = b"".join(line + b"\n" for line in lines)
    return Pairs(Lines(buffer, name=pairs.src.name), pairs.tgt, pairs.name)


def _align(src: Lines, tgt: Lines, *, name: str, max_pairs: int) -> Pairs:
    if len(src) != len(tgt):
        raise UserError(
            f"{src.name} has {len(src)} lines but {tgt.name} has {len(tgt)}; "
            "a pair is the same line of both files."
        )
    if max_pairs:
        src, tgt = src.cut(max_pairs), tgt.cut(max_pairs)
    return Pairs(src, tgt, name)
