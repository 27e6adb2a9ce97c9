"""Which pairs are in which batch: a pure function of the seed, the epoch and the lengths.

No state is kept between batches. A run resumed at step n therefore starts with batch n at once,
and all workers agree without communication. Everything is drawn inside the graph, because
Python code in tf.data's threads can hang a process that exits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

_SLICE = 1 << 20  # pairs counted at a time
FILLER = -1  # index of a row that fills a batch and has weight 0
GROUP_BITS = 15  # of a sort key's 63 bits; the others are random
_GOLDEN = 0x9E3779B97F4A7C15

Number: TypeAlias = "int | tf.Tensor"


def random_order(groups: Number, names: tf.Tensor, *, key: Sequence[Number]) -> tf.Tensor:
    """Return the positions of items, sorted by group and shuffled inside each group.

    The random bits are SplitMix64 (Steele et al. 2014), which is the same in every version of
    every library. They depend on the key and the names alone.

    Args:
        groups: A small number for each item, or 0 for a single group.  # [size] int64
        names: Distinct numbers that identify the items.  # [size] int64
        key: The seed, as a sequence of numbers.
    """
    golden = tf.constant(_GOLDEN, tf.uint64)
    state = tf.constant(0, tf.uint64)
    for part in key:
        part = part if isinstance(part, tf.Tensor) else tf.constant(part % 2**64, tf.uint64)
        state = _mixed(state + tf.cast(part, tf.uint64) + golden)
    bits = _mixed(state + tf.cast(names, tf.uint64) * golden)
    bits = tf.cast(_shifted(bits, GROUP_BITS + 1), tf.int64)
    return tf.argsort(groups * 2 ** (63 - GROUP_BITS) + bits, stable=True)


def _mixed(bits: tf.Tensor) -> tf.Tensor:
    bits = (bits ^ _shifted(bits, 30)) * tf.constant(0xBF58476D1CE4E5B9, tf.uint64)
    bits = (bits ^ _shifted(bits, 27)) * tf.constant(0x94D049BB133111EB, tf.uint64)
    return bits ^ _shifted(bits, 31)


def _shifted(bits: tf.Tensor, places: int) -> tf.Tensor:
    return tf.bitwise.right_shift(bits, tf.constant(places, tf.uint64))


class BatchStream:
    """Batches of equal size and similar lengths. Every epoch has the same number of them.

    Batches are cut from the largest bucket down. The last batch of a bucket is filled with
    pairs of the next smaller one, which also fit. Only the smallest bucket needs fillers.

    A pair of corpus c occurs `ratios[c]` times per epoch. For a fraction such as 0.3, each
    epoch draws another sample without replacement: 30 % of every bucket of the corpus.

    An epoch is a list of candidates, each pair as often as it occurs. A candidate takes 4 bytes
    in the grouping by bucket, 4 in the current epoch, 4 in the next one and 4 more while that
    is drawn. Sorting takes about 40 bytes per pair of the largest bucket.

    Args:
        buckets: The bucket of each pair. Larger buckets fit the pairs of smaller ones.  # [N]
        corpus: The corpus of each pair.  # [N]
        ratios: One number per corpus.
        batch_size: Rows per batch.
        seed: The seed of the shuffling.
        number: Distinguishes streams with the same seed.
    """

    def __init__(
        self,
        buckets: np.ndarray,
        corpus: np.ndarray,
        ratios: Sequence[float],
        batch_size: int,
        seed: int,
        number: int = 0,
    ):
        self.batch_size, self._key = batch_size, (seed, number)
        self.num_pairs, num_buckets = len(buckets), int(buckets.max(initial=-1)) + 1
        if len(ratios) * num_buckets > 2**GROUP_BITS:
            raise ValueError("There are too many corpora and buckets.")
        groups = corpus.astype(np.int16)  # (corpus, bucket) as one number [N]
        groups *= np.int16(num_buckets)
        groups += buckets.astype(np.int16)
        sizes = np.zeros((len(ratios), num_buckets), np.int64)  # [C, K]
        for first in range(0, self.num_pairs, _SLICE):
            part = groups[first : first + _SLICE]
            sizes += np.bincount(part, minlength=sizes.size).reshape(sizes.shape)
        whole = np.floor(ratios).astype(np.int64)  # [C]
        fractions = np.asarray(ratios, np.float64) - whole
        parts = np.array([_apportion(*pair) for pair in zip(sizes, fractions, strict=True)])
        self.counts = (whole[:, None] * sizes + parts).sum(0)  # candidates per bucket [K]
        certain = None  # candidates of every epoch; None: each pair once
        if (whole != 1).any():
            certain = np.repeat(np.arange(self.num_pairs, dtype=np.int32), whole[corpus])
            buckets = buckets[certain]
        sampled = _first_of_each(sizes.reshape(-1), parts.reshape(-1))
        # A position in an order that is sorted by group always has the same bucket.
        places = np.repeat(np.tile(np.arange(num_buckets), len(ratios)), parts.reshape(-1))
        buckets = np.concatenate([buckets.astype(np.int16), places.astype(np.int16)])
        members = np.empty(len(buckets), np.int32)  # candidates, grouped by bucket
        ends = self.counts.cumsum()
        for k in range(num_buckets):
            members[ends[k] - self.counts[k] : ends[k]] = np.flatnonzero(buckets == k)
        # Batches are cut from the last candidate down.
        last = np.arange(self.counts.sum() - 1, -1, -batch_size)
        largest = np.searchsorted(ends, last, side="right").astype(np.int32)
        self.batches = np.bincount(largest, minlength=num_buckets)  # per epoch and bucket [K]
        with tf.device("CPU:0"):  # where tf.data runs; graphs capture tensors, not constants
            self._certain = None if certain is None else tf.constant(certain)
            self._groups = tf.constant(groups if len(sampled) else groups[:0])
            self._sampled = tf.constant(sampled)  # positions in an order sorted by group
            self._members = tf.constant(members)
            self._largest = tf.constant(largest)  # the bucket of each batch

    @property
    def num_batches(self) -> int:
        """The number of batches per epoch."""
        return int(self.batches.sum())

    def epoch(self, epoch: Number) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the batches of an epoch, grouped by bucket, and their order.

        They are not reordered here, because that would take a second copy of all pairs.

        Returns:
            The pairs [num_batches, batch_size] and buckets [num_batches] of the batches, and
            the order in which to use them [num_batches].
        """
        parts = self._shuffled(epoch)
        if self._certain is not None or len(self._sampled):
            candidates = self._candidates(epoch)
            parts = [tf.gather(candidates, part) for part in parts]
        fillers = tf.fill([-int(self.counts.sum()) % self.batch_size], FILLER)
        pairs = tf.concat([*parts, fillers], 0)
        pairs = tf.reshape(pairs, [self.num_batches, self.batch_size])
        places = tf.range(self.num_batches, dtype=tf.int64)
        order = random_order(0, places, key=(*self._key, epoch, 1))
        return pairs, self._largest, order

    def _candidates(self, epoch: Number) -> tf.Tensor:
        """Return the pair of each candidate: the certain ones, then the epoch's sample."""
        pairs = tf.range(self.num_pairs) if self._certain is None else self._certain
        if not len(self._sampled):
            return pairs
        groups = tf.cast(self._groups, tf.int64)
        names = tf.cast(tf.range(self.num_pairs), tf.int64)
        order = random_order(groups, names, key=(*self._key, epoch, 2))
        return tf.concat([pairs, tf.gather(order, self._sampled)], 0)

    def _shuffled(self, epoch: Number) -> list[tf.Tensor]:
        """Return the shuffled candidates of each bucket, largest bucket first."""
        parts = list[tf.Tensor]()
        key = (*self._key, epoch, 0)
        ends = self.counts.cumsum()
        for start, end in reversed([*zip(ends - self.counts, ends, strict=True)]):
            with tf.control_dependencies(parts[-1:]):  # one at a time, to save memory
                bucket = tf.identity(self._members[start:end])
                order = random_order(0, tf.cast(bucket, tf.int64), key=key)
                parts.append(tf.gather(bucket, tf.reverse(order, [0])))
        return parts

    def dataset(
        self,
        first_batch: int,
        *,
        columns: np.ndarray,
        offset: int = 0,
        samples: int = 1,
        stride: int = 0,
    ) -> tf.data.Dataset:
        """Return an endless dataset of batches.

        Its elements are (pairs [size] int64, bucket [], row of `columns` []).

        Args:
            first_batch: The first batch, counted from the beginning of epoch 0.
            columns: The rows of each wanted part of a batch, see shard_columns.
            offset: Added to the indices of pairs.
            samples: The number of segmentations per pair. Epochs use them in turn, and pairs
                start with different ones.
            stride: The distance between the indices of two segmentations of a pair.
        """
        first_epoch, first_place = divmod(first_batch, self.num_batches)
        plain = tf.autograph.experimental.do_not_convert

        def draw(epoch: tf.Tensor) -> tuple[tf.Tensor, ...]:
            pairs, buckets, order = self.epoch(epoch)
            is_first = tf.cast(tf.equal(epoch, first_epoch), tf.int64)
            return pairs, buckets, order[is_first * first_place :], epoch

        def batches(
            pairs: tf.Tensor, buckets: tf.Tensor, order: tf.Tensor, epoch: tf.Tensor
        ) -> tf.data.Dataset:
            def cut(place: tf.Tensor) -> tuple[tf.Tensor, ...]:
                rows = tf.cast(pairs[place], tf.int64)
                sample = (rows + epoch) % samples
                is_filler = tf.equal(rows, FILLER)
                rows = tf.where(is_filler, rows, rows + offset + sample * stride)
                rows = tf.pad(rows, [[0, 1]], constant_values=FILLER)
                part = tf.range(len(columns))
                return tf.gather(rows, columns), tf.repeat(buckets[place], len(columns)), part

            return tf.data.Dataset.from_tensor_slices(order).map(plain(cut))

        epochs = tf.data.Dataset.range(first_epoch, np.iinfo(np.int64).max)
        # The next epoch is drawn during the current one.
        return epochs.map(plain(draw)).prefetch(1).flat_map(plain(batches)).unbatch()


