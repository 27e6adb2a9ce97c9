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


def run(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
    """Call a function with each item, and give the results in the order of the items."""
    workers = 1 if tf.config.list_logical_devices("GPU") else min(MOST, machine.num_cores())
    if workers == 1 or len(items) < 2:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(workers)
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)
