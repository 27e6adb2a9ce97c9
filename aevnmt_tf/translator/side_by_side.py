"""Several batches under way at the same time.

A step of search is a chain of small operations, which leave cores idle one after the other. Two
batches fill each other's gaps.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tensorflow as tf

from aevnmt_tf import machine

MOST = 4  # each batch needs memory of its own


def even_size(count: int, *, most: int) -> int:
    """How many of `count` rows, `most` or fewer, a batch has if no core is to get one less."""
    workers = _workers()
    rounds = -(-count // (most * workers))
    return -(-count // max(1, rounds * workers))


def run(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
    """Call a function with each item, and give the results in the order of the items."""
    workers = _workers()
    if workers == 1 or len(items) < 2:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(workers)
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)


def _workers():
    return 1 if tf.config.list_logical_devices("GPU") else min(MOST, machine.num_cores())
