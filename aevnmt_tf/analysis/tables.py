"""Tables of scores: mean and spread over runs, the best in bold, as Markdown and JSON.

A score has labels, such as {"system": "cond_en-de", "Model": "Cond", "test": "WMT16",
"metric": "bleu"}. A table says which labels are its rows and which its columns.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aevnmt_tf.errors import UserError

# What is written over a column, and which way is better (0: neither).
METRICS = {
    "bleu": ("BLEU", 1),
    "chrf": ("chrF", 1),
    "ter": ("TER", -1),
    "meteor": ("METEOR", 1),
    "beer": ("BEER", 1),
    "kl": ("KL", 0),
    "elbo": ("ELBO", 1),
    "active_units": ("active units", 0),
}
ARROWS = {1: " ↑", -1: " ↓", 0: ""}
NOTHING = "–"

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Score:
    """One number of one run, with the labels that say what it is."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Cell:
    """The values of a cell, one for each run, and what they are values of."""

    metric: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Their standard deviation with n - 1, None for a single value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def spread(self, *, decimals: int) -> str:
        """What stands in brackets: nothing for one run, a range for two, else 1 std."""
        if len(self.values) == 1:
            return ""
        if len(self.values) == 2:
            low, high = (f"{value:.{decimals}f}" for value in sorted(self.values))
            return f"{low}–{high}" if min(self.values) >= 0 else f"{low} to {high}"
        return f"{self.std:.{decimals}f}"


@dataclass(frozen=True)
class Table:
    """A table of cells; `row_names` and `column_names` are the labels that it is made of.

    `compare` is the label whose values compete for bold; None: no bold.
    """

    row_names: Labels
    column_names: Labels
    rows: tuple[Labels, ...]
    columns: tuple[Labels, ...]
    cells: Mapping[tuple[Labels, Labels], Cell]
    compare: str | None = None
    decimals: int = 1
    caption: str = ""
    label: str = ""
    best: frozenset = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "best", self._best())

    def _best(self) -> frozenset:
        """The places of the best cells: equal as printed is equally good."""
        rivals: dict[Any, list[tuple[Labels, Labels]]] = {}
        for (row, column), cell in self.cells.items():
            labels = dict(zip(self.row_names, row, strict=True))
            labels |= dict(zip(self.column_names, column, strict=True))
            labels.pop(self.compare, None)
            rivals.setdefault((cell.metric, *labels.items()), []).append((row, column))
        best = set()
        for (metric, *_), places in rivals.items():
            way = METRICS.get(metric, (metric, 0))[1]
            if self.compare is None or way == 0 or len(places) < 2:
                continue
            rounded = {p: way * float(self._number(self.cells[p].mean)) for p in places}
            best |= {
                place for place, value in rounded.items() if value == max(rounded.values())
            }
        return frozenset(best)

    def _number(self, value: float) -> str:
        return f"{value:.{self.decimals}f}"

    def to_markdown(self) -> str:
        """The table in GitHub's Markdown, without the caption."""
        head = [*self.row_names, *(_head(self.column_names, c) for c in self.columns)]
        lines = [head, ["---"] * len(self.row_names) + ["---:"] * len(self.columns)]
        for row in self.rows:
            cells = [self._markdown_cell(row, column) for column in self.columns]
            lines.append([*map(shown, self.row_names, row), *cells])
        return "".join(f"| {' | '.join(map(_bar_free, line))} |\n" for line in lines)

    def _markdown_cell(self, row: Labels, column: Labels) -> str:
        cell = self.cells.get((row, column))
        if cell is None:
            return NOTHING
        spread = cell.spread(decimals=self.decimals)
        text = self._number(cell.mean) + (f" ({spread})" if spread else "")
        return f"**{text}**" if (row, column) in self.best else text

    def to_dict(self) -> dict[str, Any]:
        """The table as JSON holds it; `from_dict` reads it back."""
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
    def from_dict(cls, values: Mapping[str, Any]) -> "Table":
        """The table that `to_dict` has described; means and bold are worked out again."""
        cells = {
            (tuple(cell["row"]), tuple(cell["column"])): Cell(
                cell["metric"], tuple(cell["values"])
            )
            for cell in values["cells"]
        }
        return cls(
            row_names=tuple(values["row_names"]),
            column_names=tuple(values["column_names"]),
            rows=tuple(map(tuple, values["rows"])),
            columns=tuple(map(tuple, values["columns"])),
            cells=cells,
            compare=values["compare"],
            decimals=values["decimals"],
            caption=values["caption"],
            label=values["label"],
        )


def pivot(
    scores: Sequence[Score],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    compare: str | None = None,
    **options: Any,
) -> Table:
    """The table of the scores; rows and columns stand in the order of their first scores.

    Args:
        scores: the numbers; their labels have "system", "test", "metric" and others.
        rows: the labels that make a row.
        columns: the labels that make a column.
        compare: the label whose values compete for bold.
        options: decimals, caption and label of the Table.
    """
    refuse_shared_cells([score.labels for score in scores], rows=rows, columns=columns)
    cells: dict[tuple[Labels, Labels], list[Score]] = {}
    for score in scores:
        cells.setdefault(_place(score.labels, rows, columns), []).append(score)
    return Table(
        row_names=tuple(rows),
        column_names=tuple(columns),
        rows=_in_order(row for row, _ in cells),
        columns=_in_order(column for _, column in cells),
        cells={
            place: Cell(found[0].labels["metric"], tuple(score.value for score in found))
            for place, found in cells.items()
        },
        compare=compare,
        **options,
    )


def refuse_shared_cells(
    labels: Iterable[Mapping[str, str]], *, rows: Sequence[str], columns: Sequence[str]
) -> None:
    """A UserError where scores of different systems, tests or metrics have one cell."""
    cells: dict[tuple[Labels, Labels], list[Mapping[str, str]]] = {}
    for one in labels:
        cells.setdefault(_place(one, rows, columns), []).append(one)
    for place, found in cells.items():
        for name in ("system", "test", "metric"):
            values = list(dict.fromkeys(one[name] for one in found))
            if len(values) > 1:
                where = ", ".join(itself for part in place for itself in part)
                raise UserError(
                    f"{name}s {values[0]} and {values[1]} fall into one cell of the table "
                    f"({where}): tell them apart by a label in rows or columns"
                )


def _place(labels, rows, columns) -> tuple[Labels, Labels]:
    row, column = (tuple(labels[name] for name in names) for names in (rows, columns))
    return row, column


def _in_order(places: Iterable[Labels]) -> tuple[Labels, ...]:
    """The different places; those with equal first labels stand together."""
    different = list(dict.fromkeys(places))
    first: dict[Labels, int] = {}
    for number, place in enumerate(different):
        for depth in range(len(place)):
            first.setdefault(place[: depth + 1], number)
    return tuple(sorted(different, key=lambda p: [first[p[: d + 1]] for d in range(len(p))]))


def shown(name: str, text: str) -> str:
    """What is printed for a label: metrics have a name and an arrow."""
    if name != "metric" or text not in METRICS:
        return text
    word, way = METRICS[text]
    return word + ARROWS[way]


def _head(names: Labels, column: Labels) -> str:
    return " ".join(map(shown, names, column))


def _bar_free(text: str) -> str:
    # A bar would end the cell.
    return text.replace("|", "\\|")
