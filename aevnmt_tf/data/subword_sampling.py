"""Other segmentations of the training text (subword regularisation, Kudo 2018).

A sentence has one best segmentation into subwords and many that are almost as good. Training on
samples of them shows a small corpus in several forms. They are drawn once, before training, and
epochs take them in turn, so that a batch stays a pure function of seed and step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aevnmt_tf import text
from aevnmt_tf.cli.progress import track
from aevnmt_tf.data.pair_encoding import EncodedPairs, Sequences
from aevnmt_tf.data.pairs import Pairs


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

    def seed_of(self, number: int) -> int:
        """Return the seed of segmentation `number`, as the 32 bits that SentencePiece takes."""
        return (self.seed * self.count + number) % (2**32 - 1)


def sample_pairs(
    pairs: Pairs,
    best: EncodedPairs,
    *,
    x_tokenizer: text.Tokenizer,
    y_tokenizer: text.Tokenizer,
    sampling: SubwordSampling,
    src_max_len: int | None = None,
    tgt_max_len: int | None = None,
    tag: str | None = None,
) -> list[EncodedPairs]:
    """Draw `sampling.count` segmentations of the pairs that `best` has kept.

    Args:
        pairs: the text.
        best: its best segmentation, which takes the place of samples that are too long.
        x_tokenizer: of the source.
        y_tokenizer: of the target.
        sampling: how to draw.
        src_max_len: the most subwords of a source, `</s>` not counted; None or 0 = no limit.
        tgt_max_len: the same of a target.
        tag: the word that every source starts with, one symbol; it stays whole.
    """
    kept = best.line.tolist()
    x_lines, y_lines = [pairs.src[n] for n in kept], [pairs.tgt[n] for n in kept]
    samples = []
    for number in track(range(sampling.count), f"Sampling subwords, {pairs.name}"):
        draw: dict[str, Any] = dict(alpha=sampling.alpha, seed=sampling.seed_of(number))
        if tag is None:
            x = x_tokenizer.sample(x_lines, **draw)
        else:
            (head,) = x_tokenizer.encode([tag]).to_list()
            rest = [line.removeprefix(f"{tag} ") for line in x_lines]
            x = [head + list(row) for row in x_tokenizer.sample(rest, **draw)]
        y = y_tokenizer.sample(y_lines, **draw)
        sides = _joined(x, best.x, most=src_max_len), _joined(y, best.y, most=tgt_max_len)
        samples.append(EncodedPairs(*sides, best.line))
    return samples


def _joined(
    sampled: Sequence[Sequence[int]], best: Sequences, *, most: int | None
) -> Sequences:
    rows = [
        best[n] if most and len(row) > most else np.array([*row, text.EOS], np.int32)
        for n, row in enumerate(sampled)
    ]
    return Sequences.join([(row, np.array([len(row)])) for row in rows])
