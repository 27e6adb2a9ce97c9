"""Pairs of lines -> ids in flat arrays, a chunk of lines at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.cli.machine import num_cores, ordered_map
from aevnmt_tf.data.pair_counts import CorpusCounts
from aevnmt_tf.data.pairs import Lines, Pairs

# Tokenising line by line is seven times slower; beyond this size nothing is gained.
LINES_PER_CALL = 2048
_SLICE = 1 << 20  # lengths made at a time


@dataclass(frozen=True)
class Sequences:
    """Sequences of ids that end in `</s>`, one after the other; in memory or in mapped files.

    Args:
        ids: all ids.  # [number of tokens] int32 or uint16
        offsets: sequence i is ids[offsets[i]:offsets[i + 1]].  # [N + 1] int64
    """

    ids: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Lengths, `</s>` counted: [N] int32."""
        found = np.empty(len(self), np.int32)
        for first in range(0, len(self), _SLICE):
            part = self.offsets[first : first + _SLICE + 1]
            found[first : first + _SLICE] = np.diff(part)
        return found

    def of(self, keep: np.ndarray) -> Sequences:
        """Return those of the sequences that a mask keeps: [N] bool."""
        lengths = self.lengths
        return Sequences.join([(self.ids[np.repeat(keep, lengths)], lengths[keep])])

    @classmethod
    def join(cls, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Sequences:
        """Return the sequences of pieces of (ids, lengths)."""
        ids = [part[0] for part in parts] or [np.zeros(0, np.int32)]
        lengths = np.concatenate([part[1] for part in parts] or [np.zeros(0, np.int64)])
        offsets = np.concatenate([[0], lengths.cumsum(dtype=np.int64)])
        return cls(np.concatenate(ids), offsets)


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as ids."""

    x: Sequences
    y: Sequences

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class EncodedChunk:
    """Some lines as ids.

    Args:
        lines: the text.
        pairs: the ids of the pairs that are kept.
        keep: which of the lines are kept.  # [lines] bool
        dropped: how many are empty, have a source or a target that is too long.  # [3]
    """

    lines: Lines
    pairs: EncodedPairs
    keep: np.ndarray
    dropped: np.ndarray


@dataclass(frozen=True)
class PairEncoder:
    """Tokenises pairs; drops and counts the empty and the over-long ones where asked to.

    Args:
        x_tokenizer: of the source.
        y_tokenizer: of the target.
        src_max_len: the most subwords of a source, `</s>` not counted; None or 0 = no limit.
        tgt_max_len: the same of a target.
        drop_empty: drop pairs with a side that has no subword. Otherwise such a side is one
            `</s>`.
    """

    x_tokenizer: text.Tokenizer
    y_tokenizer: text.Tokenizer
    src_max_len: int | None = None
    tgt_max_len: int | None = None
    drop_empty: bool = False

    def chunks(self, pairs: Pairs, *, first: int = 0) -> Iterator[EncodedChunk]:
        """Yield the pairs from one on, in the order of the lines, on all cores."""
        encoders = _compiled(self.x_tokenizer), _compiled(self.y_tokenizer)

        def encode(lines: Lines) -> EncodedChunk:
            sides = []
            for encoder, side in zip(encoders, lines, strict=True):
                ids, lengths = (found.numpy() for found in encoder(tf.constant(side)))
                sides.append(Sequences.join([(ids, lengths)]))
            return self._filtered(lines, EncodedPairs(*sides))

        # Threads of our own and not tf.data's: a generator that runs in those can hang a
        # process that is interrupted.
        pool = ThreadPoolExecutor(num_cores())
        try:
            yield from ordered_map(pool, encode, pairs.chunks(LINES_PER_CALL, first=first))
        finally:
            pool.shutdown(cancel_futures=True)

    def _filtered(self, lines: Lines, pairs: EncodedPairs) -> EncodedChunk:
        x_len, y_len = pairs.x.lengths, pairs.y.lengths
        is_empty = self.drop_empty & ((x_len == 1) | (y_len == 1))
        x_long = ~is_empty & (x_len > (self.src_max_len or np.inf) + 1)
        y_long = ~is_empty & ~x_long & (y_len > (self.tgt_max_len or np.inf) + 1)
        keep = ~(is_empty | x_long | y_long)
        kept = EncodedPairs(pairs.x.of(keep), pairs.y.of(keep))
        return EncodedChunk(lines, kept, keep, np.stack([is_empty, x_long, y_long]).sum(1))


def encode_pairs(pairs: Pairs, **options: Any) -> tuple[EncodedPairs, CorpusCounts]:
    """Return the ids of all pairs in memory, and the counts; options as of PairEncoder."""
    chunks = list(PairEncoder(**options).chunks(pairs))
    sides = (
        Sequences.join([(side.ids, side.lengths) for side in part])
        for part in ([c.pairs.x for c in chunks], [c.pairs.y for c in chunks])
    )
    encoded = EncodedPairs(*sides)
    dropped = sum((chunk.dropped for chunk in chunks), start=np.zeros(3, np.int64))
    empty, x_long, y_long = dropped.tolist()
    counts = CorpusCounts(pairs.name, len(pairs), empty, x_long, y_long, len(encoded))
    return encoded, counts


def _compiled(tokenizer: text.Tokenizer) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def encode(lines: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # DEVIATION: the authors' encoder reads <s> x; ours, q and r read x </s>.
        ids = text.append_eos(tokenizer.encode(lines))
        return ids.flat_values, ids.row_lengths()

    encode.get_concrete_function()  # traced here, not by several threads at once
    return encode
