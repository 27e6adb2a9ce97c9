"""Batches of similar lengths, to compute little on padding.

Training and evaluation pad batches to a few shapes (Tx, Ty), chosen to minimise padding on the
lengths of the data. Translation sorts sentences by length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

# The maximum number of lengths per side that are considered: the time of the search grows with
# the square of the number of (x length, y length).
MAX_LEVELS = 96
_SLICE = 1 << 20  # pairs at a time, to limit memory
MOST_WORDS = 8192  # per batch, with padding: long sentences are in smaller batches


@dataclass(frozen=True)
class Lengths:
    """The lengths of a stream of pairs, and how often the stream is read.

    Args:
        x: Source lengths, including `</s>`.  # [N]
        y: Target lengths.  # [N]
        times: How often a pair occurs per epoch: one number, or one per pair.
        share: Epochs of this stream per epoch of the first stream.
    """

    x: np.ndarray
    y: np.ndarray
    times: np.ndarray | float = 1.0
    share: float = 1.0


def choose_shapes(
    streams: Sequence[Lengths], *, num_shapes: int, batch_size: int
) -> np.ndarray:
    """Return at most `num_shapes` nested shapes (Tx, Ty) with the fewest padded tokens.

    Padded tokens are counted per batch, as batch_order makes them.  # [K, 2]
    """
    if num_shapes < 1:
        raise ValueError(f"num_shapes must be at least 1, not {num_shapes}.")
    streams = [stream for stream in streams if len(stream.x)]
    if not streams:
        return np.zeros((0, 2), np.int64)
    x_levels = _levels([stream.x for stream in streams])  # [I]
    y_levels = _levels([stream.y for stream in streams])  # [J]
    rows = sum(
        stream.share * _rows(stream, x_levels, y_levels, batch_size=batch_size)
        for stream in streams
    )  # [I, J]
    chain = _best_chain(rows, x_levels[:, None] + y_levels, num_shapes=num_shapes)
    i, j = chain.T  # [K], [K]
    used = np.diff(rows[i, j], prepend=0.0) > 0
    used[-1] = True  # only this one fits all pairs
    return np.stack([x_levels[i], y_levels[j]], 1)[used]


def _levels(lengths: Sequence[np.ndarray]) -> np.ndarray:
    """Return the lengths that a shape may have; if there are too many, fewer long ones."""
    occurs = np.zeros(1 + max(int(part.max()) for part in lengths), bool)
    for part in lengths:
        occurs[part] = True
    levels = np.flatnonzero(occurs)
    if len(levels) > MAX_LEVELS:
        places = np.geomspace(1, len(levels), MAX_LEVELS).round().astype(np.int64) - 1
        levels = levels[np.unique(places)]
    return levels


def _rows(
    stream: Lengths, x_levels: np.ndarray, y_levels: np.ndarray, *, batch_size: int
) -> np.ndarray:
    """Return the number of rows per epoch in batches that fit into each shape: [I, J].

    Batches are cut from the longest pairs down. Pairs that do not fit into a shape, and those
    that fill their last batch, are in larger batches.
    """
    times = np.broadcast_to(np.asarray(stream.times, np.float64), stream.x.shape)
    count = np.zeros(len(x_levels) * len(y_levels))
    for first in range(0, len(stream.x), _SLICE):
        part = slice(first, first + _SLICE)
        cell = np.searchsorted(x_levels, stream.x[part]) * len(y_levels)
        cell += np.searchsorted(y_levels, stream.y[part])
        count += np.bincount(cell, times[part], minlength=len(count))
    inside = count.reshape(len(x_levels), len(y_levels)).cumsum(0).cumsum(1)  # [I, J]
    total = inside[-1, -1]

    def full(pairs: np.ndarray) -> np.ndarray:
        return np.ceil(pairs / batch_size - 1e-9) * batch_size

    return full(total) - full(total - inside)


def _best_chain(rows: np.ndarray, area: np.ndarray, *, num_shapes: int) -> np.ndarray:
    """Return the levels (i, j) of the nested shapes that minimise rows x area.

    This is dynamic programming. The last shape (i, j) of a chain pays area[i, j] for the rows
    that do not fit into the previous one, (a, b):

        best[k, i, j] = min over a <= i, b <= j of
                        best[k - 1, a, b] + (rows[i, j] - rows[a, b]) * area[i, j]

    Args:
        rows: See _rows.  # [I, J]
        area: Tokens per row of each shape.  # [I, J]
        num_shapes: The maximum length of the chain.  # -> [K, 2], smallest first
    """
    alone = rows * area  # [I, J]
    best = np.repeat(alone[None], num_shapes, 0)  # [K, I, J]
    before = np.full(best.shape, -1, np.int64)  # (a, b) as one number; -1: none
    for i, j in np.ndindex(*rows.shape):
        smaller = best[:-1, : i + 1, : j + 1] - rows[: i + 1, : j + 1] * area[i, j]
        smaller = smaller.reshape(num_shapes - 1, (i + 1) * (j + 1))
        place = smaller.argmin(1)  # [K-1]
        cost = alone[i, j] + np.take_along_axis(smaller, place[:, None], 1)[:, 0]
        gains = cost < alone[i, j]
        best[1:, i, j] = np.where(gains, cost, alone[i, j])
        before[1:, i, j] = np.where(gains, place, -1)
    i, j = np.array(rows.shape) - 1
    chain = [(i, j)]
    for k in range(num_shapes - 1, 0, -1):
        place = before[k, i, j]
        if place < 0:
            break
        i, j = divmod(place, j + 1)
        chain.append((i, j))
    return np.array(chain[::-1])


def assign(x_len: np.ndarray, y_len: np.ndarray, *, shapes: np.ndarray) -> np.ndarray:
    """Return the index of the first shape that fits each pair; smallest shapes first: [N]."""
    bucket = np.full(len(x_len), -1, np.int16)
    for k in reversed(range(len(shapes))):
        fits = (x_len <= shapes[k, 0]) & (y_len <= shapes[k, 1])
        bucket[fits] = k
    if (bucket < 0).any():
        raise ValueError("A pair is longer than every shape.")
    return bucket


def length_batches(
    lengths: np.ndarray, *, batch_size: int, most_words: int = MOST_WORDS
) -> Iterator[np.ndarray]:
    """Yield the indices of each batch, short sentences first.

    Args:
        lengths: The lengths of the sentences.  # [N]
        batch_size: The most sentences per batch.
        most_words: The most words in a batch of several sentences.
    """
    order, first = np.argsort(lengths, kind="stable"), 0
    while first < len(order):
        last = first + 1
        while (
            last < min(len(order), first + batch_size)
            and (last + 1 - first) * lengths[order[last]] <= most_words
        ):
            last += 1
        yield order[first:last]
        first = last
