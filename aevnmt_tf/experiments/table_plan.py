"""The tables of a plan: which labels make rows and columns, and which scores are in them."""

import itertools
from dataclasses import dataclass

from aevnmt_tf.analysis import tables
from aevnmt_tf.errors import UserError
from aevnmt_tf.experiments import keys

OWN_DEV = "@dev"  # what training saw on dev
LABELS = ("system", "test", "metric")  # what every score has
ONLY_DEV = ("kl", "elbo", "active_units")


@dataclass(frozen=True)
class TablePlan:
    """A table: which labels make rows and columns, and which scores are in it."""

    caption: str
    label: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    compare: str | None
    systems: tuple[str, ...]
    tests: tuple[str, ...]
    metrics: tuple[str, ...]
    decimals: int


def read_table(number, value, *, path, plan, systems) -> TablePlan:
    """A table of a plan file, which must have a cell for each score."""
    start = f"{path}, table {number}: "
    found = keys.checked(value, keys.TABLE, where=lambda key: start)
    names = [system.name for system in systems]
    for name in found["systems"] or ():
        keys.must_know(name, names, f"{start}there is no system called {name}")
    for name in found["tests"] or ():
        keys.must_know(name, plan["tests"], f"{start}there is no test set called {name}")
    shown = [s for s in systems if s.in_tables and s.name in (found["systems"] or names)]
    labels = [*LABELS, *dict.fromkeys(label for s in systems for label in s.labels)]
    parts = [*found["rows"], *found["columns"]]
    compare = found["compare"] or next(
        (n for n in found["rows"][::-1] if n not in LABELS[1:]), None
    )
    for label in [*parts, *([compare] if compare else [])]:
        keys.must_know(label, labels, f"{start}there is no label called {label}")
        for system in shown:
            if label not in (*LABELS, *system.labels):
                raise UserError(f"{start}system {system.name} has no label {label}")
    for label in parts:
        if parts.count(label) > 1:
            raise UserError(f"{start}{label} stands twice in rows and columns")
    if compare is not None and compare not in parts:
        raise UserError(f"{start}compare must be a label of rows or columns, not {compare}")
    table = TablePlan(
        caption=found["caption"],
        label=found["label"],
        rows=tuple(found["rows"]),
        columns=tuple(found["columns"]),
        compare=compare,
        systems=tuple(system.name for system in shown),
        tests=tuple(found["tests"] or plan["tests"]),
        metrics=tuple(found["metrics"] or plan["metrics"]),
        decimals=found["decimals"],
    )
    try:
        tables.refuse_shared_cells(
            list(_labels(table, shown, sets=plan["tests"])),
            rows=table.rows,
            columns=table.columns,
        )
    except UserError as error:
        raise UserError(f"{start}{error}") from None
    return table


def _labels(table, systems, *, sets):
    """The labels of all scores that the table may have."""
    for system, test, metric in itertools.product(systems, table.tests, table.metrics):
        if test in system.tests and (metric not in ONLY_DEV or sets[test] == OWN_DEV):
            yield {**system.labels, "system": system.name, "test": test, "metric": metric}
