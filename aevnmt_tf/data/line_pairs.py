"""Streams of pairs: the lines of two files side by side, in constant memory."""

import collections
import contextlib
import os
import zlib

from aevnmt_tf.data import line_files
from aevnmt_tf.errors import UserError


def count(path):
    """How many lines a file has; None where it is no file or does not come to its end."""
    if not os.path.isfile(path):
        return None
    with line_files.open_input(path) as stream:
        try:
            return sum(1 for _ in stream)
        except (OSError, EOFError, zlib.error):
            return None


def check_counts(src, tgt):
    """Refuse two files of different lengths at once, not when the shorter one ends."""
    counts = (count(src), count(tgt))
    if None not in counts and counts[0] != counts[1]:
        raise UserError(_different((src, tgt), counts))


def _different(names, counts):
    (src, tgt), (of_src, of_tgt) = names, counts
    lines = "1 line" if of_src == 1 else f"{of_src} lines"
    return f"{src} has {lines} but {tgt} has {of_tgt}; a pair is the same line of both files"


class Pairs:
    """Pairs of lines, as far as there are lines of both; `problem` says what is wrong then.

    A context that opens the files and closes them. Pairs wait in `waiting` until their results
    come.

    Args:
        src: a file, plain or .gz, or "-".
        tgt: another one.
        errors: "strict" ends before a line that is not UTF-8; "replace" goes on.
    """

    def __init__(self, src, tgt, *, errors="strict"):
        self.problem = None
        self.waiting = collections.deque()
        self._paths, self._errors = (src, tgt), errors
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        with self._stack as stack:
            self._streams = [
                stack.enter_context(line_files.open_input(path)) for path in self._paths
            ]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def __iter__(self):
        names = ["stdin" if path == "-" else path for path in self._paths]
        readers = [
            line_files.Reader(stream, name=name, errors=self._errors)
            for stream, name in zip(self._streams, names, strict=True)
        ]
        sides = [iter(reader) for reader in readers]
        number = 0
        while True:
            pair = tuple(next(side, None) for side in sides)
            for reader in readers:
                reader.waiting.clear()
                self.problem = self.problem or reader.problem
            if self.problem or pair == (None, None):
                return
            if None in pair:
                longer = 1 - pair.index(None)
                counts = [number, number]
                counts[longer] += 1 + _rest(readers[longer], sides[longer])
                self.problem = readers[longer].problem or _different(names, counts)
                return
            number += 1
            self.waiting.append(pair)
            yield pair


def _rest(reader, lines):
    """How many lines are left, without keeping them."""
    number = 0
    for _ in lines:
        reader.waiting.clear()
        number += 1
    return number
