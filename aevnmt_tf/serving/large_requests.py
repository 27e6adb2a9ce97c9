"""Requests taken apart into rows that run well together, and their answers put together."""

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import numpy as np

Arrays = Mapping[str, np.ndarray]
# Rows up to this many words run with any shorter ones; longer ones not with those half as long.
SHORT = 32


@dataclasses.dataclass(frozen=True)
class Budget:
    """How much one batch may have: rows, and rows x words of the longest one x `width`."""

    rows: int
    words: int
    width: int = 1

    def cost(self, rows: int, longest: int) -> int:
        """Return what so many rows, padded to the longest, take of `words`."""
        return rows * longest * self.width

    def allows(self, rows: int, *, shortest: int, longest: int) -> bool:
        """Return whether rows may run together; a single one always may."""
        return rows == 1 or (
            rows <= self.rows
            and self.cost(rows, longest) <= self.words
            and longest <= max(SHORT, 2 * shortest)
        )


def split(words: np.ndarray, budget: Budget) -> list[np.ndarray]:
    """Return the rows of a request as parts that each fit into a batch, shortest first."""
    rows = len(words)
    if budget.allows(rows, shortest=int(words.min()), longest=int(words.max())):
        return [np.arange(rows)]
    order = np.argsort(words, kind="stable")
    parts, start = [], 0
    for end in range(1, rows + 1):
        if end == rows or not budget.allows(
            end + 1 - start, shortest=int(words[order[start]]), longest=int(words[order[end]])
        ):
            parts.append(order[start:end])
            start = end
    return parts


def join(parts: Sequence[Future], rows: Sequence[np.ndarray]) -> Future:
    """Return one future of what several give; who cancels it cancels them.

    Args:
        parts: their futures.
        rows: the places of each part's rows in the whole answer.
    """
    joined: Future = Future()
    lock, left = threading.Lock(), len(parts)

    def count(_: Future) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last and joined.set_running_or_notify_cancel():
            try:
                joined.set_result(concatenate([part.result() for part in parts], rows))
            except BaseException as error:  # the first part's that has one
                joined.set_exception(error)

    def cancel(_: Future) -> None:
        if joined.cancelled():
            for part in parts:
                part.cancel()

    joined.add_done_callback(cancel)
    for part in parts:
        part.add_done_callback(count)
    return joined


def abandoned(parts: Sequence[Future]) -> Future:
    """Return a future that is cancelled as soon as all of the parts are."""
    made: Future = Future()

    def check(_: Future) -> None:
        if all(part.cancelled() for part in parts):
            made.cancel()

    for part in parts:
        part.add_done_callback(check)
    return made


def concatenate(answers: Sequence[Arrays], rows: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return the rows of several answers in their places.

    Short ones are filled with zeros and empty strings.
    """
    return {name: _stacked([answer[name] for answer in answers], rows) for name in answers[0]}


def _stacked(arrays: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> np.ndarray:
    shape = np.max([array.shape[1:] for array in arrays], axis=0).astype(int)
    first = arrays[0]
    empty = b"" if first.dtype == object else 0
    found = np.full([sum(map(len, arrays)), *shape], empty, first.dtype)
    for array, places in zip(arrays, rows, strict=True):
        where = (places, *map(slice, array.shape[1:]))
        found[where] = array
    return found
