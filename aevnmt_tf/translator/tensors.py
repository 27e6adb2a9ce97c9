"""Python's values as tensors, and back."""

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import tensorflow as tf

from aevnmt_tf.errors import UserError

WINDOW = 20  # batches among which sentences are sorted by length

MATRIX = tf.TensorSpec([None, None], tf.int32)
VECTOR = tf.TensorSpec([None], tf.int32)
SEEDS = tf.TensorSpec([None], tf.int64)
STRINGS = tf.TensorSpec([None], tf.string)


def vectors(size):
    """The spec of vectors [B, size], such as z."""
    return tf.TensorSpec([None, size], tf.float32)


def seeds(seed, numbers):
    """A seed for each line: the given one in one half, the line's number in the other."""
    return tf.constant((np.int64(seed) << 32) + numbers, tf.int64)


def several(lines):
    """Lines as they are; a UserError where they are one string: its letters are no lines."""
    if isinstance(lines, str):
        raise UserError("lines must be a list of strings, and this is one string: give [line]")
    return lines


def strings(lines):
    """Lines of text as a tensor [N]."""
    # NumPy's own string type would cut zero bytes at the end.
    array = np.empty(len(lines), object)
    array[:] = [line.encode("utf-8", errors="replace") for line in lines]
    return tf.constant(array)


def texts(pieces):
    """An array of bytes [N] as lines of text."""
    return [piece.decode("utf-8", errors="replace") for piece in pieces]


def windows(
    items: Iterable, *, batch_size, window=None, is_ready=lambda: True
) -> Iterator[tuple[int, list]]:
    """What is read and sorted at a time: the first item's number, from 0, and some items.

    Args:
        items: lines, or pairs of them.
        batch_size: how many are translated at a time.
        window: how many items; None: one batch first, so that the first results come soon,
            then more.
        is_ready: whether the next item can be had at once; a window ends where it cannot.
    """
    items, start = iter(items), 0
    size = window or batch_size
    while chunk := list(islice(items, 1)):
        while len(chunk) < size and is_ready() and (more := list(islice(items, 1))):
            chunk += more
        yield start, chunk
        start += len(chunk)
        size = window or min(2 * size, WINDOW * batch_size)
