"""A random order from a key, the same in NumPy and inside a TensorFlow graph.

tf.data draws the batch plan inside the graph, because Python code in tf.data's threads can hang
a process that ends. Tests and tools draw it with NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

GROUP_BITS = 15  # the rest of a sort key's 63 bits is random
_GOLDEN = 0x9E3779B97F4A7C15


class Operations(Protocol):
    """What drawing a plan needs of an array library."""

    def number(self, value: int) -> Any:
        """An unsigned 64-bit number; sums and products wrap around."""

    def count(self, size: int) -> Any:
        """0, 1, ..., size - 1, unsigned 64-bit."""

    def shift(self, values: Any, places: int) -> Any:
        """Unsigned numbers without their lowest bits."""

    def signed(self, values: Any) -> Any:
        """The same numbers as signed 64-bit."""

    def argsort(self, values: Any) -> Any:
        """The stable order of signed numbers."""

    def take(self, values: Any, places: Any) -> Any:
        """values[places]."""

    def join(self, values: Any, more: Any) -> Any:
        """One array after the other."""


class NumpyOperations:
    """Operations on NumPy arrays."""

    def number(self, value):
        """An unsigned 64-bit number, as an array: NumPy warns when a scalar wraps around."""
        return np.asarray([value % 2**64], np.uint64)

    def count(self, size):
        """0, 1, ..., size - 1."""
        return np.arange(size, dtype=np.uint64)

    def shift(self, values, places):
        """Unsigned numbers without their lowest bits."""
        return values >> np.uint64(places)

    def signed(self, values):
        """The same numbers as signed 64-bit."""
        return values.astype(np.int64)

    def argsort(self, values):
        """The stable order."""
        return np.argsort(values, kind="stable")

    def take(self, values, places):
        """values[places]."""
        return values[places]

    def join(self, values, more):
        """One array after the other."""
        return np.concatenate([values, more])


NUMPY = NumpyOperations()


def random_order(groups: Any, size: int, *, key: Sequence[Any], ops: Operations = NUMPY) -> Any:
    """Positions 0 ... size - 1 sorted by group, in random order inside each.  # [size]

    The random bits are SplitMix64 (Steele et al. 2014): a few lines that are the same in every
    library and every version of it.

    Args:
        groups: a small number for each position, or 0 for one group of all.  # [size] int64
        size: how many.
        key: whole numbers, or scalar tensors, that decide the order.
        ops: the array library.
    """
    state = ops.number(0)
    for part in key:
        state = _mixed(state + ops.number(part) + ops.number(_GOLDEN), ops)
    bits = _mixed(state + ops.count(size) * ops.number(_GOLDEN), ops)
    bits = ops.signed(ops.shift(bits, GROUP_BITS + 1))
    return ops.argsort(groups * 2 ** (63 - GROUP_BITS) + bits)


def _mixed(bits: Any, ops: Operations) -> Any:
    bits = (bits ^ ops.shift(bits, 30)) * ops.number(0xBF58476D1CE4E5B9)
    bits = (bits ^ ops.shift(bits, 27)) * ops.number(0x94D049BB133111EB)
    return bits ^ ops.shift(bits, 31)
