"""Tables of scores: mean and spread over runs, and which are the best.

A score has labels, such as {"system": "cond_en-de", "Model": "Cond", "test": "WMT16",
"metric": "bleu"}. A table says which labels are its rows and which its columns.
"""

import functools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import metrics

# What is written over a column, and which way is better (0: neither).
METRICS = {
    **{n: (title, -1 if n.startswith("ter") else 1) for n, title in metrics.TITLES.items()},
    "kl": ("KL", 0),
    "elbo": ("ELBO", 1),
    "active_units": ("active units", 0),
    "information": ("information", 0),
    "iw_log_pxy": ("IW bound", 1),
    "bleu_other_z": ("BLEU, other z", 0),
}
ARROWS = {1: " ↑", -1: " ↓", 0: ""}

Labels = tuple[str, ...]
Place = tuple[Labels, Labels]  # of a cell: row and column


@dataclass(frozen=True)
class LabelledScore:
    """One number of one run, with the labels that say what it is."""

    labels: Mapping[str, str]
    value: float
    seed: int | None = None


@dataclass(frozen=True)
class ScoreCell:
    """The values of a cell, one for each run, and what they are values of.

    System, test set and seeds are known where the scores have just been collected.
    """

    metric: str
    values: tuple[float, ...]
    system: str = field(default="", compare=False)
    test: str = field(default="", compare=False)
    seeds: tuple[int | None, ...] = field(default=(), compare=False)

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Their standard deviation with n - 1, None for a single value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def spread(self, *, decimals: int) -> str:
        """Return what stands in brackets: nothing for one run, a range for two, else 1 std."""
        if len(self.values) == 1:
            return ""
        if len(self.values) == 2:
            low, high = (f"{value:.{decimals}f}" for value in sorted(self.values))
            return f"{low}–{high}" if min(self.values) >= 0 else f"{low} to {high}"
        return f"{self.std:.{decimals}f}"


