"""The batch plan drawn inside the graph: the same numbers as plan.py, no Python on the way."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from aevnmt_tf.data import plan


class GraphOperations:
    """shuffle.Operations on tensors."""

    def number(self, value):
        """An unsigned 64-bit number."""
        if isinstance(value, tf.Tensor):
            return tf.cast(value, tf.uint64)
        return tf.constant(value % 2**64, tf.uint64)

    def count(self, size):
        """0, 1, ..., size - 1."""
        return tf.cast(tf.range(size, dtype=tf.int64), tf.uint64)

    def shift(self, values, places):
        """Unsigned numbers without their lowest bits."""
        return tf.bitwise.right_shift(values, tf.constant(places, tf.uint64))

    def signed(self, values):
        """The same numbers as signed 64-bit."""
        return tf.cast(values, tf.int64)

    def argsort(self, values):
        """The stable order."""
        return tf.argsort(values, stable=True)

    def take(self, values, places):
        """values[places]."""
        return tf.gather(_tensor(values), _tensor(places))

    def join(self, values, more):
        """One array after the other."""
        return tf.concat([_tensor(values), _tensor(more)], 0)


GRAPH = GraphOperations()


def _tensor(values):
    """Large arrays enter a graph as captured tensors, not as constants in its definition."""
    if isinstance(values, np.ndarray):
        with tf.init_scope(), tf.device("CPU:0"):
            return tf.constant(values)
    return values


def batches_of(
    stream: plan.Stream,
    *,
    first_batch: int,
    columns: np.ndarray,
    offset: int = 0,
    samples: int = 1,
    stride: int = 0,
) -> tf.data.Dataset:
    """The batches of a stream from a given one on, without end.

    Args:
        stream: what to draw.
        first_batch: counted from the beginning of epoch 0.
        columns: the rows of each part that is wanted of a batch, see plan.shard_columns.
        offset: added to the indices of pairs.  # -> (pairs [size], bucket [], part [])
        samples: how many segmentations a pair has; epochs take them in turn, each pair
            starting with another one.
        stride: from a segmentation of a pair to its next, in indices.
    """
    first_epoch, first_place = divmod(first_batch, stream.num_batches)
    num_parts, size = columns.shape

    def draw(epoch):
        pairs, bucket = stream.epoch(epoch, ops=GRAPH)
        start = tf.where(tf.equal(epoch, first_epoch), tf.constant(first_place, tf.int64), 0)
        pairs, bucket = pairs[start:], bucket[start:]
        sample = (pairs + tf.cast(epoch % samples, pairs.dtype)) % samples
        pairs = tf.where(tf.equal(pairs, plan.FILLER), pairs, pairs + offset + sample * stride)
        pairs = tf.pad(pairs, [[0, 0], [0, 1]], constant_values=plan.FILLER)
        pairs = tf.reshape(tf.gather(pairs, columns, axis=1), [-1, size])
        part = tf.tile(tf.range(num_parts), [tf.size(bucket)])
        return pairs, tf.repeat(bucket, num_parts), part

    epochs = tf.data.Dataset.range(first_epoch, np.iinfo(np.int64).max)
    # The next epoch is drawn while this one is being trained on.
    drawn = epochs.map(tf.autograph.experimental.do_not_convert(draw)).prefetch(1)
    return drawn.flat_map(lambda *epoch: tf.data.Dataset.from_tensor_slices(epoch))
