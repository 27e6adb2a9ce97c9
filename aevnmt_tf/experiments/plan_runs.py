"""The runs of an experiment: their settings, where they are, and how far they are.

RUNS/SYSTEM/seed1/                      a run's directory, as train makes it
RUNS/SYSTEM/dropout=0.3/seed1/          the same for a point of a grid
RUNS/SYSTEM/seed1/tests/NAME.json       the scores on a test set
RUNS/synthetic/NAME/                    back-translated text
RUNS/mono/                              lines that are drawn from monolingual text
RUNS/prepared/models/                   the truecasers, BPE and vocabularies of all systems
RUNS/prepared/NAME/                     a corpus as they segment it
OUT/logs/  OUT/settings/                what each run printed, and what it was started with
"""

import functools
import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError, repeated
from aevnmt_tf.data import corpora
from aevnmt_tf.experiments.plan_keys import BackTranslation, ExperimentPlan, PlannedSystem
from aevnmt_tf.storage import run_directory

SYNTHETIC, MONO, PREPARED = "synthetic", "mono", "prepared"  # folders beside the systems'
MODELS = "models"
# A run may be moved, its note be reworded, and training never reads the test set. The others do
# not change what is learnt or found.
UNREMARKABLE = (
    *("out_dir", "note", "test_prefix"),
    *("infer_batch_size", "jit_compile", "distribute"),
)
BUDGETS = ("max_steps", "max_minutes")  # they may change as long as a run keeps to them
# Systems that share their text models have these in common.
TEXT = ("text_pipeline", "subword_option", "vocab_size", "share_vocab", "sos", "eos")

Point = Mapping[str, Any]  # of a grid: values by setting


@dataclass(frozen=True)
class PlanRun:
    """One training run: a system with a seed, and with a point of its grid if it has one.

    `unprepared` are the settings before prepared text takes the place of the corpora.
    """

    system: PlannedSystem
    seed: int
    hp: hparams.Hparams
    unprepared: hparams.Hparams
    name: str

    @property
    def folder(self) -> Path:
        """The run's directory."""
        assert self.hp.out_dir is not None
        return Path(self.hp.out_dir)

    def results(self) -> dict[str, Any]:
        """Return what results.json holds; nothing where it is missing."""
        return run_directory.read_json(self.folder / run_directory.RESULTS)

    def is_finished(self) -> bool:
        """Return whether results.json is of the last checkpoint and of these settings."""
        results = self.results()
        if not results or not (self.folder / run_directory.HPARAMS).is_file():
            return False
        # A run that goes on with more steps leaves the old results until it ends.
        checkpoints = run_directory.listing(self.folder / run_directory.CHECKPOINTS)
        if checkpoints and run_directory.step_of(checkpoints[-1]) != results.get("step"):
            return False
        return not self.changes() and not self._goes_on(results)

    def _goes_on(self, results: Mapping[str, Any]) -> bool:
        """Return whether training would make more updates with the settings of now."""
        budget = cut_by(results)
        if budget is None:
            return results.get("step", 0) < self.hp.num_train_steps
        limit = getattr(self.hp, budget)
        return limit is None or _used(results)[budget] < limit

    def changes(self) -> dict[str, tuple[Any, Any]]:
        """Return the settings that the folder was made with others: name -> (there, here).

        Training may become longer, unless the learning rate has followed its length.
        """
        path = self.folder / run_directory.HPARAMS
        if not path.is_file():
            return {}
        there, here = hparams.load(path).to_dict(), self.hp.to_dict()
        used = _used(self.results())
        allowed = {b for b in BUDGETS if here[b] is None or used[b] <= here[b]}
        if not self.hp.decay_scheme and there["num_train_steps"] < here["num_train_steps"]:
            allowed.add("num_train_steps")
        return {
            name: (there[name], here[name])
            for name in here
            if there[name] != here[name] and name not in (*UNREMARKABLE, *allowed)
        }

    def refuse_changes(self) -> None:
        """Raise a UserError where the folder holds a run with other settings."""
        shown = ", ".join(
            f"{name}: {json.dumps(there)} there, {json.dumps(here)} now"
            for name, (there, here) in self.changes().items()
        )
        if shown:
            raise UserError(
                f"{self.folder} holds a run with other settings ({shown}); choose another "
                "--out, or remove it to train again."
            )


