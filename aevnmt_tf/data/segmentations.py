"""Other segmentations of the training text (subword regularisation, Kudo 2018).

A sentence has one best segmentation into subwords and many that are almost as good. Training on
samples of them shows a small corpus in several forms. They are drawn once, before training, and
epochs take them in turn, so that a batch stays a pure function of seed and step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aevnmt_tf import text
from aevnmt_tf.data.encode import EncodedPairs, Sequences
from aevnmt_tf.data.pairs import Pairs
from aevnmt_tf.text.progress import track


@dataclass(frozen=True)
class Sampling:
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
        """The seed of segmentation `number`, as the 32 bits that SentencePiece takes."""
        return (self.seed * self.count + number) % (2**32 - 1)


def sample_pairs(
    pairs: Pairs,
    best: EncodedPairs,
    *,
    x_tokenizer: text.Tokenizer,
    y_tokenizer: text.Tokenizer,
    sampling: Sampling,
    src_max_len: int | None = None,
    tgt_max_len: int | None = None,
    tag: str | None = None,
) -> list[EncodedPairs]:
    """Draws `sampling.count` segmentations of the pairs that `best` has kept.

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
    sides = (
        ([pairs.src[n] for n in kept], best.x, x_tokenizer, src_max_len, tag),
        ([pairs.tgt[n] for n in kept], best.y, y_tokenizer, tgt_max_len, None),
    )
    samples = []
    for number in track(range(sampling.count), f"Sampling subwords, {pairs.name}"):
        x, y = (
            _sampled(
                lines,
                best=sequences,
                tokenizer=tokenizer,
                alpha=sampling.alpha,
                seed=sampling.seed_of(number),
                most=limit or None,
                tag=first,
            )
            for lines, sequences, tokenizer, limit, first in sides
        )
        samples.append(EncodedPairs(x, y, best.line))
    return samples


def _sampled(
    lines: Sequence[str],
    *,
    best: Sequences,
    tokenizer: text.Tokenizer,
    alpha: float,
    seed: int,
    most: int | None,
    tag: str | None,
) -> Sequences:
    if tag is None:
        rows = tokenizer.sample(lines, alpha=alpha, seed=seed)
    else:
        (head,) = tokenizer.encode([tag]).to_list()
        rest = [line.removeprefix(f"{tag} ") for line in lines]
        rows = [head + list(row) for row in tokenizer.sample(rest, alpha=alpha, seed=seed)]
    is_long = [most is not None and len(row) > most for row in rows]
    rows = [
        best[n] if is_long[n] else np.array([*row, text.EOS], np.int32)
        for n, row in enumerate(rows)
    ]
    return Sequences.join([(row, np.array([len(row)])) for row in rows])
