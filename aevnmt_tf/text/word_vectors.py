"""Word vectors in GloVe's text format: a word and its numbers per line, separated by spaces.

A first line with the number of words and dimensions is skipped.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage.text_files import FileLines


def read(path: str | Path, words: Sequence[str], *, size: int) -> np.ndarray:
    """Return the vectors of words, all of which must be in the file: [len(words), size]."""
    places = {word: place for place, word in enumerate(words)}
    vectors = np.zeros([len(words), size], np.float32)
    missing = set(places)
    for number, line in enumerate(FileLines.of(path), 1):
        word, *numbers = line.rstrip(" ").split(" ")
        if number == 1 and len(numbers) == 1:
            continue
        if word not in places:
            continue
        try:
            vector = np.array(numbers, np.float32)
        except ValueError:
            raise UserError(
                f"{path}, line {number}: {word} must be followed by numbers."
            ) from None
        if vector.shape != (size,):
            raise UserError(
                f"{path}, line {number}: {len(vector)} numbers, but num_units is {size}: "
                "give vectors of this size, or set num_units to theirs."
            )
        vectors[places[word]] = vector
        missing.discard(word)
    if missing:
        first = min(missing, key=places.__getitem__)
        raise UserError(
            f"{path} has no vector for {first} and {len(missing) - 1:,} other words of the "
            "vocabulary: remove them from the vocabulary, or do without embed_prefix."
        )
    return vectors
