"""Reads a plan file and checks it before anything runs.

    {
      "note": "what it is",
      "out_dir": "runs/plans/mine",
      "seeds": [1, 2, 3],
      "data": {"src": "en", "tgt": "de", "train_prefix": "data/train", ...},
      "settings": {"max_steps": 1000},
      "metrics": ["bleu", "chrf", "ter"],
      "tests": {"news": "data/news/test", "own": "@test", "validation": "@dev"},
      "prepare": {"hparams": "../mixed.json", "mono": {"de": {"mono": "data/crawl", ...}}},
      "systems": [{"name": "cond", "hparams": "../cond.json", "settings": {...}, ...}, ...],
      "synthetic": {"crawl": {"model": "cond_de-en", "mono": "data/crawl", ...}},
      "tables": [{"rows": ["Model"], "columns": ["test", "metric"], "compare": "Model"}]
    }

plan_keys.py declares the keys. Paths of settings files are relative to the plan, those of data
to the working directory.
"""

import graphlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError, repeated
from aevnmt_tf.experiments import plan_keys, score_tables
from aevnmt_tf.experiments.plan_keys import (
    BackTranslation,
    ExperimentPlan,
    MonolingualText,
    PlannedSystem,
    PlannedTable,
    SharedText,
    must_know,
)
from aevnmt_tf.hparams import settings_files

OWN_TEST = "@test"  # the run's own test_prefix
OWN_DEV = "@dev"  # scores on dev during training
LABELS = ("system", "test", "metric")  # labels of every score
ABOUT_Z = ("kl", "active_units", "information", "iw_log_pxy", "bleu_other_z")
ONLY_DEV = (*ABOUT_Z, "elbo")
# Settings that the experiment sets, and the keys of a plan for them.
SET_HERE = {"out_dir": "out_dir of the plan", "random_seed": "seeds"}


def read(path: str | os.PathLike[str]) -> ExperimentPlan:
    """Return the plan in a file."""
    path = Path(path)
    layer = settings_files.read_one(path)
    values = plan_keys.checked(layer.values, ExperimentPlan, where=layer.where)
    _check_settings(values["data"], start=f"{path}, data: ", group="data")
    _check_settings(values["settings"], start=f"{path}, settings: ")
    systems = [_system(value, path=path, plan=values) for value in values["systems"]]
    twice = repeated(system.name for system in systems)
    if twice is not None:
        raise UserError(f"{path}: there are two systems called {twice}.")
    values["systems"] = {system.name: system for system in systems}
    values["prepare"] = _shared_text(values["prepare"], path=path)
    values["synthetic"] = {
        name: BackTranslation(
            name=name, **_part(value, BackTranslation, f"{path}, synthetic {name}: ")
        )
        for name, value in values["synthetic"].items()
    }
    values["tables"] = tuple(
        _table(value, start=f"{path}, table {number}: ", plan=values)
        for number, value in enumerate(values["tables"], 1)
    )
    plan = ExperimentPlan(path=path, **values)
    _check_references(plan)
    return plan


def _part(value: Mapping[str, Any], part: type, start: str) -> dict[str, Any]:
    return plan_keys.checked(value, part, where=lambda key: start)


def _check_settings(names: Iterable[str], *, start: str, group: str | None = None) -> None:
    """Refuse unknown settings, or those of other groups; loading them checks the values."""
    known = hparams.SETTINGS if group is None else [s.name for s in hparams.GROUPS[group]]
    must_know(names, known, what=f"{group or ''} setting".lstrip(), where=start)
    for name in names:
        if name in SET_HERE:
            raise UserError(f"{start}{name} is set by the experiment: use {SET_HERE[name]}.")


def _system(value: Mapping[str, Any], *, path: Path, plan: Mapping[str, Any]) -> PlannedSystem:
    name = value.get("name")
    start = f"{path}, system {name}: " if isinstance(name, str) else f"{path}, systems: "
    found = _part(value, PlannedSystem, start)
    _check_settings(found["settings"], start=start)
    _check_settings(found["grid"], start=f"{start}grid: ")
    must_know(found["tests"], plan["tests"], what="test set", where=f"{start}tests: ")
    both = set(found["grid"]) & set(found["settings"])
    if both:
        raise UserError(f"{start}{min(both)} is in both settings and grid: keep one of them.")
    found["hparams"] = found["hparams"] and path.parent / found["hparams"]
    found["seeds"] = found["seeds"] or plan["seeds"]
    found["grid_seeds"] = found["grid_seeds"] or found["seeds"][:1]
    found["tests"] = found["tests"] or tuple(plan["tests"])
    return PlannedSystem(**found)