@dataclass(frozen=True)
class ScoreTable:
    """A table of cells; `row_names` and `column_names` are the labels that it is made of.

    `compare` is the label whose values compete for bold; None: no bold.
    """

    row_names: Labels
    column_names: Labels
    cells: Mapping[Place, ScoreCell]
    compare: str | None = None
    decimals: int = 1
    caption: str = ""
    label: str = ""

    @property
    def rows(self) -> tuple[Labels, ...]:
        """The labels of the rows."""
        return _in_order(row for row, _ in self.cells)

    @property
    def columns(self) -> tuple[Labels, ...]:
        """The labels of the columns."""
        return _in_order(column for _, column in self.cells)

    def labels(self, place: Place) -> dict[str, str]:
        """Return the labels of a cell by name."""
        return dict(zip((*self.row_names, *self.column_names), sum(place, ()), strict=True))

    def rivals(self) -> list[list[Place]]:
        """Return the groups of cells that differ in the compared label alone."""
        groups: dict[Any, list[Place]] = {}
        for place, cell in self.cells.items() if self.compare else ():
            others = [item for item in self.labels(place).items() if item[0] != self.compare]
            groups.setdefault((cell.metric, *others), []).append(place)
        return [places for places in groups.values() if len(places) > 1]

    @functools.cached_property
    def best(self) -> frozenset[Place]:
        """The places of the best cells: equal as printed is equally good."""
        best: set[Place] = set()
        for places in self.rivals():
            way = METRICS.get(self.cells[places[0]].metric, ("", 0))[1]
            rounded = {p: way * float(self.number(self.cells[p].mean)) for p in places}
            best |= {p for p in places if way and rounded[p] == max(rounded.values())}
        return frozenset(best)

    def number(self, value: float) -> str:
        """Return a number as the table prints it."""
        return f"{value:.{self.decimals}f}"

    def text(self, place: Place) -> str | None:
        """Return what stands in a cell, without bold; None: nothing."""
        cell = self.cells.get(place)
        if cell is None:
            return None
        spread = cell.spread(decimals=self.decimals)
        return self.number(cell.mean) + (f" ({spread})" if spread else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON holds it; `from_dict` reads it back."""
        return {
            "caption": self.caption,
            "label": self.label,
            "row_names": list(self.row_names),
            "column_names": list(self.column_names),
            "rows": [list(row) for row in self.rows],
            "columns": [list(column) for column in self.columns],
            "compare": self.compare,
            "decimals": self.decimals,
            "cells": [
                {
                    "row": list(row),
                    "column": list(column),
                    "metric": cell.metric,
                    "values": list(cell.values),
                    "mean": cell.mean,
                    "std": cell.std,
                    "min": min(cell.values),
                    "max": max(cell.values),
                    "best": (row, column) in self.best,
                }
                for (row, column), cell in self.cells.items()
            ],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ScoreTable":
        """Return the table that `to_dict` has described; bold is worked out again."""
        cells = {
            (tuple(cell["row"]), tuple(cell["column"])): ScoreCell(
                cell["metric"], tuple(cell["values"])
            )
            for cell in values["cells"]
        }
        return cls(
            row_names=tuple(values["row_names"]),
            column_names=tuple(values["column_names"]),
            cells=cells,
            **{name: values[name] for name in ("compare", "decimals", "caption", "label")},
        )


def pivot(
    scores: Sequence[LabelledScore],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    compare: str | None = None,
    **options: Any,
) -> ScoreTable:
    """Return the table of the scores; rows and columns are in the order of first scores.

    Args:
        scores: the numbers; their labels have "system", "test", "metric" and others.
        rows: the labels that make a row.
        columns: the labels that make a column.
        compare: the label whose values compete for bold.
        options: decimals, caption and label of the ScoreTable.
    """
    refuse_shared_cells([score.labels for score in scores], rows=rows, columns=columns)
    cells: dict[Place, list[LabelledScore]] = {}
    for score in scores:
        cells.setdefault(_place(score.labels, rows, columns), []).append(score)
    return ScoreTable(
        row_names=tuple(rows),
        column_names=tuple(columns),
        cells={
            place: ScoreCell(
                values=tuple(score.value for score in found),
                seeds=tuple(score.seed for score in found),
                **{name: found[0].labels[name] for name in ("metric", "system", "test")},
            )
            for place, found in cells.items()
        },
        compare=compare,
        **options,
    )


def refuse_shared_cells(
    labels: Iterable[Mapping[str, str]], *, rows: Sequence[str], columns: Sequence[str]
) -> None:
    """Raise a UserError where scores of different systems, tests or metrics have one cell."""
    cells: dict[Place, list[Mapping[str, str]]] = {}
    for one in labels:
        cells.setdefault(_place(one, rows, columns), []).append(one)
    for place, found in cells.items():
        for name in ("system", "test", "metric"):
            values = list(dict.fromkeys(one[name] for one in found))
            if len(values) > 1:
                where = ", ".join(itself for part in place for itself in part)
                raise UserError(
                    f"{name}s {values[0]} and {values[1]} fall into one cell of the table "
                    f"({where}): tell them apart by a label in rows or columns."
                )


def _place(labels: Mapping[str, str], rows: Sequence[str], columns: Sequence[str]) -> Place:
    row, column = (tuple(labels[name] for name in names) for names in (rows, columns))
    return row, column


def _in_order(places: Iterable[Labels]) -> tuple[Labels, ...]:
    """Return the different places; those with equal first labels stand together."""
    different = list(dict.fromkeys(places))
    first: dict[Labels, int] = {}
    for number, place in enumerate(different):
        for depth in range(len(place)):
            first.setdefault(place[: depth + 1], number)
    return tuple(sorted(different, key=lambda p: [first[p[: d + 1]] for d in range(len(p))]))


def shown(name: str, text: str) -> str:
    """Return what is printed for a label: metrics have a name and an arrow."""
    if name != "metric" or text not in METRICS:
        return text
    word, way = METRICS[text]
    return word + ARROWS[way]
