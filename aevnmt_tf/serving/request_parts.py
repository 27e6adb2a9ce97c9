"""Splits requests into parts that fit into a batch, and joins the answers of the parts."""

import dataclasses
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import numpy as np

from aevnmt_tf.serving import status

Arrays = Mapping[str, np.ndarray]
# Rows of up to this many words share a batch with any shorter rows. Longer rows share one with
# rows of at least half their length.
SHORT = 32


@dataclasses.dataclass(frozen=True)
class Budget:
    """The limits of a batch: its rows, and rows x words of the longest row x `width`."""

    rows: int
    words: int
    width: int = 1

    def cost(self, rows: int, longest: int) -> int:
        """Return how much of `words` rows take that are padded to the longest one."""
        return rows * longest * self.width

    def allows(self, rows: int, *, shortest: int, longest: int) -> bool:
        """Return whether rows may share a batch; a single row is always allowed."""
        return rows == 1 or (
            rows <= self.rows
            and self.cost(rows, longest) <= self.words
            and longest <= max(SHORT, 2 * shortest)
        )


class Answer(Future):
    """The outputs of a request, in parts whose rows have the numbers `places`."""

    def __init__(self, places: Sequence[np.ndarray]):
        super().__init__()
        self._places = places
        self._outputs: dict[int, Arrays] = {}
        self._lock = threading.Lock()

    def add(self, number: int, outputs: Arrays) -> None:
        """Add the outputs of one part."""
        with self._lock:
            self._outputs[number] = outputs
            is_last = len(self._outputs) == len(self._places)
        if is_last and self.set_running_or_notify_cancel():
            parts = [self._outputs[part] for part in range(len(self._places))]
            try:
                self.set_result(concatenate(parts, self._places))
            except Exception as error:
                self.set_exception(status.of(error))

    def fail(self, error: BaseException) -> None:
        """Let the whole request fail because of one part."""
        with self._lock:
            if not self.done() and self.set_running_or_notify_cancel():
                self.set_exception(status.of(error))


@dataclasses.dataclass(eq=False)
class Part:
    """The rows of one request that run together."""

    answer: Answer  # to the whole request; done if the client left or another part failed
    number: int  # in the request
    inputs: Arrays
    rows: int
    shortest: int
    longest: int
    cost: int
    tag: float  # of fair queueing
    arrival: float

    @property
    def row_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of a row of each input."""
        return {name: array.shape[1:] for name, array in self.inputs.items()}


def split(
    inputs: Arrays, *, words: np.ndarray, budget: Budget, clock: float = 0.0
) -> list[Part]:
    """Return the parts of a request that each fit into a batch, shortest rows first.

    The tag of a part is the clock plus the cost of all parts up to it.
    """
    places = _places(words, budget)
    answer, now, parts = Answer(places), time.monotonic(), []
    for number, rows in enumerate(places):
        few = {name: array[rows] for name, array in inputs.items()}
        shortest, longest = int(words[rows].min()), int(words[rows].max())
        cost = budget.cost(len(rows), longest)
        clock += cost
        parts.append(Part(answer, number, few, len(rows), shortest, longest, cost, clock, now))
    return parts


def _places(words: np.ndarray, budget: Budget) -> list[np.ndarray]:
    """Return the numbers of the rows of each part."""
    rows = len(words)
    if budget.allows(rows, shortest=int(words.min()), longest=int(words.max())):
        return [np.arange(rows)]
    order = np.argsort(words, kind="stable")
    places, start = [], 0
    for end in range(1, rows + 1):
        if end == rows or not budget.allows(
            end + 1 - start, shortest=int(words[order[start]]), longest=int(words[order[end]])
        ):
            places.append(order[start:end])
            start = end
    return places


def concatenate(answers: Sequence[Arrays], rows: Sequence[np.ndarray]) -> Arrays:
    """Join the answers of parts, given the numbers of the rows of each part.

    Shorter rows are padded with zeros or empty strings.
    """
    if len(answers) == 1:
        return answers[0]
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
