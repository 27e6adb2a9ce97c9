"""The runs of an experiment: their settings, where they are, and how far they are.

RUNS/SYSTEM/seed1/                      a run's directory, as train makes it
RUNS/SYSTEM/dropout=0.3/seed1/          the same for a point of a grid
RUNS/SYSTEM/seed1/tests/NAME.json       the scores on a test set
RUNS/synthetic/NAME/                    back-translated text
OUT/logs/  OUT/settings/                what each run printed, and what it was started with
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams, run_directory
from aevnmt_tf.errors import UserError
from aevnmt_tf.experiments.plan import Plan, Synthetic, System

SYNTHETIC = "synthetic"
TESTS = "tests"
# A run may be moved, its note be reworded, and training never reads the test set. The others do
# not change what is learnt or found.
UNREMARKABLE = (
    *("out_dir", "note", "test_prefix"),
    *("infer_batch_size", "jit_compile", "distribute"),
)
BUDGETS = ("max_steps", "max_minutes")  # they may change as long as a run keeps to them


@dataclass(frozen=True)
class Run:
    """One training run: a system with a seed, and with a point of its grid if it has one."""

    system: System
    seed: int
    point: Mapping[str, Any]
    hp: hparams.Hparams
    name: str

    @property
    def folder(self) -> Path:
        """The run's directory."""
        assert self.hp.out_dir is not None
        return Path(self.hp.out_dir)

    def results(self) -> dict[str, Any] | None:
        """What results.json holds; None where it is missing."""
        return read_json(self.folder / run_directory.RESULTS)

    def is_finished(self) -> bool:
        """Whether results.json is there, is of the last checkpoint and of these settings."""
        results = self.results()
        if results is None or not (self.folder / run_directory.HPARAMS).is_file():
            return False
        # A run that goes on with more steps leaves the old results until it ends.
        steps = [
            run_directory.step_of(folder)
            for folder in run_directory.listing(self.folder / run_directory.CHECKPOINTS)
        ]
        is_last = not steps or steps[-1] == results.get("step")
        return is_last and not self.changes() and not self._goes_on(results)

    def _goes_on(self, results: Mapping[str, Any]) -> bool:
        """Whether training would make more updates with the settings of now."""
        budget = cut_by(results)
        if budget is None:
            return results.get("step", 0) < self.hp.num_train_steps
        limit = getattr(self.hp, budget)
        return limit is None or _used(results)[budget] < limit

    def changes(self) -> dict[str, tuple[Any, Any]]:
        """The settings that the folder was made with others: name -> (there, here)."""
        path = self.folder / run_directory.HPARAMS
        if not path.is_file():
            return {}
        there, here = hparams.load(path).to_dict(), self.hp.to_dict()
        kept_to = [
            name
            for name, used in _used(self.results() or {}).items()
            if here[name] is None or used <= here[name]
        ]
        return {
            name: (there[name], here[name])
            for name in here
            if there[name] != here[name] and name not in (*UNREMARKABLE, *kept_to)
        }

    def refuse_changes(self) -> None:
        """A UserError where the folder holds a run with other settings."""
        changes = self.changes()
        if changes:
            shown = ", ".join(
                f"{name}: {json.dumps(there)} there, {json.dumps(here)} now"
                for name, (there, here) in changes.items()
            )
            raise UserError(
                f"{self.folder} holds a run with other settings ({shown}); choose another "
                "--out, or remove it to train again"
            )