class PlanRuns:
    """All runs of a plan.

    Args:
        plan: the plan.
        folder: where the runs are.
        overrides: settings that beat the plan's, for every run.
        seeds: seeds that beat the plan's; None: the plan's.
    """

    def __init__(
        self,
        plan: ExperimentPlan,
        folder: Path,
        *,
        overrides: Mapping[str, Any] | None = None,
        seeds: Sequence[int] | None = None,
    ):
        self.plan, self.folder = plan, Path(folder)
        self._overrides, self._seeds = dict(overrides or {}), seeds
        if "," in str(folder):
            raise UserError(
                f"{folder} has a comma, which separates runs: choose another --out."
            )
        for system in plan.systems.values():
            if system.name in (SYNTHETIC, MONO, PREPARED):
                raise UserError(f"{plan.path}: a system cannot be called {system.name}.")
            both = set(system.grid) & set(self._overrides)
            if both:
                raise UserError(
                    f"--{min(both)}: {plan.path} searches for the best {min(both)} of system "
                    f"{system.name}; leave the flag out."
                )

    def seeds_of(self, system: PlannedSystem) -> tuple[int, ...]:
        """Return the seeds that a system is trained with."""
        return tuple(self._seeds or system.seeds)

    def searched(self, system: PlannedSystem) -> PlannedSystem:
        """Return the system whose grid a system follows: another one or itself."""
        return self.plan.systems[system.grid_of or system.name]

    def points(self, system: PlannedSystem) -> list[Point]:
        """Return the points of a system's grid, in order; the empty one without a grid."""
        found = itertools.product(*system.grid.values())
        return [dict(zip(system.grid, values, strict=True)) for values in found]

    def chosen(self, system: PlannedSystem) -> Point | None:
        """Return the best point on dev of the grid that a system follows; None: not yet known.

        The first of equals is taken. A system without a grid has the empty point.
        """
        searched = self.searched(system)
        if not searched.grid:
            return {}
        points = self.points(searched)
        found = [self.dev_bleu(searched, point) for point in points]
        bleus = [bleu for bleu in found if bleu is not None]
        return points[bleus.index(max(bleus))] if len(bleus) == len(points) else None

    def dev_bleu(self, system: PlannedSystem, point: Point) -> float | None:
        """Return the mean best dev BLEU of a point over the grid's seeds; None: not known."""
        found = []
        for seed in system.grid_seeds:
            run = self.run(system, seed=seed, point=point)
            best = run.results().get("best") if run.is_finished() else None
            if not best:
                return None
            found.append(best["dev_bleu"])
        return sum(found) / len(found)

    def run(self, system: PlannedSystem, *, seed: int, point: Point) -> PlanRun:
        """Return the run of a system with a seed and a point of its grid ({}: none)."""
        name = "/".join([system.name, *([point_name(point)] if point else []), f"seed{seed}"])
        changes = {**point, **self._overrides}
        if system.synthetic is not None:
            synthetic = self.plan.synthetic[system.synthetic]
            changes["synthetic_prefix"] = str(self.synthetic_prefix(synthetic))
            changes["synthetic_tag"] = synthetic.tag
        changes.update(random_seed=seed, out_dir=str(self.folder / name))
        raw = self.plan.settings_of(system, changes)
        hp = raw if self.plan.prepare is None else self._prepared(raw)
        return PlanRun(system=system, seed=seed, hp=hp, unprepared=raw, name=name)

    def example(self, system: PlannedSystem, *, seed: int) -> PlanRun:
        """Return a run of a system: the first of its grid while that has not chosen."""
        point = self.chosen(system) or self.points(self.searched(system))[0]
        return self.run(system, seed=seed, point=point)

    def final_run(self, system: PlannedSystem, *, seed: int) -> PlanRun:
        """Return the run with the settings that the system's grid, if any, has chosen."""
        point = self.chosen(system)
        if point is None:
            raise UserError(
                f"{system.name}: the runs of its grid have no dev BLEU to choose by; has it a "
                "dev_prefix?"
            )
        return self.run(system, seed=seed, point=point)

    def final_runs(self, system: PlannedSystem) -> Iterator[PlanRun]:
        """Return the runs of a system that stand in tables, where its settings are known."""
        if self.chosen(system) is not None:
            for seed in self.seeds_of(system):
                yield self.final_run(system, seed=seed)

    def synthetic_prefix(self, synthetic: BackTranslation) -> Path:
        """Return the prefix of back-translated text."""
        return self.folder / SYNTHETIC / synthetic.name / "train"

    @functools.cached_property
    def shared_settings(self) -> hparams.Hparams | None:
        """The settings that the text models of all systems are learnt with; None: no such."""
        if self.plan.prepare is None:
            return None
        nothing = {f"{kind}_prefix": None for kind in corpora.PARALLEL if kind != "train"}
        hp = self.plan.settings_of(self.plan.prepare, {**self._overrides, **nothing})
        if hp.train_prefix is None:
            raise UserError(
                f"{self.plan.path}, prepare: there is no train_prefix to learn from; name it "
                "in settings, or a file in hparams."
            )
        return hp

    def prepared_folder(self, hp: hparams.Hparams) -> Path:
        """Return the folder of prepared corpora, the same for both directions."""
        named = {
            f"{kind}_prefix": corpora.prefixes(getattr(hp, f"{kind}_prefix"))
            for kind in corpora.PARALLEL
        }
        langs = [hp.src, hp.tgt] if named["synthetic_prefix"] else sorted([hp.src, hp.tgt])
        key = json.dumps([named, hp.max_train, langs])
        paths = [*named["train_prefix"], *named["synthetic_prefix"]]
        name = "+".join(Path(path).parent.name for path in paths)
        digits = hashlib.sha256(key.encode()).hexdigest()[:8]
        return self.folder / PREPARED / f"{name}-{digits}"

    def _prepared(self, hp: hparams.Hparams) -> hparams.Hparams:
        """Return the settings with prepared corpora in the place of raw ones."""
        folder = self.prepared_folder(hp)
        models = self.folder / PREPARED / MODELS / run_directory.TEXT / "vocab"
        changes: dict[str, Any] = {"vocab_prefix": str(models)}
        for kind in corpora.PARALLEL:
            raw = corpora.prefixes(getattr(hp, f"{kind}_prefix"))
            made = [str(folder / corpora.numbered(kind, n, raw)) for n in range(len(raw))]
            changes[f"{kind}_prefix"] = made if len(made) > 1 else next(iter(made), None)
        return hp.replace(**changes)

    def check(self) -> None:
        """Raise a UserError where settings are bad or a folder holds another run."""
        for system in self.plan.systems.values():
            twice = repeated(map(point_name, self.points(system)))
            if twice is not None:
                raise UserError(
                    f"{self.plan.path}, system {system.name}: two points of the grid are "
                    f"called {twice}."
                )
            for point in self.points(self.searched(system)):
                for seed in self.seeds_of(system):
                    run = self.run(system, seed=seed, point=point)
                    self._check_text(run)
                    run.refuse_changes()
            if system.synthetic is not None:
                self._check_direction(system, self.plan.synthetic[system.synthetic])

    def _check_text(self, run: PlanRun) -> None:
        """Refuse a run that cannot read what the text models of all systems make."""
        shared, own = self.shared_settings, run.unprepared
        if shared is None:
            return
        start = f"{self.plan.path}, system {run.system.name}: "
        if own.train_prefix is None:
            raise UserError(f"{start}prepare needs a train_prefix.")
        for name in TEXT:
            there, here = getattr(shared, name), getattr(own, name)
            if there != here:
                raise UserError(f"{start}{name} is {here}, but {there} in prepare.")
        if {own.src, own.tgt} != {shared.src, shared.tgt}:
            langs = f"{own.src} and {own.tgt}"
            raise UserError(f"{start}prepare has other languages than {langs}.")

    def _check_direction(self, system: PlannedSystem, synthetic: BackTranslation) -> None:
        """Refuse a model that does not translate from target to source."""
        model = self.plan.systems[synthetic.model]
        back = self.example(model, seed=synthetic.seed).hp
        there = self.example(system, seed=1).hp
        if (there.src, there.tgt) != (back.tgt, back.src):
            raise UserError(
                f"{self.plan.path}, system {system.name}: it translates {there.src} to "
                f"{there.tgt}, so that synthetic {synthetic.name} needs a model from "
                f"{there.tgt} to {there.src}; {model.name} is one from {back.src} to "
                f"{back.tgt}."
            )


def point_name(point: Point) -> str:
    """Return what the folder of a grid's point is called: dropout=0.3+word_dropout=0.1."""
    plain = {k: v if isinstance(v, str) else json.dumps(v) for k, v in point.items()}
    # Without commas: where a command takes runs, a comma separates them.
    joined = "+".join(f"{name}={value}" for name, value in plain.items())
    return re.sub(r"[^A-Za-z0-9_.=+-]", "_", joined)


def cut_by(results: Mapping[str, Any]) -> str | None:
    """Return which budget has ended a run, by its results.json; None: it came to its end."""
    reason = results.get("reason") or ""
    return next((name for name in BUDGETS if reason.startswith(name)), None)


def _used(results: Mapping[str, Any]) -> dict[str, float]:
    """Return how much of each budget a run has used."""
    minutes = results.get("wall_time_seconds", 0.0) / 60
    return dict(zip(BUDGETS, (results.get("step", 0), minutes), strict=True))
