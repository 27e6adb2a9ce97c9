"""Which pairs are in which batch: a pure function of the seed, the epoch and the lengths.

Nothing is remembered between batches, so a run resumed at step n starts with batch n at once,
and all workers agree without talking.

A plan is drawn with NumPy or inside the graph (plan_graph.py), by the same lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aevnmt_tf.data.shuffle import GROUP_BITS, NUMPY, Operations, random_order

FILLER = -1  # in place of a pair's index: a row that fills a batch and weighs nothing


@dataclass(frozen=True)
class Stream:
    """Batches of equal size and similar lengths; an epoch has the same number every time.

    Batches are cut from the largest bucket down. The last batch of a bucket is made full with
    pairs of the next smaller one, which fit as well; only the smallest bucket's has fillers.

    A pair of corpus c comes `ratios[c]` times an epoch. Of a ratio's fraction, 0.3 say, each
    epoch takes another sample without replacement: 30 % of the corpus, of every bucket alike.

    Args:
        buckets: the bucket of each pair; a larger one holds the pairs of all smaller.  # [N]
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
    _certain: np.ndarray = field(init=False, repr=False)  # pairs of every epoch
    _groups: np.ndarray = field(init=False, repr=False)  # (corpus, bucket) as one number [N]
    _sampled: np.ndarray = field(init=False, repr=False)  # places in a shuffled order by group
    _layout: np.ndarray = field(init=False, repr=False)  # places in an order by bucket
    _largest: np.ndarray = field(init=False, repr=False)  # the bucket of each batch in _layout

    def __post_init__(self):
        """Work out what all epochs share."""
        num_buckets = int(self.buckets.max(initial=-1)) + 1
        if len(self.ratios) * num_buckets > 2**GROUP_BITS:
            raise ValueError("too many corpora and buckets")
        groups = self.corpus.astype(np.int64) * num_buckets + self.buckets
        sizes = np.bincount(groups, minlength=len(self.ratios) * num_buckets)  # [C * K]
        sizes = sizes.reshape(len(self.ratios), num_buckets)
        whole = np.floor(self.ratios).astype(np.int64)  # [C]
        fractions = np.asarray(self.ratios, np.float64) - whole
        parts = np.array([_apportion(*pair) for pair in zip(sizes, fractions, strict=True)])
        counts = (whole[:, None] * sizes + parts).sum(0)  # [K]
        layout = _layout(int(counts.sum()), self.batch_size)
        largest = np.repeat(np.arange(num_buckets, dtype=np.int32), counts)[layout[:, 0]]
        pairs = np.arange(len(self.buckets), dtype=np.int32)
        shared = dict(
            counts=counts,
            batches=np.bincount(largest, minlength=num_buckets),
            _certain=np.repeat(pairs, whole[self.corpus]),
            _groups=groups,
            _sampled=_first_of_each(sizes.reshape(-1), parts.reshape(-1)),
            _layout=layout,
            _largest=largest,
        )
        for name, value in shared.items():
            object.__setattr__(self, name, value)

    @property
    def num_batches(self) -> int:
        """Batches of an epoch."""
        return int(self.batches.sum())

    def epoch(self, epoch: Any, *, ops: Operations = NUMPY) -> tuple[Any, Any]:
        """The pairs [num_batches, batch_size] and the buckets [num_batches] of an epoch."""
        pairs = self._certain
        if len(self._sampled):
            order = self._order(self._groups, len(self._groups), epoch, purpose=2, ops=ops)
            sample = ops.take(np.arange(len(self._groups), dtype=np.int32), order)
            pairs = ops.join(pairs, ops.take(sample, self._sampled))
        buckets = ops.take(self.buckets.astype(np.int64), pairs)
        order = self._order(buckets, int(self.counts.sum()), epoch, purpose=0, ops=ops)
        pairs = ops.join(ops.take(pairs, order), np.array([FILLER], np.int32))
        order = self._order(0, self.num_batches, epoch, purpose=1, ops=ops)
        rows = ops.take(pairs, ops.take(self._layout, order))
        return rows, ops.take(self._largest, order)

    def _order(self, groups, size, epoch, *, purpose, ops):
        key = (self.seed, self.number, epoch, purpose)
        return random_order(groups, size, key=key, ops=ops)


def _first_of_each(sizes: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Of groups that stand one after the other, the places of the first `parts` of each."""
    rank = np.arange(sizes.sum()) - np.repeat(sizes.cumsum() - sizes, sizes)
    return np.flatnonzero(rank < np.repeat(parts, sizes))


def _layout(num_pairs: int, batch_size: int) -> np.ndarray:
    """Where in an order by bucket each row of each batch is; fillers are after its end."""
    num_rows = -(-num_pairs // batch_size) * batch_size
    places = num_pairs - 1 - np.arange(num_rows)  # from the last, the largest, down
    return np.where(places < 0, num_pairs, places).reshape(-1, batch_size)


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

    @property
    def pairs_per_epoch(self) -> int:
        """Real pairs of an epoch; of the synthetic ones, the mean over epochs."""
        pairs = int(self.gold.counts.sum())
        if self.num_synthetic:
            per_batch = self.synthetic.counts.sum() / self.synthetic.num_batches
            pairs += round(self.num_synthetic * per_batch)
        return pairs

    @property
    def order(self) -> np.ndarray:
        """Which batches of an epoch are gold (0) and which synthetic (1).  # [batches]"""
        done = np.arange(self.gold.num_batches)
        # The same sum as in num_synthetic: 0.1 * 30 must not be a little less than 3.
        before = np.floor(done * self.synthetic_ratio + 1e-9).astype(np.int64)
        order = np.ones(self.batches_per_epoch, np.int64)
        order[done + np.minimum(before, self.num_synthetic)] = 0
        return order

    def position(self, step: int) -> tuple[int, int]:
        """The epoch of a step and its place in that epoch."""
        return divmod(step, self.batches_per_epoch)

    def first_batches(self, step: int) -> tuple[int, int]:
        """Gold and synthetic batches before a step, counted from the beginning of the run."""
        epoch, place = self.position(step)
        synthetic = int(self.order[:place].sum())
        return (
            epoch * self.gold.num_batches + place - synthetic,
            epoch * self.num_synthetic + synthetic,
        )

    def epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The pairs [batches_per_epoch, batch_size] and the buckets of an epoch."""
        gold_rows, gold_buckets = self.gold.epoch(epoch)
        if not self.num_synthetic:
            return gold_rows, gold_buckets
        rows, buckets = self._synthetic_batches(epoch)
        # Places of gold batches, then of synthetic ones, in the epoch.
        places = np.argsort(np.argsort(self.order, kind="stable"), kind="stable")
        rows = np.concatenate([gold_rows, rows])[places]
        return rows, np.concatenate([gold_buckets, buckets])[places]

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


def shard_columns(batch_size: int, *, num_shards: int, shards: Sequence[int]) -> np.ndarray:
    """Which rows of a batch make up each shard; `batch_size` stands for a filler.

    Args:
        batch_size: rows of a batch.
        num_shards: into how many equal parts it is cut; the last ones may end in fillers.
        shards: which of them.  # -> [len(shards), ceil(batch_size / num_shards)]
    """
    if not all(0 <= shard < num_shards for shard in shards):
        raise ValueError(f"there are {num_shards} shards, counted from 0; not {list(shards)}")
    size = -(-batch_size // num_shards)
    columns = np.minimum(np.arange(size * num_shards), batch_size)
    return columns.reshape(num_shards, size)[list(shards)]
