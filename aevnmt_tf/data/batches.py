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


class Gatherer:
    """Builds batches from the ids of all pairs, which it holds in memory.

    Args:
        parts: the pairs; those of later parts are numbered after those of earlier ones.
        corpus: the corpus of each pair.  # [N]
        shapes: (Tx, Ty) of each bucket.  # [K, 2]
    """

    def __init__(
        self, parts: Sequence[EncodedPairs], *, corpus: np.ndarray, shapes: np.ndarray
    ):
        with tf.device("CPU:0"):  # where tf.data runs: a GPU's memory is not for this
            self._x = _with_filler([part.x for part in parts])
            self._y = _with_filler([part.y for part in parts])
            self._corpus = tf.constant(np.append(corpus, 0), tf.int32)  # [N + 1]
            self._shapes = tf.constant(shapes, tf.int32)  # [K, 2]

    def __call__(self, pairs: tf.Tensor, bucket: tf.Tensor, row: tf.Tensor) -> Batch:
        """Return the batch of some pairs.

        Args:
            pairs: indices of pairs, or FILLER.  # [B] int32
            bucket: the bucket, which gives the padded lengths.  # [] int32
            row: what to call the rows.  # [B] int32
        """
        is_filler = tf.equal(pairs, FILLER)
        pairs = tf.where(is_filler, tf.size(self._corpus) - 1, pairs)
        shape = tf.gather(self._shapes, bucket)
        x, x_len = _padded(*self._x, pairs, shape[0])
        y, y_len = _padded(*self._y, pairs, shape[1])
        weight = 1.0 - tf.cast(is_filler, tf.float32)
        corpus = tf.gather(self._corpus, pairs)
        return dict(x=x, x_len=x_len, y=y, y_len=y_len, weight=weight, corpus=corpus, row=row)


def _with_filler(parts: Sequence[Sequences]) -> tuple[tf.Tensor, tf.Tensor]:
    """Return ids and offsets of all sequences and, last, of a filler: one `</s>`.

    A filler is never of length 0: a mean over nothing is NaN, and NaN times weight 0 is NaN.
    """
    filler = (np.array([text.EOS], np.int32), np.array([1], np.int64))
    joined = Sequences.join([*((part.ids, np.diff(part.offsets)) for part in parts), filler])
    return tf.constant(joined.ids), tf.constant(joined.offsets)


def _padded(
    ids: tf.Tensor, offsets: tf.Tensor, rows: tf.Tensor, width: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return sequences as a rectangle, `</s>` after their ends, and their lengths.

    # -> [B, T], [B]
    """
    start = tf.gather(offsets, rows)  # [B]
    length = tf.gather(offsets, rows + 1) - start  # [B]
    column = tf.range(tf.cast(width, tf.int64))  # [T]
    is_real = column < length[:, None]  # [B, T]
    # A pad reads its row's last id, which is </s>: the id of padding.
    place = start[:, None] + tf.where(is_real, column, length[:, None] - 1)  # [B, T]
    return tf.gather(ids, place), tf.cast(length, tf.int32)


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
    rows, bucket_of_batch = [], []
    for k in range(len(shapes)):
        inside = np.flatnonzero(buckets == k)
        inside = inside[np.argsort(x_len[inside] + y_len[inside], kind="stable")]
        padded = np.full(-(-len(inside) // batch_size) * batch_size, FILLER, np.int32)
        padded[: len(inside)] = inside
        rows.append(padded.reshape(-1, batch_size))
        bucket_of_batch += [k] * len(rows[-1])
    rows = np.concatenate(rows or [np.zeros((0, batch_size), np.int32)])
    gather = Gatherer([encoded], corpus=np.full(len(encoded), corpus), shapes=shapes)
    dataset = tf.data.Dataset.from_tensor_slices((rows, np.array(bucket_of_batch, np.int32)))
    return dataset.map(
        lambda pairs, bucket: gather(pairs, bucket, pairs),
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
