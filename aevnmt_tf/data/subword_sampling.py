"""Other segmentations of the training text (subword regularisation, Kudo 2018).

A sentence has one best segmentation into subwords and many that are almost as good. Training on
samples of them shows a small corpus in several forms. They are drawn once, before training, and
epochs take them in turn, so that a batch stays a pure function of seed and step.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aevnmt_tf import text
from aevnmt_tf.data.pair_encoding import EncodedChunk, EncodedPairs, PairEncoder, Sequences

_PRIME = 0x9E3779B1  # keeps the seeds of chunks apart


@dataclass(frozen=True)
class SubwordSampling:
    """How segmentations are drawn.

    Args:
        alpha: segmentations have probability proportional to P(segmentation)^alpha.
        count: how many of each sentence.
        seed: of the run; runs with other seeds and as many samples have other draws.
    """

    alpha: float
    count: int
    seed: int

    def seed_of(self, number: int, chunk: int = 0) -> int:
        """Return the seed of segmentation `number` of a chunk, 32 bits as SentencePiece has."""
        return (self.seed * self.count + number + _PRIME * chunk) % (2**32 - 1)


def sample_chunk(
    chunk: EncodedChunk,
    *,
    number: int,
    encoder: PairEncoder,
    sampling: SubwordSampling,
    tag: str | None = None,
) -> list[EncodedPairs]:
    """Draw `sampling.count` segmentations of the pairs that a chunk has kept.

    Args:
        chunk: the text and its best segmentation, which takes the place of samples that are
            too long.
        number: the number of the chunk in its corpus.
        encoder: what made the chunk.
        sampling: how to draw.
        tag: the word that every source starts with, one symbol; it stays whole.
    """
    x_lines, y_lines = (
        [line.decode() for line in itertools.compress(side, chunk.keep)] for side in chunk.lines
    )
    best, samples = chunk.pairs, []
    for version in range(sampling.count):
        seed = sampling.seed_of(version, number)
        draw: dict[str, Any] = dict(alpha=sampling.alpha, seed=seed)
        if tag is None:
            x = encoder.x_tokenizer.sample(x_lines, **draw)
        else:
            (head,) = encoder.x_tokenizer.encode([tag]).to_list()
            rest = [line.removeprefix(f"{tag} ") for line in x_lines]
            x = [head + list(row) for row in encoder.x_tokenizer.sample(rest, **draw)]
        y = encoder.y_tokenizer.sample(y_lines, **draw)
        samples.append(
            EncodedPairs(
                _joined(x, best.x, most=encoder.src_max_len),
                _joined(y, best.y, most=encoder.tgt_max_len),
            )
        )
    return samples


def _joined(
    sampled: Sequence[Sequence[int]], best: Sequences, *, most: int | None
) -> Sequences:
    rows = [
        best[n].tolist() if most and len(row) > most else [*row, text.EOS]
        for n, row in enumerate(sampled)
    ]
    ids = np.fromiter(itertools.chain.from_iterable(rows), np.int32)
    return Sequences.join([(ids, np.array([len(row) for row in rows], np.int64))])
