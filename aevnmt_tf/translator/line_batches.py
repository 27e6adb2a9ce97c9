"""How lines are grouped: into windows that are sorted by length, and into batches.

The first window is one batch, so that results come soon. Later windows double in size, up to
WINDOW batches. Where they start depends on the batch size alone, unless a reader had to wait.

Several batches run at the same time. A search step is a chain of small operations, each of
which leaves cores idle; batches fill each other's gaps. This module does not import TensorFlow.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import TypeVar

from aevnmt_tf.cli import machine

Item = TypeVar("Item")
Value = TypeVar("Value")

WINDOW = 20  # the largest window, in batches
MOST_WORKERS = 16  # each batch under way takes some 200 MB
USUAL = 16  # hypotheses per line for which full batches fit into memory
# Hypotheses per batch of a beam search on a CPU, measured with 3,000 and 8,000 words: logits of
# more hypotheses do not stay in the caches; fewer do not pay for loading the weights.
CPU_ROWS = 384


def windows(
    items: Iterable[Item],
    *,
    batch_size: int,
    window: int | None = None,
    is_ready: Callable[[], bool] = lambda: True,
    start: int = 0,
) -> Iterator[tuple[int, list[Item]]]:
    """Yield windows of items, each with the number of its first item.

    Args:
        items: Lines, or pairs of lines.
        batch_size: The number of items per batch.
        window: A fixed window size, in items.
        is_ready: Whether the next item can be read without waiting; if not, a window ends.
        start: The number of the first item, which must be the start of a window.
    """
    items = iter(items)
    size = window or _window_at(start, batch_size=batch_size)
    while chunk := list(islice(items, 1)):
        while len(chunk) < size and is_ready() and (more := list(islice(items, 1))):
            chunk += more
        yield start, chunk
        start += len(chunk)
        size = window or min(2 * size, WINDOW * batch_size)


def window_starts(total: int, *, batch_size: int) -> list[int]:
    """Return where the windows of `total` items start if no reader has to wait."""
    starts, at = [], 0
    while at < total:
        starts.append(at)
        at += _window_at(at, batch_size=batch_size)
    return starts


def _window_at(start: int, *, batch_size: int) -> int:
    """Return the size of the window that starts at an item."""
    at, size = 0, batch_size
    while at < start and size < WINDOW * batch_size:
        at, size = at + size, min(2 * size, WINDOW * batch_size)
    return size


def fitting_size(most: int, *, hypotheses: int) -> int:
    """Return the number of lines per batch: `most`, or fewer for many hypotheses per line."""
    rows = most * USUAL
    if hypotheses > 1 and not _has_gpu():
        rows = min(rows, CPU_ROWS)
    return max(1, min(most, rows // hypotheses))


def even_size(count: int, *, most: int) -> int:
    """Return the batch size, up to `most`, that gives all workers equally many batches."""
    workers = _num_workers()
    rounds = -(-count // (most * workers))
    return -(-count // max(1, rounds * workers))


def run(function: Callable[[Item], Value], items: Sequence[Item]) -> Iterator[Value]:
    """Call a function for each item in threads, and yield the results in order.

    A caller that stops early, as on Ctrl-C, does not wait for calls under way. A single item
    runs in a thread, too, so that the main thread can receive Ctrl-C.
    """
    futures: deque[Future[Value]] = deque(Future() for _ in items)
    waiting = deque(zip(items, futures, strict=True))

    def work() -> None:
        while waiting:
            with contextlib.suppress(IndexError):  # another thread has taken the last item
                item, future = waiting.popleft()
                try:
                    future.set_result(function(item))
                except BaseException as error:  # raised again by result()
                    future.set_exception(error)

    for _ in range(min(_num_workers(), len(items))):
        machine.start_worker(work)
    try:
        while futures:
            yield futures.popleft().result()
    finally:
        waiting.clear()


def _num_workers() -> int:
    return 1 if _has_gpu() else min(MOST_WORKERS, machine.num_cores())


def _has_gpu() -> bool:
    import tensorflow as tf

    return bool(tf.config.list_logical_devices("GPU"))
