"""Which sentences are held out: stratified, seeded, and no sentence on both sides."""

import collections
import unicodedata
from collections.abc import Hashable, Sequence

import numpy as np

from aevnmt_tf.cli.errors import UserError

STRATA = 5  # of numbers


def split(
    texts: Sequence[str],
    strata: Sequence[Hashable],
    *,
    share: float,
    seed: int,
    origins: Sequence[Hashable] | None = None,
) -> np.ndarray:
    """Choose what is held out.

    All rows with the same text, but for spaces and forms of characters, stay on one side, and
    so do all with the same origin. Else a probe learns the other label of a sentence that it is
    tested on from its paraphrase. Such rows count for the stratum that most of them are in.

    Args:
        texts: N sentences.
        strata: N names; each one's share is held out.
        share: of the rows, between 0 and 1.
        seed: another one holds others out.
        origins: N keys, equal for versions of one sentence; None: all have their own.

    Returns:
        Whether a row is held out [N]. None of a stratum is where it has a single sentence.
    """
    groups = collections.defaultdict(list)
    # Sentences share a key where no model could tell them apart.
    same = [" ".join(unicodedata.normalize("NFKC", text).split()) for text in texts]
    keys: list[Sequence[Hashable]] = [same] if origins is None else [same, origins]
    for row, group in enumerate(_groups(keys)):
        groups[group].append(row)
    by_stratum = collections.defaultdict(list)
    for rows in groups.values():
        stratum, _ = collections.Counter(strata[row] for row in rows).most_common(1)[0]
        by_stratum[stratum].append(rows)
    dice = np.random.default_rng([seed, 2])
    held_out = np.zeros(len(texts), bool)
    for stratum in sorted(by_stratum, key=str):
        for rows in _choose(by_stratum[stratum], share=share, dice=dice):
            held_out[rows] = True
    return held_out


def _choose(
    groups: list[list[int]], *, share: float, dice: np.random.Generator
) -> list[list[int]]:
    """Return some of a stratum's groups, about `share` of its rows, but never all of them."""
    wanted = max(1.0, share * sum(map(len, groups)))
    chosen: list[list[int]] = []
    count = 0
    for place in dice.permutation(len(groups)):
        # A sentence that is repeated so often that it does not fit is learned from.
        if count + len(groups[place]) <= wanted + 0.5 and len(chosen) + 1 < len(groups):
            chosen.append(groups[place])
            count += len(groups[place])
    return chosen


def _groups(columns: Sequence[Sequence[Hashable]]) -> list[int]:
    """Return the groups [N] of rows that share a key, directly or by way of other rows."""
    above = list(range(len(columns[0])))

    def root(row: int) -> int:
        while above[row] != row:
            above[row] = row = above[above[row]]
        return row

    for column in columns:
        first: dict[Hashable, int] = {}
        for row, key in enumerate(column):
            above[root(row)] = root(first.setdefault(key, row))
    return [root(row) for row in range(len(above))]


def ranks(numbers: np.ndarray) -> list[int]:
    """Return strata of numbers [N]: fifths by rank, equal numbers together; fewer of a few."""
    count = max(1, min(STRATA, len(numbers) // 4))
    edges = np.quantile(numbers, np.linspace(0, 1, count + 1)[1:-1])
    return np.searchsorted(edges, numbers, side="left").tolist()


def check_classes(labels: Sequence[str], held_out: np.ndarray) -> None:
    """Raise a UserError where a class is not on both sides."""
    sides = set(zip(labels, held_out.tolist(), strict=True))
    for label in sorted(set(labels)):
        if {(label, True), (label, False)} - sides:
            raise UserError(
                f"class {label} has too few different sentences: a probe learns from some and "
                "is tested on others; give more, or leave it out."
            )
