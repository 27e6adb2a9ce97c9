"""Tables of scores: mean and spread over runs, and which cells are best.

A score has labels, such as {"system": "cond_en-de", "Model": "Cond", "test": "WMT16",
"metric": "bleu"}. Some labels make the rows of a table and others its columns. A table is a
dictionary in the format of results.json; result_pages.py prints it.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import metrics

# Title of each metric, and which direction is better (0: neither).
METRICS = {
    **{n: (title, -1 if n.startswith("ter") else 1) for n, title in metrics.TITLES.items()},
    "kl": ("KL", 0),
    "elbo": ("ELBO", 1),
    "active_units": ("active units", 0),
    "information": ("information", 0),
    "iw_log_pxy": ("IW bound", 1),
    "bleu_other_z": ("BLEU, other z", 0),
}

Labels = tuple[str, ...]
Place = tuple[Labels, Labels]  # row and column of a cell
Table = dict[str, Any]


class LabelledScore(NamedTuple):
    """One number of one run, with the labels that describe it."""

    labels: Mapping[str, str]
    value: float
    seed: int | None = None


def pivot(
    scores: Iterable[LabelledScore],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    compare: str | None = None,
    decimals: int = 1,
    caption: str = "",
    label: str = "",
) -> Table:
    """Return the table of the scores; rows and columns keep the order of the scores.

    The labels of scores include "system", "test" and "metric". The keyword arguments are the
    keys of a table in a plan. Without `compare`, no cell is best.
    """
    cells = by_place(scores, rows=rows, columns=columns)
    table = {
        "caption": caption,
        "label": label,
        "row_names": list(rows),
        "column_names": list(columns),
        "rows": _in_order(row for row, _ in cells),
        "columns": _in_order(column for _, column in cells),
        "compare": compare,
        "decimals": decimals,
        "cells": [_cell(place, found) for place, found in cells.items()],
    }
    for group in rivals(table):
        direction = METRICS.get(group[0]["metric"], ("", 0))[1]
        # Values that are equal as printed are equally good.
        values = [direction * round(cell["mean"], decimals) for cell in group]
        for cell, value in zip(group, values, strict=True):
            cell["best"] = direction != 0 and value == max(values)
    return table


def by_place(
    scores: Iterable[LabelledScore], *, rows: Sequence[str], columns: Sequence[str]
) -> dict[Place, list[LabelledScore]]:
    """Return the scores of each cell; a UserError if a cell mixes systems, tests or metrics."""
    cells: dict[Place, list[LabelledScore]] = {}
    for score in scores:
        row, column = (tuple(score.labels[name] for name in part) for part in (rows, columns))
        cells.setdefault((row, column), []).append(score)
    for place, found in cells.items():
        for name in ("system", "test", "metric"):
            values = list(dict.fromkeys(score.labels[name] for score in found))
            if len(values) > 1:
                where = ", ".join([*place[0], *place[1]])
                raise UserError(
                    f"{name}s {values[0]} and {values[1]} share a cell of the table ({where}): "
                    "add a label that distinguishes them to rows or columns."
                )
    return cells


def _cell(place: Place, scores: Sequence[LabelledScore]) -> dict[str, Any]:
    values = [score.value for score in scores]
    return {
        "row": list(place[0]),
        "column": list(place[1]),
        "metric": scores[0].labels["metric"],
        "values": values,
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "min": min(values),
        "max": max(values),
        "best": False,
    }


def rivals(table: Table) -> list[list[dict[str, Any]]]:
    """Return the groups of cells that differ only in the compared label."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    names = [*table["row_names"], *table["column_names"]]
    for cell in table["cells"] if table["compare"] else ():
        labels = zip(names, [*cell["row"], *cell["column"]], strict=True)
        others = [item for item in labels if item[0] != table["compare"]]
        groups.setdefault((cell["metric"], *others), []).append(cell)
    return [cells for cells in groups.values() if len(cells) > 1]


def _in_order(places: Iterable[Labels]) -> list[list[str]]:
    """Return the distinct rows or columns; those with equal first labels are adjacent."""
    distinct = list(dict.fromkeys(places))
    first: dict[Labels, int] = {}
    for number, place in enumerate(distinct):
        for depth in range(len(place)):
            first.setdefault(place[: depth + 1], number)
    distinct.sort(key=lambda place: [first[place[: d + 1]] for d in range(len(place))])
    return [list(place) for place in distinct]
