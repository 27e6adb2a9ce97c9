"""Pairs of lines -> ids in flat arrays, a chunk of lines at a time.

With subword regularisation (Kudo 2018), each sentence has several sampled segmentations. They
are drawn once, before training, and epochs use them in turn, so that a batch remains a pure
function of seed and step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.cli.machine import num_cores, ordered_map
from aevnmt_tf.data.pairs import Lines, Pairs

# Tokenising line by line is seven times slower; larger chunks are not faster.
LINES_PER_CALL = 2048
_SLICE = 1 << 20  # lengths computed at a time
_PRIME = 0x9E3779B1  # keeps the seeds of chunks apart


@dataclass(frozen=True)
class Sequences:
    """Sequences of ids that end in `</s>`, concatenated, in memory or in mapped files.

    Args:
        ids: All ids.  # [number of tokens] int32 or uint16
        offsets: Sequence i is ids[offsets[i]:offsets[i + 1]].  # [N + 1] int64
    """

    ids: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Lengths including `</s>`: [N] int32."""
        found = np.empty(len(self), np.int32)
        for first in range(0, len(self), _SLICE):
            part = self.offsets[first : first + _SLICE + 1]
            found[first : first + _SLICE] = np.diff(part)
        return found

    def of(self, keep: np.ndarray) -> Sequences:
        """Return the sequences that a mask keeps: [N] bool."""
        lengths = self.lengths
        return Sequences.join([(self.ids[np.repeat(keep, lengths)], lengths[keep])])

    @classmethod
    def join(cls, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Sequences:
        """Return the sequences of several (ids, lengths)."""
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
    """The ids of consecutive lines.

    Args:
        num_lines: The number of lines, including dropped ones.
        dropped: The numbers of empty pairs, overlong sources and overlong targets.  # [3]
        versions: The kept pairs, once per segmentation.
    """

    num_lines: int
    dropped: np.ndarray
    versions: Sequence[EncodedPairs]


@dataclass(frozen=True)
class SubwordSampling:
    """How to sample segmentations.

    Args:
        alpha: Segmentations are drawn with probability proportional to P(segmentation)^alpha.
        count: The number of samples per sentence.
        seed: The seed of the run.
    """

    alpha: float
    count: int
    seed: int

    def seed_of(self, number: int, chunk: int = 0) -> int:
        """Return the seed of a sample of a chunk, 32 bits as SentencePiece expects."""
        return (self.seed * self.count + number + _PRIME * chunk) % (2**32 - 1)


@dataclass(frozen=True)
class PairEncoder:
    """Tokenises pairs and drops those that are empty or too long.

    Args:
        x_tokenizer: The tokenizer of the source.
        y_tokenizer: The tokenizer of the target.
        src_max_len: The most subwords of a source without `</s>`; None or 0: no limit.
        tgt_max_len: The same for the target.
        drop_empty: Whether to drop pairs with an empty side. If kept, it is a single `</s>`.
        sampling: Replace the best segmentation by samples; None: do not.
        tag: The word that every source starts with. Samples do not split it.
    """

    x_tokenizer: text.Tokenizer
    y_tokenizer: text.Tokenizer
    src_max_len: int | None = None
    tgt_max_len: int | None = None
    drop_empty: bool = False
    sampling: SubwordSampling | None = None
    tag: str | None = None

    def chunks(self, pairs: Pairs, *, first: int = 0) -> Iterator[EncodedChunk]:
        """Yield the pairs from `first` on, in the order of the lines, using all cores."""
        encoders = _compiled(self.x_tokenizer), _compiled(self.y_tokenizer)

        def encode(lines: Lines) -> tuple[Lines, np.ndarray, np.ndarray, EncodedPairs]:
            sides = []
            for encoder, side in zip(encoders, lines, strict=True):
                ids, lengths = (found.numpy() for found in encoder(tf.constant(side)))
                sides.append(Sequences.join([(ids, lengths)]))
            faults = self._faults(*sides)  # [3, lines]
            keep = ~faults.any(0)
            best = EncodedPairs(*(side.of(keep) for side in sides))
            return lines, keep, faults.sum(1), best

        # Our own threads, not tf.data's: a generator that runs in those can hang a process
        # that is interrupted.
        pool = ThreadPoolExecutor(num_cores())
        try:
            encoded = ordered_map(pool, encode, pairs.chunks(LINES_PER_CALL, first=first))
            for number, (lines, keep, dropped, best) in enumerate(
                encoded, start=first // LINES_PER_CALL
            ):
                versions = [best]
                if self.sampling is not None:
                    kept = [list(itertools.compress(side, keep)) for side in lines]
                    versions = [*self._samples(kept, best, self.sampling, chunk=number)]
                yield EncodedChunk(len(keep), dropped, versions)
        finally:
            pool.shutdown(cancel_futures=True)

    def _faults(self, x: Sequences, y: Sequences) -> np.ndarray:
        """Return which pairs are empty or too long, each with its first fault only."""
        x_len, y_len = x.lengths, y.lengths
        is_empty = self.drop_empty & ((x_len == 1) | (y_len == 1))
        x_long = ~is_empty & (x_len > (self.src_max_len or np.inf) + 1)
        y_long = ~is_empty & ~x_long & (y_len > (self.tgt_max_len or np.inf) + 1)
        return np.stack([is_empty, x_long, y_long])

    def _samples(
        self,
        lines: Sequence[Sequence[bytes]],
        best: EncodedPairs,
        sampling: SubwordSampling,
        *,
        chunk: int,
    ) -> Iterator[EncodedPairs]:
        """Yield sampled segmentations of lines; the best one replaces overlong samples."""
        x_lines, y_lines = ([line.decode() for line in side] for side in lines)
        head: list[int] = []
        if self.tag is not None:
            (head,) = self.x_tokenizer.encode([self.tag]).to_list()
            x_lines = [line.removeprefix(f"{self.tag} ") for line in x_lines]
        for number in range(sampling.count):
            draw: dict[str, Any] = dict(
                alpha=sampling.alpha, seed=sampling.seed_of(number, chunk)
            )
            x = [[*head, *row] for row in self.x_tokenizer.sample(x_lines, **draw)]
            y = self.y_tokenizer.sample(y_lines, **draw)
            yield EncodedPairs(
                _joined(x, best.x, most=self.src_max_len),
                _joined(y, best.y, most=self.tgt_max_len),
            )


def encode_pairs(pairs: Pairs, **options: Any) -> EncodedPairs:
    """Return the ids of all pairs in memory; options are those of PairEncoder."""
    chunks = [chunk.versions[0] for chunk in PairEncoder(**options).chunks(pairs)]
    sides = ([chunk.x for chunk in chunks], [chunk.y for chunk in chunks])
    return EncodedPairs(
        *(Sequences.join([(part.ids, part.lengths) for part in side]) for side in sides)
    )


def _joined(
    sampled: Sequence[Sequence[int]], best: Sequences, *, most: int | None
) -> Sequences:
    rows = [
        best[n].tolist() if most and len(row) > most else [*row, text.EOS]
        for n, row in enumerate(sampled)
    ]
    ids = np.fromiter(itertools.chain.from_iterable(rows), np.int32)
    return Sequences.join([(ids, np.array([len(row) for row in rows], np.int64))])


def _compiled(tokenizer: text.Tokenizer) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def encode(lines: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # DEVIATION: the authors' encoder reads <s> x; ours, q and r read x </s>.
        ids = text.append_eos(tokenizer.encode(lines))
        return ids.flat_values, ids.row_lengths()

    encode.get_concrete_function()  # traced here, not by several threads at once
    return encode
