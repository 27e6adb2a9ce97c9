"""Indices of pairs -> padded Batch dicts, gathered inside the graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.data.batch_order import FILLER
from aevnmt_tf.data.batch_shapes import Lengths, assign, choose_shapes
from aevnmt_tf.data.pair_encoding import EncodedPairs

Batch = dict[str, tf.Tensor]
Tensors = tuple[tf.Tensor, tf.Tensor]  # ids and offsets


class Gatherer:
    """Builds batches from the ids of pairs, which are in memory or in mapped files.

    Args:
        parts: The pairs, numbered consecutively over all parts.
        corpora: The corpus of each part.
        shapes: (Tx, Ty) of each bucket.  # [K, 2]
    """

    def __init__(
        self, parts: Sequence[EncodedPairs], *, corpora: Sequence[int], shapes: np.ndarray
    ):
        with tf.device("CPU:0"):  # where tf.data runs; do not fill a GPU's memory
            self._x = [(_tensor(part.x.ids), _tensor(part.x.offsets)) for part in parts]
            self._y = [(_tensor(part.y.ids), _tensor(part.y.offsets)) for part in parts]
            self._corpora = tf.constant(corpora, tf.int32)
            self._shapes = tf.constant(shapes, tf.int32)  # [K, 2]
        self._ends = np.cumsum([len(part) for part in parts])

    def __call__(self, pairs: tf.Tensor, bucket: tf.Tensor, row: tf.Tensor) -> Batch:
        """Return a batch of pairs.

        Args:
            pairs: Indices of pairs, or FILLER.  # [B] int64
            bucket: The bucket, which determines the padded lengths.  # [] int32
            row: The `row` of the batch.  # [B] int32
        """
        part = tf.searchsorted(self._ends, pairs, side="right")  # [B]
        shape = tf.gather(self._shapes, bucket)
        is_real = tf.not_equal(pairs, FILLER)
        x, x_len = self._padded(self._x, pairs, part, shape[0])
        y, y_len = self._padded(self._y, pairs, part, shape[1])
        weight = tf.cast(is_real, tf.float32)
        corpus = tf.gather(self._corpora, tf.where(is_real, part, 0))
        return dict(x=x, x_len=x_len, y=y, y_len=y_len, weight=weight, corpus=corpus, row=row)

    def _padded(
        self, side: Sequence[Tensors], pairs: tf.Tensor, part: tf.Tensor, width: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return sequences padded with `</s>`, and their lengths: [B, T], [B].

        A filler is one `</s>` and not empty: a mean over nothing is NaN, and NaN times weight 0
        is NaN.
        """
        rows = tf.fill([tf.size(pairs), width], text.EOS)
        lengths = tf.ones_like(pairs)
        column = tf.range(tf.cast(width, tf.int64))  # [T]
        for number, (ids, offsets) in enumerate(side):
            size = tf.size(offsets, tf.int64) - 1
            first = self._ends[number] - size
            is_here = tf.equal(part, number) & tf.not_equal(pairs, FILLER)  # [B]
            place = tf.where(is_here, pairs - first, 0)
            start = tf.gather(offsets, place)  # [B]
            length = tf.gather(offsets, place + 1) - start  # [B]
            # Padding reads the last id of its row, which is </s>.
            column_of = tf.minimum(column, length[:, None] - 1)  # [B, T]
            found = tf.cast(tf.gather(ids, start[:, None] + column_of), tf.int32)
            rows = tf.where(is_here[:, None], found, rows)
            lengths = tf.where(is_here, length, lengths)
        return rows, tf.cast(lengths, tf.int32)


def _tensor(array: np.ndarray) -> tf.Tensor:
    """Return an array as a tensor without copying a mapped file."""
    if not isinstance(array, np.memmap):
        return tf.constant(array)
    return tf.experimental.dlpack.from_dlpack(array.view(np.ndarray).__dlpack__())


def without_copies() -> tf.data.Options:
    """Return tf.data options that switch off graph rewrites, which copy captured tensors."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return options


def evaluation_batches(
    encoded: EncodedPairs,
    *,
    batch_size: int,
    num_shapes: int = 8,
) -> tf.data.Dataset:
    """Return all pairs once, short ones first; `row` is the index of the pair in `encoded`.

    Args:
        encoded: The pairs.
        batch_size: Rows of every batch; fillers have weight 0 and row -1.
        num_shapes: The maximum number of padded shapes, so that XLA compiles few.
    """
    x_len, y_len = encoded.x.lengths, encoded.y.lengths
    shapes = choose_shapes(
        [Lengths(x_len, y_len)], num_shapes=num_shapes, batch_size=batch_size
    )
    buckets = assign(x_len, y_len, shapes=shapes)
    rows, bucket_of_batch = [], list[int]()
    for k in range(len(shapes)):
        inside = np.flatnonzero(buckets == k)
        inside = inside[np.argsort(x_len[inside] + y_len[inside], kind="stable")]
        padded = np.full(-(-len(inside) // batch_size) * batch_size, FILLER, np.int32)
        padded[: len(inside)] = inside
        rows.append(padded.reshape(-1, batch_size))
        bucket_of_batch += [k] * len(rows[-1])
    rows = np.concatenate(rows or [np.zeros((0, batch_size), np.int32)])
    gather = Gatherer([encoded], corpora=[0], shapes=shapes)
    dataset = tf.data.Dataset.from_tensor_slices((rows, np.array(bucket_of_batch, np.int32)))
    return dataset.map(
        lambda pairs, bucket: gather(tf.cast(pairs, tf.int64), bucket, pairs),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    ).prefetch(tf.data.AUTOTUNE)


def without_targets(batch: Batch, *, corpus: int) -> Batch:
    """Return the batch without targets in the rows of a monolingual corpus.

    Until here, these rows have a copy of the source as target. With y_len 0, only -log P(x|z)
    and the KL remain of their loss. If all rows are monolingual, y has one column of padding.
    """
    is_mono = batch["corpus"] == corpus
    y_len = tf.where(is_mono, 0, batch["y_len"])
    width = tf.where(tf.reduce_any(y_len > 1), tf.shape(batch["y"])[1], 1)
    y = tf.where(is_mono[:, None], text.EOS, batch["y"])[:, :width]
    return batch | {"y": y, "y_len": y_len}
