"""Which pairs are in which batch: a pure function of the seed, the epoch and the lengths.

Nothing is remembered between batches, so a run resumed at step n starts with batch n at once,
and all workers agree without talking. Everything is drawn inside the graph: Python code in
tf.data's threads can hang a process that ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import TypeAlias

import numpy as np
import tensorflow as tf

_SLICE = 1 << 20  # pairs counted at a time
FILLER = -1  # in place of a pair's index: a row that fills a batch and weighs nothing
GROUP_BITS = 15  # the rest of a sort key's 63 bits is random
_GOLDEN = 0x9E3779B97F4A7C15

Number: TypeAlias = "int | tf.Tensor"  # a whole number, known now or in the graph


def random_order(
    groups: int | tf.Tensor, names: tf.Tensor, *, key: Sequence[Number]
) -> tf.Tensor:
    """Return the places 0, 1, ... of named items, by group and in random order inside each.

    The random bits are SplitMix64 (Steele et al. 2014): a few lines that are the same in every
    version of every library. They depend on the key and the name alone.

    Args:
        groups: a small number for each place, or 0 for one group of all.  # [size] int64
        names: numbers that differ.  # [size] int64
        key: what decides the order.
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


@dataclass(frozen=True)
class BatchStream:
    """Batches of equal size and similar lengths; an epoch has the same number every time.

    Batches are cut from the largest bucket down. The last batch of a bucket is made full with
    pairs of the next smaller one, which fit as well; only the smallest bucket's has fillers.

    A pair of corpus c comes `ratios[c]` times an epoch. Of a ratio's fraction, 0.3 say, each
    epoch takes another sample without replacement: 30 % of the corpus, of every bucket alike.

    Memory: an epoch is a list of candidates, pairs as often as they come. A candidate takes 4
    bytes in the grouping by bucket, 4 in the running epoch, 4 in the next one and 4 more while
    that is drawn. Buckets are sorted one after the other, which takes about 40 bytes per pair
    of the largest one.

    Args:
        buckets: the bucket of each pair; a larger one holds the pairs of all smaller.  # [N]
        corpus: the corpus of each pair.  # [N]
        ratios: one number for each corpus.
        batch_size: rows of a batch.
        seed: of the shuffling.
        number: tells streams with the same seed apart.
    """

    buckets: InitVar[np.ndarray]  # not kept: two arrays as long as the corpus
    corpus: InitVar[np.ndarray]
    ratios: tuple[float, ...]
    batch_size: int
    seed: int
    number: int = 0
    num_pairs: int = field(init=False)
    counts: np.ndarray = field(init=False, repr=False)  # candidates by bucket [K]
    batches: np.ndarray = field(init=False, repr=False)  # batches of an epoch by bucket [K]
    _certain: tf.Tensor | None = field(init=False, repr=False)  # of every epoch; None: each
    _groups: tf.Tensor = field(init=False, repr=False)  # (corpus, bucket) as one number [N]
    _sampled: tf.Tensor = field(init=False, repr=False)  # places in a shuffled order by group
    _members: tf.Tensor = field(init=False, repr=False)  # candidates, grouped by bucket
    _largest: tf.Tensor = field(init=False, repr=False)  # the bucket of each batch

    def __post_init__(self, buckets: np.ndarray, corpus: np.ndarray) -> None:
        """Work out what all epochs share."""
        num_pairs, num_buckets = len(buckets), int(buckets.max(initial=-1)) + 1
        if len(self.ratios) * num_buckets > 2**GROUP_BITS:
            raise ValueError("There are too many corpora and buckets.")
        groups = corpus.astype(np.int16)
        groups *= np.int16(num_buckets)
        groups += buckets.astype(np.int16)
        sizes = np.zeros((len(self.ratios), num_buckets), np.int64)  # [C, K]
        for first in range(0, num_pairs, _SLICE):
            part = groups[first : first + _SLICE]
            sizes += np.bincount(part, minlength=sizes.size).reshape(sizes.shape)
        whole = np.floor(self.ratios).astype(np.int64)  # [C]
        fractions = np.asarray(self.ratios, np.float64) - whole
        parts = np.array([_apportion(*pair) for pair in zip(sizes, fractions, strict=True)])
        counts = (whole[:, None] * sizes + parts).sum(0)  # [K]
        certain = None
        if (whole != 1).any():
            certain = np.repeat(np.arange(num_pairs, dtype=np.int32), whole[corpus])
            buckets = buckets[certain]
        sampled = _first_of_each(sizes.reshape(-1), parts.reshape(-1))
        # A place in a shuffled order by group is always of the same bucket.
        places = np.repeat(np.tile(np.arange(num_buckets), len(self.ratios)), parts.reshape(-1))
        buckets = np.concatenate([buckets.astype(np.int16), places.astype(np.int16)])
        members = np.empty(len(buckets), np.int32)
        ends = counts.cumsum()
        for k in range(num_buckets):
            members[ends[k] - counts[k] : ends[k]] = np.flatnonzero(buckets == k)
        # Batches are cut from the last candidate down.
        last = np.arange(counts.sum() - 1, -1, -self.batch_size)
        largest = np.searchsorted(ends, last, side="right").astype(np.int32)
        with tf.device("CPU:0"):  # where tf.data runs; graphs capture tensors, not constants
            shared = dict(
                num_pairs=num_pairs,
                counts=counts,
                batches=np.bincount(largest, minlength=num_buckets),
                _certain=None if certain is None else tf.constant(certain),
                _groups=tf.constant(groups if len(sampled) else groups[:0]),
                _sampled=tf.constant(sampled),
                _members=tf.constant(members),
                _largest=tf.constant(largest),
            )
        for name, value in shared.items():
            object.__setattr__(self, name, value)

    @property
    def num_batches(self) -> int:
        """Batches of an epoch."""
        return int(self.batches.sum())

    def epoch(self, epoch: Number) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the batches of an epoch, by bucket, and the order in which they come.

        They are not put into this order here: that would take a second copy of all pairs.

        Returns:
            The pairs [num_batches, batch_size] and buckets [num_batches] of batches, and the
            places of batches in their order [num_batches].
        """
        parts = self._shuffled(epoch)
        if self._certain is not None or len(self._sampled):
            candidates = self._candidates(epoch)
            parts = [tf.gather(candidates, part) for part in parts]
        fillers = tf.fill([-int(self.counts.sum()) % self.batch_size], FILLER)
        pairs = tf.concat([*parts, fillers], 0)
        pairs = tf.reshape(pairs, [self.num_batches, self.batch_size])
        places = tf.range(self.num_batches, dtype=tf.int64)
        order = random_order(0, places, key=(self.seed, self.number, epoch, 1))
        return pairs, self._largest, order

    def _candidates(self, epoch: Number) -> tf.Tensor:
        """Return the pair of each candidate: those of every epoch, then the epoch's sample."""
        pairs = tf.range(self.num_pairs) if self._certain is None else self._certain
        if not len(self._sampled):
            return pairs
        key, names = (self.seed, self.number, epoch, 2), tf.range(self.num_pairs)
        groups = tf.cast(self._groups, tf.int64)
        order = random_order(groups, tf.cast(names, tf.int64), key=key)
        return tf.concat([pairs, tf.gather(order, self._sampled)], 0)

    def _shuffled(self, epoch: Number) -> list[tf.Tensor]:
        """Return the candidates of each bucket in random order, the largest bucket first."""
        parts = list[tf.Tensor]()
        key = (self.seed, self.number, epoch, 0)
        ends = self.counts.cumsum()
        for start, end in reversed([*zip(ends - self.counts, ends, strict=True)]):
            with tf.control_dependencies(parts[-1:]):  # one at a time, for the memory
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
        """Return the batches from a given one on, without end.

        An element is (pairs [size] int64, bucket [], number of the part in `columns` []).

        Args:
            first_batch: counted from the beginning of epoch 0.
            columns: the rows of each part that is wanted of a batch, see shard_columns.
            offset: added to the indices of pairs.
            samples: how many segmentations a pair has; epochs take them in turn, each pair
                starting with another one.
            stride: from a segmentation of a pair to its next, in indices.
        """
        first_epoch, first_place = divmod(first_batch, self.num_batches)
        plain = tf.autograph.experimental.do_not_convert

        def draw(epoch: tf.Tensor) -> tuple[tf.Tensor, ...]:
            pairs, buckets, order = self.epoch(epoch)
            start = tf.where(
                tf.equal(epoch, first_epoch), tf.constant(first_place, tf.int64), 0
            )
            return pairs, buckets, order[start:], epoch

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
        # The next epoch is drawn while this one is being trained on.
        return epochs.map(plain(draw)).prefetch(1).flat_map(plain(batches)).unbatch()


