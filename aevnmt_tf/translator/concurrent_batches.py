"""Several batches under way at the same time.

A step of search is a chain of small operations, which leave cores idle one after the other. Two
batches fill each other's gaps.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

import tensorflow as tf

from aevnmt_tf.cli import machine

Item = TypeVar("Item")
Value = TypeVar("Value")

MOST = 16  # each batch needs memory of its own, some 200 MB
USUAL = 16  # hypotheses of a line for which `most` lines at a time have memory
# Hypotheses of a beam's batch on a CPU, as measured with 3,000 and 8,000 words: the logits of
# more leave the caches between two passes, fewer are not worth the weights' way into them.
CPU_ROWS = 384


def fitting_size(most: int, *, hypotheses: int) -> int:
    """Return how many lines a batch has, `most` or fewer where lines have many hypotheses."""
    rows = most * USUAL
    if hypotheses > 1 and not _has_gpu():
        rows = min(rows, CPU_ROWS)
    return max(1, min(most, rows // hypotheses))


def even_size(count: int, *, most: int) -> int:
    """Return how many of `count` rows a batch has, `most` or fewer, with all cores busy."""
    workers = _workers()
    rounds = -(-count // (most * workers))
    return -(-count // max(1, rounds * workers))


def run(function: Callable[[Item], Value], items: Sequence[Item]) -> Iterator[Value]:
    """Call a function with each item, and give the results in the order of the items.

    Whoever stops asking, as Ctrl-C does, does not wait for what is under way. That is also why
    a single item has a thread: the main one hears of Ctrl-C.
    """
    futures: deque[Future[Value]] = deque(Future() for _ in items)
    waiting = deque(zip(items, futures, strict=True))

    def work() -> None:
        while waiting:
            with contextlib.suppress(IndexError):  # another one has taken the last
                item, future = waiting.popleft()
                try:
                    future.set_result(function(item))
                except BaseException as error:  # for whoever asks
                    future.set_exception(error)

    for _ in range(min(_workers(), len(items))):
        machine.start_worker(work)
    try:
        while futures:
            yield futures.popleft().result()
    finally:
        waiting.clear()


def _workers() -> int:
    return 1 if _has_gpu() else min(MOST, machine.num_cores())


def _has_gpu() -> bool:
    return bool(tf.config.list_logical_devices("GPU"))
