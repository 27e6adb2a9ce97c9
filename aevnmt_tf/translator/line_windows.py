"""How many lines are read and sorted by length at a time.

The first window is one batch, so that results come soon; then windows double up to WINDOW
batches. Where they start depends on the batch size alone, unless a reader had to wait.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

WINDOW = 20  # batches among which sentences are sorted by length

Item = TypeVar("Item")


def windows(
    items: Iterable[Item],
    *,
    batch_size: int,
    window: int | None = None,
    is_ready: Callable[[], bool] = lambda: True,
    start: int = 0,
) -> Iterator[tuple[int, list[Item]]]:
    """Return what is read and sorted at a time: some items, and the number of the first.

    Args:
        items: lines, or pairs of them.
        batch_size: how many are translated at a time.
        window: how many items; None: one batch first, so that the first results come soon,
            then more.
        is_ready: whether the next item can be had at once; a window ends where it cannot.
        start: the number of the first item, where a window starts if all items are read.
    """
    items = iter(items)
    size = window or window_after(start, batch_size=batch_size)
    while chunk := list(islice(items, 1)):
        while len(chunk) < size and is_ready() and (more := list(islice(items, 1))):
            chunk += more
        yield start, chunk
        start += len(chunk)
        size = window or min(2 * size, WINDOW * batch_size)


def window_after(start: int, *, batch_size: int) -> int:
    """Return the size of the window that starts at an item, if no reader had to wait."""
    at, size = 0, batch_size
    while at < start and size < WINDOW * batch_size:
        at, size = at + size, min(2 * size, WINDOW * batch_size)
    return size


def window_starts(total: int, *, batch_size: int) -> list[int]:
    """Return where the windows of `total` items start, if no reader has to wait."""
    starts, at = [], 0
    while at < total:
        starts.append(at)
        at += window_after(at, batch_size=batch_size)
    return starts