def _first_of_each(sizes: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Return the places of the first `parts` of each of groups that follow one another."""
    starts = np.repeat(sizes.cumsum() - sizes, parts)
    return starts + np.arange(parts.sum()) - np.repeat(parts.cumsum() - parts, parts)


def _apportion(sizes: np.ndarray, fraction: float) -> np.ndarray:
    """Return whole numbers near fraction * sizes whose sum is near fraction * sum: [K]."""
    exact = fraction * sizes
    parts = np.floor(exact).astype(np.int64)
    missing = int(round(exact.sum())) - int(parts.sum())
    parts[np.argsort(parts - exact, kind="stable")[:missing]] += 1
    return parts


@dataclass(frozen=True)
class BatchOrder:
    """Batches of gold pairs, and of synthetic pairs between them.

    After each gold batch come `synthetic_ratio` synthetic ones (0.5: one after every second).
    An epoch is one of the gold pairs; the synthetic ones run through epochs of their own.
    Synthetic pairs are numbered after the gold ones.
    """

    gold: BatchStream
    synthetic: BatchStream | None = None
    synthetic_ratio: float = 1.0

    @property
    def batches_per_epoch(self) -> int:
        """Batches of an epoch, synthetic ones included."""
        return self.gold.num_batches + self.num_synthetic

    @property
    def num_synthetic(self) -> int:
        """Synthetic batches of an epoch."""
        if self.synthetic is None or not self.synthetic.num_batches:
            return 0
        return int(np.floor(self.gold.num_batches * self.synthetic_ratio + 1e-9))

    @property
    def streams(self) -> list[tuple[BatchStream, float]]:
        """Each stream and how many of its epochs there are in one of the gold pairs."""
        streams = [(self.gold, 1.0)]
        if self.synthetic is not None and self.num_synthetic:
            streams.append((self.synthetic, self.num_synthetic / self.synthetic.num_batches))
        return streams

    @property
    def pairs_per_epoch(self) -> int:
        """Real pairs of an epoch; of the synthetic ones, the mean over epochs."""
        return sum(round(epochs * int(s.counts.sum())) for s, epochs in self.streams)

    @property
    def kinds(self) -> np.ndarray:
        """Which batches of an epoch are gold (0) and which synthetic (1): [batches]."""
        done = np.arange(self.gold.num_batches)
        # The same sum as in num_synthetic: 0.1 * 30 must not be a little less than 3.
        before = np.floor(done * self.synthetic_ratio + 1e-9).astype(np.int64)
        kinds = np.ones(self.batches_per_epoch, np.int64)
        kinds[done + np.minimum(before, self.num_synthetic)] = 0
        return kinds

    def first_batches(self, step: int) -> tuple[int, int]:
        """Return how many gold and synthetic batches a run has had before a step."""
        epoch, place = divmod(step, self.batches_per_epoch)
        synthetic = int(self.kinds[:place].sum())
        return (
            epoch * self.gold.num_batches + place - synthetic,
            epoch * self.num_synthetic + synthetic,
        )

    def dataset(
        self, first_step: int, *, columns: np.ndarray, samples: int = 1, stride: int = 0
    ) -> tf.data.Dataset:
        """Return the batches from a step on, without end; see BatchStream.dataset."""
        offset = 0
        parts = []
        for number, (stream, _) in enumerate(self.streams):
            first = self.first_batches(first_step)[number]
            options = dict(columns=columns, samples=samples, stride=stride)
            parts.append(stream.dataset(first, offset=offset, **options))
            offset += stream.num_pairs
        if len(parts) == 1:
            return parts[0]
        place = first_step % self.batches_per_epoch
        kinds = np.repeat(np.roll(self.kinds, -place), len(columns))
        choice = tf.data.Dataset.from_tensor_slices(kinds).repeat()
        return tf.data.Dataset.choose_from_datasets(parts, choice)


def shard_columns(batch_size: int, *, num_shards: int, shards: Sequence[int]) -> np.ndarray:
    """Return which rows of a batch make up each shard; `batch_size` stands for a filler.

    Args:
        batch_size: rows of a batch.
        num_shards: into how many equal parts it is cut; the last ones may end in fillers.
        shards: which of them.  # -> [len(shards), ceil(batch_size / num_shards)]
    """
    if not all(0 <= shard < num_shards for shard in shards):
        raise ValueError(f"There are {num_shards} shards, counted from 0; not {list(shards)}.")
    size = -(-batch_size // num_shards)
    columns = np.minimum(np.arange(size * num_shards), batch_size)
    return columns.reshape(num_shards, size)[list(shards)]
