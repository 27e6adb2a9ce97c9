"""Pairs of lines -> ids, tokenised once, kept in flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.cli.machine import num_cores
from aevnmt_tf.data.pair_counts import CorpusCounts
from aevnmt_tf.data.pairs import Pairs

# Tokenising line by line is seven times slower; beyond this size nothing is gained.
LINES_PER_CALL = 2048

Chunk = tuple[Any, Any]  # ids and lengths


@dataclass(frozen=True)
class Sequences:
    """Sequences of ids that end in `</s>`, one after the other.

    Args:
        ids: all ids.  # [number of tokens] int32
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
        return np.diff(self.offsets).astype(np.int32)

    @classmethod
    def join(cls, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Sequences:
        """Return the sequences of pieces of (ids, lengths)."""
        ids = [part[0] for part in parts] or [np.zeros(0, np.int32)]
        lengths = np.concatenate([part[1] for part in parts] or [np.zeros(0, np.int64)])
        offsets = np.concatenate([[0], lengths.cumsum(dtype=np.int64)])
        return cls(np.concatenate(ids), offsets)


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as ids; `line` [N] int32 is the number of each pair in its file, from 0."""

    x: Sequences
    y: Sequences
    line: np.ndarray

    def __len__(self) -> int:
        return len(self.line)


def encode_pairs(
    pairs: Pairs,
    *,
    x_tokenizer: text.Tokenizer,
    y_tokenizer: text.Tokenizer,
    src_max_len: int | None = None,
    tgt_max_len: int | None = None,
    drop_empty: bool = False,
) -> tuple[EncodedPairs, CorpusCounts]:
    """Tokenise all pairs; drop and count the empty and the over-long ones where asked to.

    Args:
        pairs: what to encode.
        x_tokenizer: of the source.
        y_tokenizer: of the target.
        src_max_len: the most subwords of a source, `</s>` not counted; None or 0 = no limit.
        tgt_max_len: the same of a target.
        drop_empty: drop pairs with a side that has no subword. Otherwise such a side is one
            `</s>`.
    """
    x_parts, y_parts, kept_parts = [], [], []
    dropped = np.zeros(3, np.int64)  # empty, source too long, target too long
    for x_ids, x_len, y_ids, y_len in _tokenised(pairs, x_tokenizer, y_tokenizer):
        is_empty = drop_empty & ((x_len == 1) | (y_len == 1))
        x_long = ~is_empty & (x_len > (src_max_len or np.inf) + 1)
        y_long = ~is_empty & ~x_long & (y_len > (tgt_max_len or np.inf) + 1)
        dropped += [is_empty.sum(), x_long.sum(), y_long.sum()]
        keep = ~(is_empty | x_long | y_long)
        x_parts.append((x_ids[np.repeat(keep, x_len)], x_len[keep]))
        y_parts.append((y_ids[np.repeat(keep, y_len)], y_len[keep]))
        kept_parts.append(keep)
    kept = np.concatenate(kept_parts or [np.zeros(0, bool)])
    encoded = EncodedPairs(
        Sequences.join(x_parts), Sequences.join(y_parts), np.flatnonzero(kept).astype(np.int32)
    )
    empty, x_long, y_long = dropped.tolist()
    counts = CorpusCounts(pairs.name, len(pairs), empty, x_long, y_long, len(encoded))
    return encoded, counts


def _tokenised(
    pairs: Pairs, x_tokenizer: text.Tokenizer, y_tokenizer: text.Tokenizer
) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield chunks of (x ids, x lengths, y ids, y lengths), in the order of the lines."""
    encode_x, encode_y = _compiled(x_tokenizer), _compiled(y_tokenizer)

    def encode(start: int) -> tuple[np.ndarray, ...]:
        lines = slice(start, start + LINES_PER_CALL)
        x = encode_x(tf.constant(pairs.src.encoded(lines), tf.string))
        y = encode_y(tf.constant(pairs.tgt.encoded(lines), tf.string))
        return tuple(output.numpy() for output in (*x, *y))

    # Threads of our own and not tf.data's: a generator that runs in those can hang a process
    # that is interrupted.
    pool = ThreadPoolExecutor(num_cores())
    try:
        yield from pool.map(encode, range(0, len(pairs), LINES_PER_CALL))
    finally:
        pool.shutdown(cancel_futures=True)


def _compiled(tokenizer: text.Tokenizer) -> Callable[[tf.Tensor], Chunk]:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def encode(lines: tf.Tensor) -> Chunk:
        # DEVIATION: the authors' encoder reads <s> x; ours, q and r read x </s>.
        ids = text.append_eos(tokenizer.encode(lines))
        return ids.flat_values, ids.row_lengths()

    encode.get_concrete_function()  # traced here, not by several threads at once
    return encode
