"""Bucket shapes: the few (Tx, Ty) that waste the least padding on given lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# More distinct lengths than this on a side are merged, so that the search stays fast.
MAX_LEVELS = 128

# How many levels up or down a side of a shape may move at a time.
WINDOW = 10

# Bounds the search by its work, not by a clock: the shapes are a function of the lengths.
EFFORT = 5e6


@dataclass(frozen=True)
class Lengths:
    """The lengths of a stream of pairs, and how often the stream is read.

    Args:
        x: source lengths, `</s>` counted.  # [N]
        y: target lengths.  # [N]
        times: how often a pair comes in an epoch; one number, or one for each pair.
        share: epochs of this stream for one epoch of the first stream.
    """

    x: np.ndarray
    y: np.ndarray
    times: np.ndarray | float = 1.0
    share: float = 1.0


class _Grid:
    """Pairs counted by (level of x_len, level of y_len); the cost of a set of shapes."""

    def __init__(self, streams: Sequence[Lengths], *, batch_size: int):
        self.batch_size = batch_size
        self.shares = np.array([stream.share for stream in streams])  # [S]
        self.levels = [
            _levels(np.concatenate([stream.x for stream in streams])),
            _levels(np.concatenate([stream.y for stream in streams])),
        ]
        counts = np.stack([self._count(stream) for stream in streams])  # [S, I, J]
        cells = np.nonzero(counts.sum(0))
        self.x_level, self.y_level = cells  # [C], [C]
        self.counts = counts[:, cells[0], cells[1]]  # [S, C]

    def _count(self, stream: Lengths) -> np.ndarray:
        x_levels, y_levels = self.levels
        cell = np.searchsorted(x_levels, stream.x) * len(y_levels)
        cell = cell + np.searchsorted(y_levels, stream.y)
        weights = np.broadcast_to(np.asarray(stream.times, np.float64), cell.shape)
        flat = np.bincount(cell, weights, minlength=len(x_levels) * len(y_levels))
        return flat.reshape(len(x_levels), len(y_levels))

    def rows(self, real: np.ndarray) -> np.ndarray:
        """Rows of the batches that hold `real` pairs: fillers make the last one full."""
        return np.ceil(real / self.batch_size - 1e-9) * self.batch_size

    def cost(self, shapes: np.ndarray) -> float:
        """Padded tokens an epoch, fillers included, when pairs go to the cheapest shape."""
        area = self.levels[0][shapes[:, 0]] + self.levels[1][shapes[:, 1]]  # [K]
        order = np.argsort(area, kind="stable")
        i, j = shapes[order, 0], shapes[order, 1]
        fits = (self.x_level[:, None] <= i) & (self.y_level[:, None] <= j)  # [C, K]
        if not fits.any(1).all():
            return np.inf
        chosen = fits.argmax(1)  # [C]
        num_shapes = len(shapes)
        total = 0.0
        for share, counts in zip(self.shares, self.counts, strict=True):
            real = np.bincount(chosen, counts, minlength=num_shapes)  # [K]
            total += share * float((self.rows(real) * area[order]).sum())
        return total

    def diagonal(self, num_shapes: int) -> np.ndarray:
        """The best cut of the pairs, ordered by x_len + y_len, into at most num_shapes runs.

        The best cut of an ordering is exact (dynamic programming); the ordering is a guess.
        """
        size = self.levels[0][self.x_level] + self.levels[1][self.y_level]  # [C]
        totals, group = np.unique(size, return_inverse=True)  # [G], [C]
        num_groups = len(totals)
        x_max = np.zeros(num_groups, np.int64)
        y_max = np.zeros(num_groups, np.int64)
        np.maximum.at(x_max, group, self.x_level)
        np.maximum.at(y_max, group, self.y_level)
        count = np.stack([np.bincount(group, c, minlength=num_groups) for c in self.counts])
        below = np.concatenate([np.zeros((len(count), 1)), count.cumsum(1)], 1)  # [S, G+1]

        best = np.full((num_shapes + 1, num_groups + 1), np.inf)
        best[:, 0] = 0.0
        cut = np.zeros((num_shapes + 1, num_groups + 1), np.int64)
        for end in range(1, num_groups + 1):
            # A run is the groups start..end-1; its shape is the largest x and y among them.
            x = np.maximum.accumulate(x_max[:end][::-1])[::-1]  # [end]
            y = np.maximum.accumulate(y_max[:end][::-1])[::-1]
            rows = self.shares @ self.rows(below[:, end : end + 1] - below[:, :end])
            cost = rows * (self.levels[0][x] + self.levels[1][y])  # [end]
            for k in range(1, num_shapes + 1):
                candidates = best[k - 1, :end] + cost
                cut[k, end] = candidates.argmin()
                best[k, end] = candidates[cut[k, end]]
        shapes, end = [], num_groups
        for k in range(num_shapes, 0, -1):
            if end:
                start = cut[k, end]
                shapes.append((x_max[start:end].max(), y_max[start:end].max()))
                end = start
        return np.array(shapes, np.int64)

    def search(self, num_shapes: int) -> np.ndarray:
        """Start from the diagonal, then improve until nothing gains or the effort is spent."""
        shapes = self.refine(self.diagonal(num_shapes))
        work = self.counts.size * (2 * WINDOW + 1) * num_shapes
        for _ in range(int(np.clip(EFFORT / work, 1, 20))):
            better = self.relocate(shapes, tries=5)
            if better is None:
                break
            shapes = better
        return shapes

    def refine(self, shapes: np.ndarray) -> np.ndarray:
        """Move one side of one shape at a time, for as long as that lowers the cost."""
        shapes = shapes.copy()
        best = self.cost(shapes)
        for _ in range(20):
            before = best
            for k in range(len(shapes)):
                for side in (0, 1):
                    near = self._near(shapes[k, side], side)
                    costs = self._costs_of_moves(shapes, k, side, near)
                    if costs.min() < best:
                        best = costs.min()
                        shapes[k, side] = near[costs.argmin()]
            if best > before * (1 - 1e-4):
                break
        return shapes

    def _near(self, level: int, side: int) -> np.ndarray:
        return np.arange(
            max(0, level - WINDOW), min(level + WINDOW + 1, len(self.levels[side]))
        )

    def _costs_of_moves(
        self, shapes: np.ndarray, k: int, side: int, candidates: np.ndarray
    ) -> np.ndarray:
        """The cost for every candidate level of side `side` of shape `k`.  # [L]"""
        rest = np.delete(shapes, k, 0)
        rest_area = self.levels[0][rest[:, 0]] + self.levels[1][rest[:, 1]]  # [K-1]
        fits = (self.x_level[:, None] <= rest[:, 0]) & (self.y_level[:, None] <= rest[:, 1])
        areas = np.where(fits, rest_area, np.inf)  # [C, K-1]
        elsewhere = areas.min(1, initial=np.inf)  # [C]
        owner = (areas == elsewhere[:, None]) & fits  # [C, K-1]
        owner &= np.cumsum(owner, 1) == 1

        area = self.levels[side][candidates] + self.levels[1 - side][shapes[k, 1 - side]]  # [L]
        own, cross = (self.x_level, self.y_level)[:: 1 if side == 0 else -1]
        inside = (own <= candidates[:, None]) & (cross <= shapes[k, 1 - side])
        taken = inside & (area[:, None] < elsewhere)  # [L, C]
        costs = np.where((taken | np.isfinite(elsewhere)).all(1), 0.0, np.inf)
        taken = taken.astype(np.float32)
        for share, counts in zip(self.shares, self.counts, strict=True):
            owned = (owner * counts[:, None]).astype(np.float32)  # [C, K-1]
            moved = taken @ np.concatenate([counts[:, None], owned], 1, dtype=np.float32)
            costs += share * self.rows(moved[:, 0]) * area
            costs += share * (self.rows(owned.sum(0) - moved[:, 1:]) @ rest_area)
        return costs

    def relocate(self, shapes: np.ndarray, *, tries: int) -> np.ndarray | None:
        """Take one shape away, split the pairs of another in two; None if nothing gains."""
        best = self.cost(shapes)
        middles = self._middles(shapes)
        found = []
        for k in range(len(shapes)):
            for middle in middles:
                trial = shapes.copy()
                trial[k] = middle
                found.append((self.cost(trial), trial))
        found.sort(key=lambda pair: pair[0])
        for cost, trial in found[:tries]:
            if np.isfinite(cost):
                trial = self.refine(trial)
                if self.cost(trial) < best * (1 - 1e-4):
                    return trial
        return None

    def _middles(self, shapes: np.ndarray) -> list[tuple[int, int]]:
        """For each shape that holds pairs, the median levels of these pairs."""
        area = self.levels[0][shapes[:, 0]] + self.levels[1][shapes[:, 1]]  # [K]
        fits = (self.x_level[:, None] <= shapes[:, 0]) & (self.y_level[:, None] <= shapes[:, 1])
        chosen = np.where(fits, area, np.inf).argmin(1)  # [C]
        middles = []
        for k in range(len(shapes)):
            mine = chosen == k
            if mine.any():
                weight = self.counts[:, mine].sum(0)
                middles.append(
                    tuple(_median(side[mine], weight) for side in (self.x_level, self.y_level))
                )
        return middles