def _first_of_each(sizes: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Return the positions of the first `parts` items of each of several adjacent groups."""
    starts = np.repeat(sizes.cumsum() - sizes, parts)
    return starts + np.arange(parts.sum()) - np.repeat(parts.cumsum() - parts, parts)


def _apportion(sizes: np.ndarray, fraction: float) -> np.ndarray:
    """Round fraction * sizes to integers with the same (rounded) sum: [K]."""
    exact = fraction * sizes
    parts = np.floor(exact).astype(np.int64)
    missing = int(round(exact.sum())) - int(parts.sum())
    parts[np.argsort(parts - exact, kind="stable")[:missing]] += 1
    return parts


@dataclass(frozen=True)
class BatchOrder:
    """Batches of gold pairs, interleaved with batches of synthetic pairs.

    Each gold batch is followed by `synthetic_ratio` synthetic ones (0.5: one after every
    second). An epoch is an epoch of the gold pairs; synthetic pairs have epochs of their own.
    Synthetic pairs are numbered after the gold ones.
    """

    gold: BatchStream
    synthetic: BatchStream | None = None
    synthetic_ratio: float = 1.0

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches per epoch, including synthetic ones."""
        return self.gold.num_batches + self.num_synthetic

    @property
    def num_synthetic(self) -> int:
        """The number of synthetic batches per epoch."""
        if self.synthetic is None or not self.synthetic.num_batches:
            return 0
        return int(np.floor(self.gold.num_batches * self.synthetic_ratio + 1e-9))

    @property
    def streams(self) -> list[tuple[BatchStream, float]]:
        """Each stream and the number of its epochs per epoch of the gold pairs."""
        streams = [(self.gold, 1.0)]
        if self.synthetic is not None and self.num_synthetic:
            streams.append((self.synthetic, self.num_synthetic / self.synthetic.num_batches))
        return streams

    @property
    def pairs_per_epoch(self) -> int:
        """The number of pairs per epoch; for synthetic ones, the mean over epochs."""
        return sum(round(epochs * int(s.counts.sum())) for s, epochs in self.streams)

    @property
    def kinds(self) -> np.ndarray:
        """The kind of each batch of an epoch: gold (0) or synthetic (1); [batches]."""
        done = np.arange(self.gold.num_batches)
        # Rounded as in num_synthetic: 0.1 * 30 must not fall below 3.
        before = np.floor(done * self.synthetic_ratio + 1e-9).astype(np.int64)
        kinds = np.ones(self.batches_per_epoch, np.int64)
        kinds[done + np.minimum(before, self.num_synthetic)] = 0
        return kinds

    def first_batches(self, step: int) -> tuple[int, int]:
        """Return the numbers of gold and synthetic batches before a step."""
        epoch, place = divmod(step, self.batches_per_epoch)
        synthetic = int(self.kinds[:place].sum())
        return (
            epoch * self.gold.num_batches + place - synthetic,
            epoch * self.num_synthetic + synthetic,
        )

    def dataset(
        self, first_step: int, *, columns: np.ndarray, samples: int = 1, stride: int = 0
    ) -> tf.data.Dataset:
        """Return an endless dataset of batches from a step on; see BatchStream.dataset."""
        firsts = self.first_batches(first_step)
        options: dict[str, Any] = dict(columns=columns, samples=samples, stride=stride)
        gold = self.gold.dataset(firsts[0], **options)
        if self.synthetic is None or not self.num_synthetic:
            return gold
        synthetic = self.synthetic.dataset(firsts[1], offset=self.gold.num_pairs, **options)
        place = first_step % self.batches_per_epoch
        kinds = np.repeat(np.roll(self.kinds, -place), len(columns))
        choice = tf.data.Dataset.from_tensor_slices(kinds).repeat()
        return tf.data.Dataset.choose_from_datasets([gold, synthetic], choice)


def shard_columns(batch_size: int, *, num_shards: int, shards: Sequence[int]) -> np.ndarray:
    """Return the rows of each shard of a batch; `batch_size` stands for a filler.

    Args:
        batch_size: Rows per batch.
        num_shards: The number of equal parts; the last ones may end in fillers.
        shards: The wanted parts.  # -> [len(shards), ceil(batch_size / num_shards)]
    """
    if not all(0 <= shard < num_shards for shard in shards):
        raise ValueError(f"There are {num_shards} shards, counted from 0; not {list(shards)}.")
    size = -(-batch_size // num_shards)
    columns = np.minimum(np.arange(size * num_shards), batch_size)
    return columns.reshape(num_shards, size)[list(shards)]
