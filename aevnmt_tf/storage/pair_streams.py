"""Streams of sentence pairs: the lines of two files side by side, in constant memory."""

import contextlib
import os
import zlib
from collections.abc import Iterator

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import line_streams
from aevnmt_tf.storage.text_files import different_lengths


def count(path: str) -> int | None:
    """Return the number of lines; None if it is not a regular file or cannot be read."""
    if not os.path.isfile(path):
        return None
    with line_streams.open_input(path) as stream:
        try:
            return sum(1 for _ in stream)
        except (OSError, EOFError, zlib.error):
            return None


def check_counts(src: str, tgt: str) -> None:
    """Raise a UserError if two files differ in length, before any line is processed."""
    of_src, of_tgt = count(src), count(tgt)
    if of_src is not None and of_tgt is not None and of_src != of_tgt:
        raise UserError(different_lengths(src, of_src, tgt, of_tgt))


class PairStream:
    """Pairs of lines, as a context manager that opens and closes the files.

    Iteration stops at the first error and sets `problem`.

    Args:
        src: A file, plain or .gz, or "-".
        tgt: Another one.
        errors: "strict" stops before a line that is not UTF-8; "replace" replaces such bytes.
    """

    def __init__(self, src: str, tgt: str, *, errors: str = "strict"):
        self.problem: str | None = None
        self._paths, self._errors = (src, tgt), errors
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "PairStream":
        with self._stack as stack:
            self._streams = [
                stack.enter_context(line_streams.open_input(path)) for path in self._paths
            ]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def is_ready(self) -> bool:
        """Return True: files never keep a reader waiting."""
        return True

    def __iter__(self) -> Iterator[tuple[str, str]]:
        names = ["stdin" if path == "-" else path for path in self._paths]
        readers = [
            line_streams.Reader(stream, name=name, errors=self._errors)
            for stream, name in zip(self._streams, names, strict=True)
        ]
        sides = [iter(reader) for reader in readers]
        number = 0
        while True:
            src, tgt = (next(side, None) for side in sides)
            for reader in readers:
                self.problem = self.problem or reader.problem
            if self.problem or src is tgt is None:
                return
            if src is None or tgt is None:
                longer = 1 if src is None else 0
                counts = [number, number]
                counts[longer] += 1 + sum(1 for _ in sides[longer])
                different = different_lengths(names[0], counts[0], names[1], counts[1])
                self.problem = readers[longer].problem or different
                return
            number += 1
            yield src, tgt
