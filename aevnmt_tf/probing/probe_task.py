"""What a probe predicts, and which sentences are held out to test it."""

import collections
import dataclasses
import unicodedata
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from aevnmt_tf.cli.errors import UserError

STRATA = 5  # quantiles that numbers are stratified by
# Titles of the measures by name, the main one first.
CLASS_TITLES = {"accuracy": "accuracy", "log_likelihood": "log-lik."}
NUMBER_TITLES = {"r2": "R^2", "rmse": "RMSE", "log_likelihood": "log-lik."}


@dataclasses.dataclass(frozen=True)
class ProbeTask:
    """The target of a probe for N sentences, and the split into training and test sentences."""

    name: str  # such as label or length
    values: np.ndarray  # [N] class indices or numbers
    classes: list[str] | None  # None for numbers
    held_out: np.ndarray  # [N] bool

    @property
    def train(self) -> np.ndarray:
        """The values of the training sentences."""
        return self.values[~self.held_out]

    @property
    def test(self) -> np.ndarray:
        """The values of the held-out sentences."""
        return self.values[self.held_out]

    @property
    def titles(self) -> dict[str, str]:
        """Titles of the measures by name, the main one first."""
        return NUMBER_TITLES if self.classes is None else CLASS_TITLES

    def counts(self) -> dict[str, dict[str, int]] | None:
        """Return the number of sentences per class and part; None for numbers."""
        if self.classes is None:
            return None
        parts = {"train": self.train, "held_out": self.test}
        return {
            name: {part: int(np.sum(values == index)) for part, values in parts.items()}
            for index, name in enumerate(self.classes)
        }

    def named(self, values: np.ndarray) -> list[Any]:
        """Return the names of classes, or the numbers themselves."""
        if self.classes is None:
            return np.asarray(values).tolist()
        return [self.classes[value] for value in values]


def class_task(texts: Sequence[str], labels: Sequence[str], **options: Any) -> ProbeTask:
    """Return the task of predicting labels; `options` are those of `split`."""
    names = sorted(set(labels))
    if len(names) < 2:
        raise UserError(
            f"all sentences have the label {names[0]}, but a probe needs at least two classes: "
            "give another --data NAME=PREFIX, or --labels FILE."
        )
    held_out = split(texts, labels, **options)
    sides = set(zip(labels, held_out.tolist(), strict=True))
    for label in names:
        if {(label, True), (label, False)} - sides:
            raise UserError(
                f"class {label} has too few different sentences to be both in the training set "
                "and in the held-out set: add sentences, or omit the class."
            )
    return ProbeTask("label", np.array([names.index(one) for one in labels]), names, held_out)


def number_task(
    texts: Sequence[str], numbers: Sequence[float] | np.ndarray, *, name: str, **options: Any
) -> ProbeTask:
    """Return the task of predicting a number; `options` are those of `split`."""
    numbers = np.asarray(numbers, np.float64)
    # Stratified by quantile; equal numbers are in the same stratum.
    count = max(1, min(STRATA, len(numbers) // 4))
    edges = np.quantile(numbers, np.linspace(0, 1, count + 1)[1:-1])
    strata = np.searchsorted(edges, numbers, side="left").tolist()
    task = ProbeTask(name, numbers, None, split(texts, strata, **options))
    for part in (task.train, task.test):
        if len(set(part.tolist())) < 2:
            raise UserError(
                f"{name} hardly differs between the sentences, so there is nothing to predict: "
                "add sentences, or give another --target."
            )
    return task


def split(
    texts: Sequence[str],
    strata: Sequence[Hashable],
    *,
    share: float,
    seed: int,
    origins: Sequence[Hashable] | None = None,
) -> np.ndarray:
    """Choose the held-out sentences: stratified, and with no sentence on both sides.

    Sentences with the same text, up to white space and Unicode normalisation, or with the same
    origin stay on the same side. Otherwise, a probe could learn the label of a test sentence
    from its paraphrase. Such a group belongs to the stratum of most of its sentences.

    Args:
        texts: N sentences.
        strata: N names of strata.
        share: Proportion of each stratum to hold out, between 0 and 1.
        seed: Random seed.
        origins: N keys, equal for versions of one sentence; None: all differ.

    Returns:
        Whether each sentence is held out [N]. A stratum with a single sentence keeps it.
    """
    groups = collections.defaultdict(list)
    # Sentences that no model could tell apart share a key.
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
    """Return some groups of a stratum, about `share` of its rows, but never all of them."""
    wanted = max(1.0, share * sum(map(len, groups)))
    chosen: list[list[int]] = []
    count = 0
    for place in dice.permutation(len(groups)):
        # A sentence that is repeated too often to fit stays in the training set.
        if count + len(groups[place]) <= wanted + 0.5 and len(chosen) + 1 < len(groups):
            chosen.append(groups[place])
            count += len(groups[place])
    return chosen


def _groups(columns: Sequence[Sequence[Hashable]]) -> list[int]:
    """Return the group of each row [N]; rows that share a key are connected (union-find)."""
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
