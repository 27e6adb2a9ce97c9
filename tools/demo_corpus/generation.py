"""Pairs of the grammar, in any number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from . import news, talk
from .choice import Dice

NEWS, TALK = 0, 1
_PATTERNS = {NEWS: news.PATTERNS, TALK: talk.PATTERNS}
_PATIENCE = 2000  # throws without a new pair before we say that the grammar is used up
_WORDS = range(4, 19)  # how long either side may be


class Pair(NamedTuple):
    """A sentence in both languages and its register, NEWS or TALK."""

    english: str
    german: str
    register: int


def _stream(seed: int) -> Iterator[Pair]:
    """Yield pairs without end, with repetitions; chance decides the register of each."""
    dice = Dice(seed)
    while True:
        register, said = dice.below(2), None
        # A pattern gives nothing when its random parts do not go together.
        while not said or not all(len(side.split()) in _WORDS for side in said):
            said = dice.weighted(_PATTERNS[register])(dice)
        yield Pair(*said, register)


def generate(*, seed: int, num_pairs: int) -> list[Pair]:
    """Return pairs that differ on both sides; a longer list begins with a shorter one."""
    pairs: list[Pair] = []
    english: set[str] = set()
    german: set[str] = set()
    repeated = 0
    stream = _stream(seed)
    while len(pairs) < num_pairs:
        pair = next(stream)
        if pair.english in english or pair.german in german:
            repeated += 1
            if repeated > _PATIENCE:
                raise ValueError(
                    f"The grammar gave only {len(pairs)} of {num_pairs} different pairs: ask "
                    "for fewer."
                )
            continue
        repeated = 0
        english.add(pair.english)
        german.add(pair.german)
        pairs.append(pair)
    return pairs