class Runs:
    """All runs of a plan.

    Args:
        plan: the plan.
        folder: where the runs are.
        overrides: settings that beat the plan's, for every run.
        seeds: seeds that beat the plan's; None: the plan's.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        *,
        overrides: Mapping[str, Any] | None = None,
        seeds: Sequence[int] | None = None,
    ):
        self.plan, self.folder = plan, Path(folder)
        self._overrides, self._seeds = dict(overrides or {}), seeds
        if "," in str(folder):
            raise UserError(f"{folder} has a comma, which separates runs: choose another --out")
        for system in plan.systems.values():
            if system.name == SYNTHETIC:
                raise UserError(f"{plan.path}: a system cannot be called {SYNTHETIC}")
            both = set(system.grid) & set(self._overrides)
            if both:
                raise UserError(
                    f"--{min(both)}: {plan.path} searches for the best {min(both)} of system "
                    f"{system.name}; leave the flag out"
                )

    def seeds_of(self, system: System) -> tuple[int, ...]:
        """The seeds that a system is trained with."""
        return tuple(self._seeds or system.seeds)

    def points(self, system: System) -> list[dict[str, Any]]:
        """The points of a system's grid, in order; none without a grid."""
        if not system.grid:
            return []
        found = itertools.product(*system.grid.values())
        return [dict(zip(system.grid, values, strict=True)) for values in found]

    def chosen(self, system: System) -> dict[str, Any] | None:
        """The best point on dev of the grid that a system follows; None: not yet known.

        The first of equals is taken. A system without a grid has the empty point.
        """
        if system.grid_of is not None:
            return self.chosen(self.plan.systems[system.grid_of])
        if not system.grid:
            return {}
        found = [(self.dev_bleu(system, point), point) for point in self.points(system)]
        if any(bleu is None for bleu, _ in found):
            return None
        return max(found, key=lambda pair: pair[0])[1]

    def dev_bleu(self, system: System, point: Mapping[str, Any]) -> float | None:
        """The mean best dev BLEU of a point over the grid's seeds; None: not yet known."""
        found = []
        for seed in system.grid_seeds:
            run = self.run(system, seed=seed, point=point)
            results = run.results() if run.is_finished() else None
            best = (results or {}).get("best")
            if not best:
                return None
            found.append(best["dev_bleu"])
        return sum(found) / len(found)

    def run(self, system: System, *, seed: int, point: Mapping[str, Any]) -> Run:
        """The run of a system with a seed and a point of its grid ({}: none)."""
        name = "/".join([system.name, *([point_name(point)] if point else []), f"seed{seed}"])
        changes = {**point, **self._overrides}
        if system.synthetic is not None:
            synthetic = self.plan.synthetic[system.synthetic]
            changes["synthetic_prefix"] = str(self.synthetic_prefix(synthetic))
            changes["synthetic_tag"] = synthetic.tag
        changes.update(random_seed=seed, out_dir=str(self.folder / name))
        hp = self.plan.settings_of(system, **changes)
        return Run(system=system, seed=seed, point=dict(point), hp=hp, name=name)

    def final_runs(self, system: System) -> Iterator[Run]:
        """The runs of a system that stand in tables, as far as its settings are known."""
        point = self.chosen(system)
        if point is not None:
            for seed in self.seeds_of(system):
                yield self.run(system, seed=seed, point=point)

    def grid_runs(self, system: System) -> Iterator[Run]:
        """The runs that search a system's grid."""
        for point in self.points(system):
            for seed in system.grid_seeds:
                yield self.run(system, seed=seed, point=point)

    def synthetic_prefix(self, synthetic: Synthetic) -> Path:
        """The prefix of back-translated text."""
        return self.folder / SYNTHETIC / synthetic.name / "train"

    def check(self) -> None:
        """A UserError where settings are bad or a folder holds another run."""
        for system in self.plan.systems.values():
            points = self.points(system)
            names = [point_name(point) for point in points]
            for name in names:
                if names.count(name) > 1:
                    raise UserError(
                        f"{self.plan.path}, system {system.name}: two points of the grid are "
                        f"called {name}"
                    )
            follows = self.plan.systems[system.grid_of] if system.grid_of else None
            for point in points or (self.points(follows) if follows else [{}]):
                for seed in self.seeds_of(system):
                    self.run(system, seed=seed, point=point).refuse_changes()
        for synthetic in self.plan.synthetic.values():
            self._check_direction(synthetic)

    def _check_direction(self, synthetic: Synthetic) -> None:
        """A model that makes synthetic sources must translate from target to source."""
        model = self.plan.systems[synthetic.model]
        point = self.points(model)[:1] or [{}]
        back = self.run(model, seed=synthetic.seed, point=point[0]).hp
        for system in self.plan.systems.values():
            if system.synthetic != synthetic.name:
                continue
            there = self.run(system, seed=1, point={}).hp
            if (there.src, there.tgt) != (back.tgt, back.src):
                raise UserError(
                    f"{self.plan.path}, system {system.name}: it translates {there.src} to "
                    f"{there.tgt}, so that synthetic {synthetic.name} needs a model from "
                    f"{there.tgt} to {there.src}; {model.name} is one from {back.src} to "
                    f"{back.tgt}"
                )


def point_name(point: Mapping[str, Any]) -> str:
    """What the folder of a grid's point is called: dropout=0.3+word_dropout=0.1."""
    parts = [f"{name}={_plain(value)}" for name, value in point.items()]
    # Without commas: where a command takes runs, a comma separates them.
    return re.sub(r"[^A-Za-z0-9_.=+-]", "_", "+".join(parts))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def cut_by(results: Mapping[str, Any]) -> str | None:
    """Which budget has ended a run, by its results.json; None: it came to its own end."""
    reason = results.get("reason") or ""
    return next((name for name in BUDGETS if reason.startswith(name)), None)


def _used(results: Mapping[str, Any]) -> dict[str, float]:
    """How much of each budget a run has used."""
    minutes = results.get("wall_time_seconds", 0.0) / 60
    return dict(zip(BUDGETS, (results.get("step", 0), minutes), strict=True))


def read_json(path) -> Any:
    """What a JSON file holds; None where it is missing or cut short."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
