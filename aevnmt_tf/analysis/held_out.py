"""Which sentences are held out: stratified, seeded, and no sentence on both sides."""

import collections
import unicodedata

import numpy as np

from aevnmt_tf.errors import UserError

STRATA = 5  # of numbers


def split(texts, strata, *, share, seed, origins=None):
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
    keys = [[_same(text) for text in texts], *([] if origins is None else [origins])]
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


def _choose(groups, *, share, dice):
    """Some of a stratum's groups, together about `share` of its rows; never all of them."""
    wanted = max(1.0, share * sum(map(len, groups)))
    chosen, count = [], 0
    for place in dice.permutation(len(groups)):
        # A sentence that is repeated so often that it does not fit is learned from.
        if count + len(groups[place]) <= wanted + 0.5 and len(chosen) + 1 < len(groups):
            chosen.append(groups[place])
            count += len(groups[place])
    return chosen


def _groups(columns):
    """The groups [N] of rows that share a key of some column, directly or by way of others."""
    above = list(range(len(columns[0])))

    def root(row):
        while above[row] != row:
            above[row] = row = above[above[row]]
        return row

    for column in columns:
        first = {}
        for row, key in enumerate(column):
            above[root(row)] = root(first.setdefault(key, row))
    return [root(row) for row in range(len(above))]


def _same(text):
    """A key that sentences share which no model could tell apart."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def ranks(numbers):
    """Strata of numbers [N]: fifths by rank, equal numbers together; fewer of a few."""
    count = max(1, min(STRATA, len(numbers) // 4))
    edges = np.quantile(numbers, np.linspace(0, 1, count + 1)[1:-1])
    return np.searchsorted(edges, numbers, side="left").tolist()


def check_classes(labels, held_out):
    """A UserError where a class is missing among what is learned from or what is held out."""
    learned = {label for label, out in zip(labels, held_out, strict=True) if not out}
    tested = {label for label, out in zip(labels, held_out, strict=True) if out}
    for label in sorted(set(labels), key=str):
        if label not in learned or label not in tested:
            raise UserError(
                f"class {label} has too few different sentences: a probe learns from some and "
                "is tested on others; give more, or leave it out"
            )