def _shared_text(value: Mapping[str, Any] | None, *, path: Path) -> SharedText | None:
    if value is None:
        return None
    start = f"{path}, prepare: "
    found = _part(value, SharedText, start)
    _check_settings(found["settings"], start=start)
    found["hparams"] = found["hparams"] and path.parent / found["hparams"]
    found["mono"] = {
        lang: MonolingualText(**_part(text, MonolingualText, f"{start}mono {lang}: "))
        for lang, text in found["mono"].items()
    }
    return SharedText(**found)


def _table(value: Mapping[str, Any], *, start: str, plan: Mapping[str, Any]) -> PlannedTable:
    """Return a table of a plan file; each of its scores must have its own cell."""
    found = _part(value, PlannedTable, start)
    systems: Mapping[str, PlannedSystem] = plan["systems"]
    must_know(found["systems"], systems, what="system", where=start)
    must_know(found["tests"], plan["tests"], what="test set", where=start)
    wanted = found["systems"] or systems
    shown = [one for name, one in systems.items() if one.in_tables and name in wanted]
    parts = [*found["rows"], *found["columns"]]
    found["compare"] = compare = found["compare"] or next(
        (name for name in found["rows"][::-1] if name not in LABELS[1:]), None
    )
    labels = {*LABELS, *(label for one in systems.values() for label in one.labels)}
    for label in filter(None, [*parts, compare]):
        must_know([label], labels, what="label", where=start)
        for system in shown:
            if label not in (*LABELS, *system.labels):
                raise UserError(f"{start}system {system.name} has no label {label}.")
    twice = repeated(parts)
    if twice is not None:
        raise UserError(f"{start}{twice} occurs twice in rows and columns.")
    if compare is not None and compare not in parts:
        raise UserError(f"{start}compare must be a label of rows or columns, not {compare}.")
    found["systems"] = tuple(system.name for system in shown)
    found["tests"] = found["tests"] or tuple(plan["tests"])
    found["metrics"] = found["metrics"] or plan["metrics"]
    table = PlannedTable(**found)
    try:
        score_tables.by_place(
            _possible(table, shown, sets=plan["tests"]), rows=table.rows, columns=table.columns
        )
    except UserError as error:
        raise UserError(f"{start}{error}") from None
    return table


def _possible(
    table: PlannedTable, systems: Sequence[PlannedSystem], *, sets: Mapping[str, str]
) -> Iterator[score_tables.LabelledScore]:
    """Yield all scores that the table can have, without their values."""
    for system, test, metric in itertools.product(systems, table.tests, table.metrics):
        if test in system.tests and (metric not in ONLY_DEV or sets[test] == OWN_DEV):
            labels = {"system": system.name, "test": test, "metric": metric}
            yield score_tables.LabelledScore({**system.labels, **labels}, 0.0)


def _check_references(plan: ExperimentPlan) -> None:
    """Check the references from one part to another."""
    for name, synthetic in plan.synthetic.items():
        start, model = f"{plan.path}, synthetic {name}: ", synthetic.model
        must_know([model], plan.systems, what="system", where=start)
        if synthetic.seed not in plan.systems[model].seeds:
            seeds = ", ".join(map(str, plan.systems[model].seeds))
            raise UserError(f"{start}seed {synthetic.seed} is not a seed of {model}: {seeds}.")
        if synthetic.tag is not None and plan.prepare is not None:
            raise UserError(
                f"{start}tag {synthetic.tag} is not in the vocabularies of prepare, which are "
                "learnt before there is synthetic text: omit one of them."
            )
    for name, system in plan.systems.items():
        start = f"{plan.path}, system {name}: "
        given = {**plan.data, **plan.settings, **system.settings, **system.grid}
        if plan.prepare is not None and "vocab_prefix" in given:
            raise UserError(f"{start}vocab_prefix is set by prepare.")
        if system.synthetic is not None:
            must_know([system.synthetic], plan.synthetic, what="synthetic data", where=start)
            for key in ("synthetic_prefix", "synthetic_tag"):
                if key in given:
                    raise UserError(f"{start}{key} is set by synthetic {system.synthetic}.")
        if system.grid_of is not None:
            must_know([system.grid_of], plan.systems, what="system", where=start)
            if not plan.systems[system.grid_of].grid:
                raise UserError(f"{start}grid_of {system.grid_of}: that system has no grid.")
            if system.grid:
                raise UserError(f"{start}grid and grid_of exclude each other.")
    needs = {
        name: [*filter(None, [one.grid_of, _translator(plan, one)])]
        for name, one in plan.systems.items()
    }
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise UserError(
            f"{plan.path}: systems need each other in a circle: {circle}."
        ) from None


def _translator(plan: ExperimentPlan, system: PlannedSystem) -> str | None:
    """Return the system that back-translates the text of a system."""
    return None if system.synthetic is None else plan.synthetic[system.synthetic].model
