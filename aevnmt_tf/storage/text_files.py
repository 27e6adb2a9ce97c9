"""Text files as a whole: found plain or as .gz, read and checked, their lines in one buffer."""

from __future__ import annotations

import contextlib
import itertools
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import line_streams

if TYPE_CHECKING:
    import numpy as np

_BLOCK = 1 << 24  # bytes checked at a time


class TextLines(Sequence[str]):
    """The lines of a text file: one buffer and offsets, about the size of the file.

    Only a line feed ends a line: other separators of Unicode may stand inside a sentence and
    must not move the lines after it. A carriage return before the line feed is not part of
    the line, a byte order mark is not part of the first.
    """

    def __init__(self, buffer: bytes, *, name: str):
        import numpy as np  # not with the module: verbs that read streams start without it

        self.name = name
        self._buffer = buffer
        codes = np.frombuffer(buffer, np.uint8)
        ends = np.flatnonzero(codes == ord("\n"))
        if len(buffer) and not buffer.endswith(b"\n"):
            ends = np.append(ends, len(buffer))
        starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        if buffer.startswith(line_streams.BOM):
            starts[0] = len(line_streams.BOM)
        returns = (ends > starts) & (codes[np.maximum(ends, 1) - 1] == ord("\r"))
        self._starts: np.ndarray = starts
        self._ends: np.ndarray = ends - returns

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [line.decode() for line in self.encoded(index)]
        return self._buffer[self._starts[index] : self._ends[index]].decode()

    def __iter__(self) -> Iterator[str]:
        for start, end in zip(self._starts.tolist(), self._ends.tolist(), strict=True):
            yield self._buffer[start:end].decode()

    def encoded(self, index: slice = slice(None)) -> list[bytes]:
        """Return the lines of a slice in UTF-8, without the price of decoding them."""
        bounds = zip(self._starts[index].tolist(), self._ends[index].tolist(), strict=True)
        return [self._buffer[start:end] for start, end in bounds]


def find_file(path: str | os.PathLike[str]) -> Path:
    """Return the path, or PATH.gz where only that exists."""
    for candidate in (Path(path), Path(f"{path}.gz")):
        if candidate.exists() and not candidate.is_dir():  # a pipe will do
            return candidate
    raise UserError(f"neither {path} nor {path}.gz exists: check the prefix.")


def read_lines(path: str | os.PathLike[str], *, errors: str | None = None) -> TextLines:
    """Return all lines of a UTF-8 file, plain or .gz, or of stdin for "-".

    Args:
        path: The file of a corpus, whose name may lack .gz; with `errors`, the very file.
        errors: What --errors says about bytes that are not UTF-8 in a file that another flag
            names: "strict" or "replace"; None: strict, in a corpus that settings name.
    """
    is_stdin = str(path) == line_streams.STD
    found = str(path if is_stdin or errors is not None else find_file(path))
    name = "stdin" if is_stdin else found
    try:
        with line_streams.open_input(found) as stream:
            buffer = stream.read()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {name}: {error}.") from error
    if errors == "replace":
        buffer = buffer.decode(errors="replace").encode()
    else:
        advice = "convert it to UTF-8" if errors is None else line_streams.ERRORS_ADVICE
        _check_utf8(buffer, name=name, advice=advice)
    return TextLines(buffer, name=name)


@dataclass(frozen=True)
class FileLines:
    """The lines of files that stay on the disk, for those who read them in order.

    They are those of `line_streams.StreamLines`: the rules of TextLines hold.

    Args:
        parts: UTF-8 files, plain or .gz, and how many lines of each count.
    """

    parts: tuple[tuple[Path, int], ...] = ()

    @classmethod
    def of(cls, path: str | os.PathLike[str], *, most: int = 0) -> FileLines:
        """Count the lines of a file, or take the first `most`; bytes must be UTF-8."""
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
        """Return the lines in UTF-8, without the price of decoding them."""
        for path, count in self.parts:
            with reading(path) as stream:
                yield from itertools.islice(line_streams.StreamLines(stream), count)


def count_lines(path: str | os.PathLike[str]) -> int:
    """Return how many lines a UTF-8 file has, plain or .gz, in constant memory.

    The lines are those of `line_streams.StreamLines`.
    """
    count, rest = 0, b""
    with reading(path) as stream:
        while block := stream.read(_BLOCK):
            whole, feed, rest = (rest + block).rpartition(b"\n")
            _check_utf8(whole, name=str(path), first_line=count + 1)
            count += whole.count(b"\n") + len(feed)
    _check_utf8(rest, name=str(path), first_line=count + 1)
    return count + bool(rest)


@contextlib.contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Yield the binary stream of a file, plain or .gz; trouble in the block is a sentence."""
    try:
        with line_streams.open_input(str(path)) as stream:
            yield stream
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}.") from error


def _check_utf8(
    buffer: bytes, *, name: str, advice: str = "convert it to UTF-8", first_line: int = 1
) -> None:
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
            line = buffer.count(b"\n", 0, position) + first_line
            byte = f"byte 0x{buffer[position]:02x}"
            raise UserError(
                f"{name}, line {line}: {byte} is not valid UTF-8; {advice}."
            ) from error
        start = end


def different_lengths(first: str, count: int, second: str, other: int) -> str:
    """Return the sentence about two files that should have as many lines."""
    lines = "1 line" if count == 1 else f"{count} lines"
    return (
        f"{first} has {lines} but {second} has {other}; the same line of both files belongs "
        "together."
    )
