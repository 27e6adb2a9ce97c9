"""Which pairs are in which batch: a pure function of the seed, the epoch and the lengths.

Nothing is remembered between batches, so a run resumed at step n starts with batch n at once,
and all workers agree without talking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

FILLER = -1  # in place of a pair's index: a row that fills a batch and weighs nothing


def permutation(size: int, *, key: tuple[int, ...]) -> np.ndarray:
    """A random order of range(size), the same for a key on every machine.  # [size]

    Built on raw bits: NumPy promises that these stay the same, its `permutation` may change.
    """
    entropy = [part & (2**64 - 1) for part in key]
    bits = np.random.Philox(np.random.SeedSequence(entropy)).random_raw(size)
    return np.argsort(bits, kind="stable")


@dataclass(frozen=True)
class Stream:
    """Batches of equal size, each from one bucket; an epoch has the same number every time.

    A pair of corpus c comes `ratios[c]` times an epoch. Of a ratio's fraction, 0.3 say, each
    epoch takes another sample without replacement: 30 % of the corpus, of every bucket alike.

    Args:
        buckets: the bucket of each pair.  # [N]
        corpus: the corpus of each pair.  # [N]
        ratios: one number for each corpus.
        batch_size: rows of a batch.
        seed: of the shuffling.
        number: tells streams with the same seed apart.
    """

    buckets: np.ndarray
    corpus: np.ndarray
    ratios: tuple[float, ...]
    batch_size: int
    seed: int
    number: int = 0
    counts: np.ndarray = field(init=False, repr=False)  # pairs of an epoch by bucket [K]
    batches: np.ndarray = field(init=False, repr=False)  # batches of an epoch by bucket [K]
    _parts: np.ndarray = field(init=False, repr=False)  # sampled by corpus and bucket [C, K]

    def __post_init__(self):
        """Count what an epoch holds."""
        num_buckets = int(self.buckets.max(initial=-1)) + 1
        sizes = np.zeros((len(self.ratios), num_buckets), np.int64)  # [C, K]
        np.add.at(sizes, (self.corpus, self.buckets), 1)
        whole = np.floor(self.ratios).astype(np.int64)  # [C]
        fractions = np.asarray(self.ratios, np.float64) - whole
        pairs = zip(sizes, fractions, strict=True)
        parts = np.array([_apportion(*pair) for pair in pairs]).reshape(sizes.shape)
        counts = (whole[:, None] * sizes + parts).sum(0)
        object.__setattr__(self, "_parts", parts)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "batches", -(-counts // self.batch_size))

    @property
    def num_batches(self) -> int:
        """Batches of an epoch."""
        return int(self.batches.sum())

    def epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The pairs [num_batches, batch_size] and the buckets [num_batches] of an epoch."""
        pairs = self._pairs_of_epoch(epoch)
        pairs = pairs[permutation(len(pairs), key=(self.seed, self.number, epoch, 0))]
        # A stable sort keeps the random order inside each bucket.
        pairs = pairs[np.argsort(self.buckets[pairs], kind="stable")]
        rows = np.full((self.num_batches, self.batch_size), FILLER, np.int32)
        ends = self.counts.cumsum()
        first = self.batches.cumsum() - self.batches
        for k, (end, count) in enumerate(zip(ends, self.counts, strict=True)):
            batches = rows[first[k] : first[k] + self.batches[k]]
            batches.reshape(-1)[:count] = pairs[end - count : end]
        buckets = np.repeat(np.arange(len(self.batches), dtype=np.int32), self.batches)
        order = permutation(self.num_batches, key=(self.seed, self.number, epoch, 1))
        return rows[order], buckets[order]

    def _pairs_of_epoch(self, epoch: int) -> np.ndarray:
        """The index of every pair of an epoch, as often as it comes, in no special order."""
        everything = np.arange(len(self.buckets), dtype=np.int32)
        times = np.floor(self.ratios).astype(np.int64)[self.corpus]
        pairs = everything if (times == 1).all() else np.repeat(everything, times)
        if not self._parts.any():
            return pairs
        shuffled = permutation(len(everything), key=(self.seed, self.number, epoch, 2))
        group = self.corpus.astype(np.int64) * self._parts.shape[1] + self.buckets
        shuffled = shuffled[np.argsort(group[shuffled], kind="stable")]
        sizes = np.bincount(group, minlength=self._parts.size)
        rank = np.arange(len(shuffled)) - np.repeat(sizes.cumsum() - sizes, sizes)
        sample = shuffled[rank < np.repeat(self._parts.reshape(-1), sizes)]
        return np.concatenate([pairs, sample.astype(np.int32)])


