"""Text files as a whole: found plain or as .gz, read and checked, their lines in one buffer."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

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

    def cut(self, num_lines: int) -> TextLines:
        """Return the first `num_lines` lines, in a buffer of their own."""
        if num_lines >= len(self):
            return self
        return TextLines(self._buffer[: int(self._starts[num_lines])], name=self.name)


def find_file(path: str | os.PathLike[str]) -> Path:
    """Return the path, or PATH.gz where only that exists."""
    for candidate in (Path(path), Path(f"{path}.gz")):
        if candidate.exists() and not candidate.is_dir():  # a pipe will do
            return candidate
    raise UserError(f"there is no file {path} and no file {path}.gz: check the prefix.")


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


def _check_utf8(buffer: bytes, *, name: str, advice: str) -> None:
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