def _median(values: np.ndarray, weights: np.ndarray) -> int:
    order = np.argsort(values, kind="stable")
    below = weights[order].cumsum()
    return int(values[order][np.searchsorted(below, below[-1] / 2)])


def _levels(lengths: np.ndarray) -> np.ndarray:
    """Lengths that a shape may have: all that occur, or evenly spread ones where too many."""
    levels = np.unique(lengths)
    if len(levels) > MAX_LEVELS:
        keep = np.round(np.linspace(0, len(levels) - 1, MAX_LEVELS)).astype(np.int64)
        levels = levels[keep]
    return levels.astype(np.int64)


def choose_shapes(
    streams: Sequence[Lengths], *, num_shapes: int, batch_size: int
) -> np.ndarray:
    """At most `num_shapes` pairs (Tx, Ty), smallest first, that minimise padded tokens.

    The padded tokens are counted as they will be: every pair in the cheapest shape that holds
    it, batches of `batch_size` rows of one shape, the last one full of fillers.  # [K, 2]
    """
    if num_shapes < 1:
        raise ValueError(f"num_shapes must be at least 1, not {num_shapes}")
    streams = [stream for stream in streams if len(stream.x)]
    if not streams:
        return np.zeros((0, 2), np.int64)
    grid = _Grid(streams, batch_size=batch_size)
    shapes = grid.search(num_shapes)
    lengths = np.stack([grid.levels[0][shapes[:, 0]], grid.levels[1][shapes[:, 1]]], 1)
    used = np.zeros(len(lengths), bool)
    lengths = lengths[np.argsort(lengths.sum(1), kind="stable")]
    for stream in streams:
        used[assign(stream.x, stream.y, shapes=lengths)] = True
    return lengths[used]


def assign(x_len: np.ndarray, y_len: np.ndarray, *, shapes: np.ndarray) -> np.ndarray:
    """The index of the first shape that holds each pair; shapes come smallest first.  # [N]"""
    bucket = np.full(len(x_len), -1, np.int32)
    for k in reversed(range(len(shapes))):
        fits = (x_len <= shapes[k, 0]) & (y_len <= shapes[k, 1])
        bucket[fits] = k
    if (bucket < 0).any():
        raise ValueError("a pair is longer than every shape")
    return bucket
