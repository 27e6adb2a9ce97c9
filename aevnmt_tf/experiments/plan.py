"""A plan file: systems, data, seeds, test sets and tables, checked before anything runs.

    {
      "note": "what it is",
      "out_dir": "runs/plans/mine",         tables, plots and logs; the flag --out beats it
      "runs_dir": "runs/mine",              the runs, which plans may share; null: OUT/runs
      "seeds": [1, 2, 3],
      "data": {"src": "en", "tgt": "de", "train_prefix": "data/train", ...},
      "settings": {"max_steps": 1000},      for all systems
      "metrics": ["bleu", "chrf", "ter"],   also kl, elbo, active_units of @dev
      "tests": {"news": "data/news/test", "own": "@test", "validation": "@dev"},
      "systems": [{"name": "cond", "hparams": "../cond.json", "settings": {...}, ...}, ...],
      "synthetic": {"crawl": {"model": "cond_de-en", "mono": "data/crawl", ...}},
      "tables": [{"rows": ["Model"], "columns": ["test", "metric"], "compare": "Model"}]
    }

keys.py lists the keys of each part. A settings file is found relative to the plan, data as
always relative to where the command is started.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams, hparams_files
from aevnmt_tf.errors import UserError
from aevnmt_tf.experiments import keys
from aevnmt_tf.experiments.table_plan import TablePlan, read_table

OWN_TEST = "@test"  # the run's own test_prefix


@dataclass(frozen=True)
class System:
    """A system: a settings file, what changes in it, and the seeds of its runs.

    Attributes:
      name: what its folder is called.
      hparams: the settings file; None: the defaults.
      settings: what the plan changes for this system.
      seeds: one run for each.
      tests: the names of the test sets it is evaluated on.
      labels: what tables call it.
      in_tables: whether it stands in tables.
      grid: values to try, by setting; the best on dev is what the seeds run with.
      grid_seeds: with which seeds the grid is searched; the mean decides.
      grid_of: another system, whose choice is taken over.
      synthetic: the name of a back-translation to train on, too.
    """

    name: str
    hparams: Path | None
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    tests: tuple[str, ...]
    labels: Mapping[str, str]
    in_tables: bool
    grid: Mapping[str, list]
    grid_seeds: tuple[int, ...]
    grid_of: str | None
    synthetic: str | None


@dataclass(frozen=True)
class Synthetic:
    """A back-translation: text of the target language, translated by a model of the plan.

    Attributes:
      name: what its folder is called.
      model: the system that translates, from target to source.
      seed: which of its runs.
      mono: the prefix of the text; its ending is the source language of the model.
      num_lines: how many lines of it are drawn; None: all.
      search: beam or greedy.
      tag: the token in front of synthetic sources; None: none.
    """

    name: str
    model: str
    seed: int
    mono: str
    num_lines: int | None
    search: str
    tag: str | None


@dataclass(frozen=True)
class Plan:
    """A plan file that has been checked."""

    path: Path
    note: str | None
    out_dir: str | None
    runs_dir: str | None
    data: Mapping[str, Any]
    settings: Mapping[str, Any]
    metrics: tuple[str, ...]
    tests: Mapping[str, str]
    systems: Mapping[str, System]
    synthetic: Mapping[str, Synthetic]
    tables: tuple[TablePlan, ...]
    raw: Mapping[str, Any]

    def with_tests(self, names) -> "Plan":
        """The plan with these test sets alone, and with the tables that have one of them."""
        for name in names:
            keys.must_know(name, self.tests, f"{self.path}: there is no test set called {name}")

        def some(part):
            return replace(part, tests=tuple(name for name in part.tests if name in names))

        tables = [some(table) for table in self.tables]
        return replace(
            self,
            tests={name: prefix for name, prefix in self.tests.items() if name in names},
            systems={name: some(system) for name, system in self.systems.items()},
            tables=tuple(table for table in tables if table.tests),
        )

    def settings_of(self, system: System, **changes: Any) -> hparams.Hparams:
        """The settings of a system: its file < data < settings < its own < changes."""
        layers = {**self.data, **self.settings, **system.settings, **changes}
        try:
            return hparams.load(system.hparams, **layers)
        except UserError as error:
            raise UserError(f"{self.path}, system {system.name}: {error}") from None


def read(path) -> Plan:
    """The plan of a file."""
    path = Path(path)
    layer = hparams_files.read_one(path)
    values = keys.checked(layer.values, keys.PLAN, where=layer.where, needed=["systems"])
    keys.check_settings(values["data"], where=f"{path}, data: ", groups=["data"])
    keys.check_settings(values["settings"], where=f"{path}, settings: ")
    systems = [_system(value, path=path, plan=values) for value in values["systems"]]
    names = [system.name for system in systems]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{path}: there are two systems called {name}")
    plan = Plan(
        path=path,
        note=values["note"],
        out_dir=values["out_dir"],
        runs_dir=values["runs_dir"],
        data=values["data"],
        settings=values["settings"],
        metrics=tuple(values["metrics"]),
        tests=values["tests"],
        systems={system.name: system for system in systems},
        synthetic={n: _synthetic(n, v, path=path) for n, v in values["synthetic"].items()},
        tables=tuple(
            read_table(number, value, path=path, plan=values, systems=systems)
            for number, value in enumerate(values["tables"], 1)
        ),
        raw=layer.values,
    )
    _check_references(plan)
    return plan


def _system(value, *, path, plan) -> System:
    name = value.get("name")
    start = f"{path}, system {name}: " if isinstance(name, str) else f"{path}, systems: "
    found = keys.checked(value, keys.SYSTEM, where=lambda key: start, needed=["name"])
    keys.check_settings(found["settings"], where=start)
    keys.check_settings(found["grid"], where=f"{start}grid: ")
    for test in found["tests"] or ():
        keys.must_know(test, plan["tests"], f"{start}tests: there is no test set called {test}")
    both = set(found["grid"]) & set(found["settings"])
    if both:
        raise UserError(f"{start}{min(both)} stands in settings and in grid: keep one of them")
    seeds = tuple(found["seeds"] or plan["seeds"])
    return System(
        name=found["name"],
        hparams=None if found["hparams"] is None else path.parent / found["hparams"],
        settings=found["settings"],
        seeds=seeds,
        tests=tuple(found["tests"] or plan["tests"]),
        labels=found["labels"],
        in_tables=found["in_tables"],
        grid=found["grid"],
        grid_seeds=tuple(found["grid_seeds"] or seeds[:1]),
        grid_of=found["grid_of"],
        synthetic=found["synthetic"],
    )


def _synthetic(name, value, *, path) -> Synthetic:
    start = f"{path}, synthetic {name}: "
    needed = ["model", "mono"]
    found = keys.checked(value, keys.SYNTHETIC, where=lambda key: start, needed=needed)
    del found["note"]
    # Which of several runs translates is the plan's choice; one that has no say takes 1.
    return Synthetic(
        name=name, **{**found, "seed": 1 if found["seed"] is None else found["seed"]}
    )


def _check_references(plan: Plan) -> None:
    """What one part says about another."""
    for name, synthetic in plan.synthetic.items():
        start = f"{plan.path}, synthetic {name}: "
        model = synthetic.model
        keys.must_know(model, plan.systems, f"{start}there is no system called {model}")
        if synthetic.seed not in plan.systems[model].seeds:
            seeds = ", ".join(map(str, plan.systems[model].seeds))
            raise UserError(f"{start}seed {synthetic.seed} is none of {model}'s: {seeds}")
    for name, system in plan.systems.items():
        start = f"{plan.path}, system {name}: "
        if system.synthetic is not None:
            sentence = f"{start}there is no synthetic data called {system.synthetic}"
            keys.must_know(system.synthetic, plan.synthetic, sentence)
            for key in ("synthetic_prefix", "synthetic_tag"):
                if key in {**plan.data, **plan.settings, **system.settings, **system.grid}:
                    raise UserError(f"{start}{key} is set by synthetic {system.synthetic}")
        if system.grid_of is not None:
            other = system.grid_of
            keys.must_know(other, plan.systems, f"{start}there is no system called {other}")
            if not plan.systems[other].grid:
                raise UserError(f"{start}grid_of {other}: that system has no grid")
            if system.grid:
                raise UserError(f"{start}grid and grid_of exclude each other")
        _refuse_circles(plan, name, ())


def _refuse_circles(plan: Plan, name: str, path: tuple[str, ...]) -> None:
    if name in path:
        circle = " -> ".join([*path[path.index(name) :], name])
        raise UserError(f"{plan.path}: systems need each other in a circle: {circle}")
    system = plan.systems[name]
    needed = [system.grid_of] if system.grid_of else []
    needed += [plan.synthetic[system.synthetic].model] if system.synthetic else []
    for other in needed:
        _refuse_circles(plan, other, (*path, name))
