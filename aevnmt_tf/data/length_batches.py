"""Sentences of similar lengths together, so that little is computed on padding."""

from collections.abc import Iterator

import numpy as np

MOST_WORDS = 8192  # of a batch, padding included: long sentences come in smaller batches


def length_batches(
    lengths, *, batch_size: int, most_words: int = MOST_WORDS
) -> Iterator[np.ndarray]:
    """Yields the indices of each batch, short sentences first.

    Args:
        lengths: of the sentences.  # [N]
        batch_size: the most sentences of a batch.
        most_words: the most words of a batch of several sentences.
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
