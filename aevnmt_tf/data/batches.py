"""Indices of pairs -> padded Batch dicts, gathered inside the graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.data.batch_order import FILLER
from aevnmt_tf.data.batch_shapes import Lengths, assign, choose_shapes
from aevnmt_tf.data.pair_encoding import EncodedPairs, Sequences

Batch = dict[str, tf.Tensor]
Tensors = tuple[tf.Tensor, tf.Tensor]  # ids and offsets


class Gatherer:
    """Builds batches from the ids of pairs, which are in memory or in mapped files.

    Args:
        parts: the pairs; those of later parts are numbered after those of earlier ones.
        corpora: the corpus of each part.
        shapes: (Tx, Ty) of each bucket.  # [K, 2]
    """

    def __init__(
        self, parts: Sequence[EncodedPairs], *, corpora: Sequence[int], shapes: np.ndarray
    ):
        with tf.device("CPU:0"):  # where tf.data runs: a GPU's memory is not for this
            self._x = [_tensors(part.x) for part in parts]
            self._y = [_tensors(part.y) for part in parts]
            self._corpora = tf.constant(corpora, tf.int32)
            self._shapes = tf.constant(shapes, tf.int32)  # [K, 2]
        self._ends = np.cumsum([len(part) for part in parts])

    def __call__(self, pairs: tf.Tensor, bucket: tf.Tensor, row: tf.Tensor) -> Batch:
        """Return the batch of some pairs.

        Args:
            pairs: indices of pairs, or FILLER.  # [B] int64
            bucket: the bucket, which gives the padded lengths.  # [] int32
            row: what to call the rows.  # [B] int32
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
        """Return sequences as a rectangle, `</s>` after their ends, and lengths: [B, T], [B].

        A filler is one `</s>`, never of length 0: a mean over nothing is NaN, and NaN times
        weight 0 is NaN.
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
            # A pad reads its row's last id, which is </s>: the id of padding.
            column_of = tf.minimum(column, length[:, None] - 1)  # [B, T]
            found = tf.cast(tf.gather(ids, start[:, None] + column_of), tf.int32)
            rows = tf.where(is_here[:, None], found, rows)
            lengths = tf.where(is_here, length, lengths)
        return rows, tf.cast(lengths, tf.int32)


def _tensors(sequences: Sequences) -> Tensors:
    return _tensor(sequences.ids), _tensor(sequences.offsets)


def _tensor(array: np.ndarray) -> tf.Tensor:
    """Return an array as a tensor; the pages of a mapped file stay where they are."""
    if not isinstance(array, np.memmap):
        return tf.constant(array)
    return tf.experimental.dlpack.from_dlpack(array.view(np.ndarray).__dlpack__())


def without_copies() -> tf.data.Options:
    """Return options with which tf.data leaves captured tensors where they are.

    The graph rewrites that are on by default copy them, and mapped files with them.
    """
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return options


def evaluation_batches(
    encoded: EncodedPairs,
    *,
    batch_size: int,
    num_shapes: int = 8,
    shapes: np.ndarray | None = None,
    corpus: int = 0,
) -> tf.data.Dataset:
    """Return all pairs once, short ones first; `row` is the index of the pair in `encoded`.

    Args:
        encoded: the pairs.
        batch_size: rows of every batch; fillers have weight 0 and row -1.
        num_shapes: the most padded shapes, so that XLA compiles few.
        shapes: shapes that are compiled already, such as those of the training data; only
            pairs that fit in none of them get new ones.
        corpus: the corpus index of the pairs.
    """
    x_len, y_len = encoded.x.lengths, encoded.y.lengths
    lengths = Lengths(x_len, y_len)
    shapes = _extended(shapes, lengths, num_shapes=num_shapes, batch_size=batch_size)
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
    gather = Gatherer([encoded], corpora=[corpus], shapes=shapes)
    dataset = tf.data.Dataset.from_tensor_slices((rows, np.array(bucket_of_batch, np.int32)))
    return dataset.map(
        lambda pairs, bucket: gather(tf.cast(pairs, tf.int64), bucket, pairs),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    ).prefetch(tf.data.AUTOTUNE)


def _extended(
    shapes: np.ndarray | None, lengths: Lengths, *, num_shapes: int, batch_size: int
) -> np.ndarray:
    """Return the given shapes and new ones for the pairs that fit in none: [K, 2]."""
    given = np.zeros((0, 2), np.int64) if shapes is None else np.asarray(shapes, np.int64)
    fits = np.zeros(len(lengths.x), bool)
    for x_width, y_width in given:
        fits |= (lengths.x <= x_width) & (lengths.y <= y_width)
    rest = Lengths(lengths.x[~fits], lengths.y[~fits])
    new = choose_shapes([rest], num_shapes=num_shapes, batch_size=batch_size)
    both = np.concatenate([given, new])
    return both[np.argsort(both.sum(1), kind="stable")]
