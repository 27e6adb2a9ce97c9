"""Word vectors in GloVe's text form: a word and its numbers on each line, separated by spaces.

A first line of two numbers, how many words and dimensions there are, is passed over.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import text_files


def read(path: str | Path, words: Sequence[str], *, size: int) -> np.ndarray:
    """Return the vectors [len(words), size] of words; every word must be in the file."""
    places = {word: place for place, word in enumerate(words)}
    vectors = np.zeros([len(words), size], np.float32)
    missing = set(places)
    for number, line in enumerate(text_files.read_lines(path), 1):
        word, *numbers = line.rstrip(" ").split(" ")
        if number == 1 and len(numbers) == 1:
            continue
        if word not in places:
            continue
        try:
            vector = np.array(numbers, np.float32)
        except ValueError:
            raise UserError(f"{path}, line {number}: {word} has no row of numbers.") from None
        if vector.shape != (size,):
            raise UserError(
                f"{path}, line {number}: {len(vector)} numbers, where num_units is {size}: "
                "give vectors of this size, or set num_units to theirs."
            )
        vectors[places[word]] = vector
        missing.discard(word)
    if missing:
        first = min(missing, key=places.__getitem__)
        raise UserError(
            f"{path} has no vector of {first} and {len(missing) - 1:,} other words of the "
            "vocabulary: leave them out of the vocabulary, or leave embed_prefix out."
        )
    return vectors
