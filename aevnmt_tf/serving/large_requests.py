"""Requests with more rows than a batch has: taken apart, and their answers put together."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future

import numpy as np

Arrays = Mapping[str, np.ndarray]


def split(inputs: Arrays, *, rows: int, size: int) -> Iterator[tuple[Arrays, int]]:
    """Parts of a request with at most `size` rows, and how many each has."""
    for start in range(0, rows, size):
        part = {name: array[start : start + size] for name, array in inputs.items()}
        yield part, min(size, rows - start)


def join(parts: Sequence[Future]) -> Future:
    """One future of what several give, row after row; who cancels it cancels them."""
    joined: Future = Future()
    lock, left = threading.Lock(), len(parts)

    def count(_):
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last and joined.set_running_or_notify_cancel():
            try:
                joined.set_result(concatenate([part.result() for part in parts]))
            except BaseException as error:  # the first part's that has one
                joined.set_exception(error)

    def cancel(_):
        if joined.cancelled():
            for part in parts:
                part.cancel()

    joined.add_done_callback(cancel)
    for part in parts:
        part.add_done_callback(count)
    return joined


def concatenate(answers: Sequence[Arrays]) -> dict[str, np.ndarray]:
    """The rows of several answers; short ones are filled with zeros and empty strings."""
    return {name: _stacked([answer[name] for answer in answers]) for name in answers[0]}


def _stacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    shape = np.max([array.shape[1:] for array in arrays], axis=0).astype(int)
    first = arrays[0]
    empty = b"" if first.dtype == object else 0
    found = np.full([sum(map(len, arrays)), *shape], empty, first.dtype)
    start = 0
    for array in arrays:
        places = (slice(start, start + len(array)), *map(slice, array.shape[1:]))
        found[places] = array
        start += len(array)
    return found
