"""Whole text files, plain or .gz: find them, count their lines, read them.

All functions split lines as `line_streams.StreamLines` does.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import line_streams

_BLOCK = 1 << 24  # bytes checked at a time


class TextLines(list[str]):
    """The lines of a text file. `name` identifies the file in messages."""

    def __init__(self, lines: Iterable[str], *, name: str):
        super().__init__(lines)
        self.name = name


def find_file(path: str | os.PathLike[str]) -> Path:
    """Return the path if it exists, otherwise PATH.gz."""
    for candidate in (Path(path), Path(f"{path}.gz")):
        if candidate.exists() and not candidate.is_dir():  # a pipe is fine
            return candidate
    raise UserError(f"neither {path} nor {path}.gz exists: check the prefix.")


def read_lines(path: str | os.PathLike[str], *, errors: str | None = None) -> TextLines:
    """Return all lines of a UTF-8 file, plain or .gz, or of stdin for "-".

    Args:
        path: The file. Without `errors`, the name of a corpus file, which may lack ".gz".
        errors: The --errors flag of the command: "strict" or "replace" bytes that are not
            UTF-8. None: the file belongs to a corpus that the settings name; be strict.
    """
    is_stdin = str(path) == line_streams.STD
    found = str(path if is_stdin or errors is not None else find_file(path))
    name = "stdin" if is_stdin else found
    with reading(found) as stream:
        buffer = stream.read()
    advice = "convert it to UTF-8" if errors is None else line_streams.ERRORS_ADVICE
    lines = _decoded(buffer, name=name, advice=advice, errors=errors or "strict").split("\n")
    if not lines[-1]:
        lines.pop()
    if lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    return TextLines((line.removesuffix("\r") for line in lines), name=name)


@dataclass(frozen=True)
class FileLines:
    """Lines of files that stay on disk, to be read in order.

    Args:
        parts: UTF-8 files, plain or .gz, and the number of lines to use of each.
    """

    parts: tuple[tuple[Path, int], ...] = ()

    @classmethod
    def of(cls, path: str | os.PathLike[str], *, most: int = 0) -> FileLines:
        """Return the first `most` lines of a file (0: all), checked to be UTF-8."""
        found = find_file(path)
        count = count_lines(found)
        return cls(((found, min(count, most or count)),))

    def __add__(self, other: FileLines) -> FileLines:
        return FileLines(self.parts + other.parts)

    def __len__(self) -> int:
        return sum(count for _, count in self.parts)

    def __iter__(self) -> Iterator[str]:
        return map(bytes.decode, self.encoded())

    def __getitem__(self, index: slice) -> Iterator[str]:
        chosen = itertools.islice(self.encoded(), index.start, index.stop, index.step)
        return map(bytes.decode, chosen)

    def encoded(self) -> Iterator[bytes]:
        """Yield the lines as UTF-8, without decoding them."""
        for path, count in self.parts:
            with reading(path) as stream:
                yield from itertools.islice(line_streams.StreamLines(stream), count)


def count_lines(path: str | os.PathLike[str]) -> int:
    """Return the number of lines of a UTF-8 file, plain or .gz, in constant memory."""
    count, rest = 0, b""
    with reading(path) as stream:
        while block := stream.read(_BLOCK):
            # Blocks end after a line feed, so that no character is cut in two.
            whole, feed, rest = (rest + block).rpartition(b"\n")
            _decoded(whole, name=str(path), first_line=count + 1)
            count += whole.count(b"\n") + len(feed)
    _decoded(rest, name=str(path), first_line=count + 1)
    return count + bool(rest)


@contextlib.contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open a file, plain or .gz, for reading bytes; turn read errors into a UserError."""
    try:
        with line_streams.open_input(str(path)) as stream:
            yield stream
    except (OSError, EOFError, zlib.error) as error:
        name = "stdin" if str(path) == line_streams.STD else path
        raise UserError(f"cannot read {name}: {error}.") from error


def _decoded(
    buffer: bytes,
    *,
    name: str,
    advice: str = "convert it to UTF-8",
    errors: str = "strict",
    first_line: int = 1,
) -> str:
    try:
        return buffer.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        line = buffer.count(b"\n", 0, error.start) + first_line
        raise UserError(
            f"{name}, line {line}: byte 0x{buffer[error.start]:02x} is not valid UTF-8; "
            f"{advice}."
        ) from error


def different_lengths(first: str, count: int, second: str, other: int) -> str:
    """Return the message about two files that should have the same number of lines."""
    lines = "1 line" if count == 1 else f"{count} lines"
    return (
        f"{first} has {lines} but {second} has {other}; line N of one file must belong to "
        "line N of the other."
    )
