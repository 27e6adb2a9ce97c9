"""Streams of lines from and to files (plain or .gz), stdin and stdout, in constant memory."""

import collections
import contextlib
import gzip
import os
import select
import shutil
import sys
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import atomic_writes

STD = "-"
BOM = b"\xef\xbb\xbf"
BLOCK = 1 << 16  # bytes read at a time
LINE_BREAKS = str.maketrans("\n\r\t", "   ")  # a model with byte fallback can write these
ERRORS_ADVICE = "use --errors replace to read it anyway"
PATIENCE = 0.05  # seconds to wait for the next line


def open_input(path: str) -> contextlib.AbstractContextManager[Any]:
    """Return a binary stream of a file, plain or .gz, or of stdin."""
    if path == STD:
        return contextlib.nullcontext(_stdin())
    try:
        stream: Any = gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")
        stream.peek(1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {path}: {reason}.") from None
    return stream


def _stdin() -> Any:
    if sys.stdin is None:
        raise UserError("stdin is closed: give a file to read.")
    with contextlib.suppress(OSError, ValueError):  # it may have no descriptor
        # Another owner of the pipe may have made it non-blocking, where "nothing yet" reads as
        # the end.
        os.set_blocking(sys.stdin.buffer.fileno(), True)
    return sys.stdin.buffer


def refuse_inputs(path: str | None, inputs: Iterable[str | None]) -> None:
    """Raise a UserError if the file to write is one of the inputs."""
    if path in (None, STD) or not os.path.isfile(path):
        return
    for other in inputs:
        if other is not None and os.path.exists(other) and os.path.samefile(path, other):
            raise UserError(f"{path} is also an input: choose another file.")


class StreamLines:
    r"""The lines of a binary stream.

    Only \n ends a line: other separators of Unicode occur inside sentences. A \r before it and
    a byte order mark are not part of a line.
    """

    def __init__(self, stream: Any):
        self._stream = stream
        self._read: collections.deque[bytes] = collections.deque()

    def __iter__(self) -> Iterator[bytes]:
        mark = BOM
        for line in self._split():
            yield line.removeprefix(mark).removesuffix(b"\r")
            mark = b""

    def _split(self) -> Iterator[bytes]:
        start: list[bytes] = []  # of a line that is not complete
        while block := self._stream.read1(BLOCK):
            first, *others = block.split(b"\n")
            start.append(first)
            if others:
                self._read.append(b"".join(start))
                self._read.extend(others[:-1])
                start = others[-1:]
            while self._read:
                yield self._read.popleft()
        if last := b"".join(start):
            yield last

    def is_ready(self) -> bool:
        """Return whether the next line, or the end, can be read without waiting."""
        if self._read:
            return True
        try:
            return bool(select.select([self._stream.fileno()], [], [], PATIENCE)[0])
        except (OSError, ValueError):  # not a stream that one can wait for
            return True


class Reader:
    """The lines of a binary stream as text.

    Reading stops before a line that is not UTF-8 and sets `problem`, so that the caller can
    process the lines before it. With `only`, other lines (counted from 0) are skipped.
    """

    def __init__(
        self,
        stream: Any,
        *,
        name: str,
        errors: str = "strict",
        only: frozenset[int] | None = None,
    ):
        self.problem: str | None = None
        self._only = only
        self._lines, self._name, self._errors = StreamLines(stream), name, errors
        self.is_ready = self._lines.is_ready

    def __iter__(self) -> Iterator[str]:
        try:
            for number, line in enumerate(self._lines, 1):
                try:
                    decoded = line.decode("utf-8", errors=self._errors)
                except UnicodeDecodeError as error:
                    self.problem = (
                        f"{self._name}, line {number}: byte 0x{line[error.start]:02x} is not "
                        f"valid UTF-8; {ERRORS_ADVICE}."
                    )
                    return
                if self._only is None or number - 1 in self._only:
                    yield decoded
                if self._only is not None and number > max(self._only):
                    return
            if self._only is not None:
                self.problem = f"--lines: {self._name} has no line {max(self._only)} (from 0)."
        except (OSError, EOFError, zlib.error) as error:
            self.problem = f"cannot read {self._name}: {error}."


class Output:
    """Write lines to a file, plain or .gz, or to stdout.

    Args:
        path: The file, or "-".
        source: The input, which must be a different file.
        is_whole: Whether the file appears only when it is complete, and not after an error.
    """

    def __init__(self, path: str, *, source: str, is_whole: bool = False):
        self._stack = contextlib.ExitStack()
        self._name = "stdout" if path == STD else path
        self._is_file = path != STD
        if not self._is_file and sys.stdout is None:
            raise UserError("stdout is closed: give a file to write.")
        refuse_inputs(path, [source])
        with self._explained():
            self._stream: Any = (
                self._opened(path, is_whole) if self._is_file else sys.stdout.buffer
            )

    def _opened(self, path: str, is_whole: bool) -> Any:
        opened = atomic_writes.opened(path) if is_whole else open(path, "wb")
        stream = self._stack.enter_context(opened)
        if not path.endswith(".gz"):
            return stream
        return self._stack.enter_context(gzip.GzipFile(path, "wb", fileobj=stream))

    def write(self, line: str) -> None:
        """Write a line in one call, so that an interruption leaves no partial line."""
        with self._explained():
            self._stream.write(f"{line}\n".encode())

    def write_from(self, stream: Any) -> None:
        """Copy a binary stream."""
        with self._explained():
            shutil.copyfileobj(stream, self._stream)

    def flush(self) -> None:
        """Flush the stream."""
        with self._explained():
            self._stream.flush()

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *error: Any) -> None:
        with self._explained():
            self._stack.__exit__(*error)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            if not self._is_file:  # otherwise Python fails again when it flushes at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise UserError(f"cannot write {self._name}: {error.strerror}.") from None


def write_lines(path: str, lines: Iterable[str]) -> None:
    """Write lines to a file, plain or .gz, or to stdout."""
    with Output(path, source=STD) as output:
        for line in lines:
            output.write(line)