def _apportion(sizes: np.ndarray, fraction: float) -> np.ndarray:
    """Whole numbers near fraction * sizes whose sum is near fraction * sum.  # [K]"""
    exact = fraction * sizes
    parts = np.floor(exact).astype(np.int64)
    missing = int(round(exact.sum())) - int(parts.sum())
    parts[np.argsort(parts - exact, kind="stable")[:missing]] += 1
    return parts


@dataclass(frozen=True)
class Plan:
    """Batches of gold pairs, and of synthetic pairs between them.

    After each gold batch come `synthetic_ratio` synthetic ones (0.5: one after every second).
    An epoch is one of the gold pairs; the synthetic ones run through epochs of their own.
    Synthetic pairs are numbered after the gold ones.
    """

    gold: Stream
    synthetic: Stream | None = None
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

    def position(self, step: int) -> tuple[int, int]:
        """The epoch of a step and its place in that epoch."""
        return divmod(step, self.batches_per_epoch)

    def epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The pairs [batches_per_epoch, batch_size] and the buckets of an epoch."""
        gold_rows, gold_buckets = self.gold.epoch(epoch)
        if not self.num_synthetic:
            return gold_rows, gold_buckets
        rows, buckets = self._synthetic_batches(epoch)
        done = np.arange(self.gold.num_batches)
        place = done + np.floor(done * self.synthetic_ratio + 1e-9).astype(np.int64)
        all_rows = np.empty((self.batches_per_epoch, rows.shape[1]), np.int32)
        all_buckets = np.empty(self.batches_per_epoch, np.int32)
        is_gold = np.zeros(self.batches_per_epoch, bool)
        is_gold[place] = True
        all_rows[is_gold], all_rows[~is_gold] = gold_rows, rows
        all_buckets[is_gold], all_buckets[~is_gold] = gold_buckets, buckets
        return all_rows, all_buckets

    def _synthetic_batches(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        start = epoch * self.num_synthetic
        stop = start + self.num_synthetic
        length = self.synthetic.num_batches
        parts = []
        for number in range(start // length, -(-stop // length)):
            window = slice(max(start - number * length, 0), min(stop - number * length, length))
            parts.append([array[window] for array in self.synthetic.epoch(number)])
        rows, buckets = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return np.where(rows == FILLER, FILLER, rows + len(self.gold.buckets)), buckets


def cut_shards(pairs: np.ndarray, *, num_shards: int, shards: Sequence[int]) -> np.ndarray:
    """Some shards of each batch, one after the other, all of the same size.

    Args:
        pairs: batches.  # [N, batch_size]
        num_shards: into how many a batch is cut; the last ones may end in fillers.
        shards: which of them.  # -> [N * len(shards), ceil(batch_size / num_shards)]
    """
    batch_size = pairs.shape[1]
    size = -(-batch_size // num_shards)
    missing = size * num_shards - batch_size
    pairs = np.pad(pairs, [(0, 0), (0, missing)], constant_values=FILLER)
    pairs = pairs.reshape(len(pairs), num_shards, size)[:, list(shards)]
    return pairs.reshape(len(pairs) * len(shards), size)
