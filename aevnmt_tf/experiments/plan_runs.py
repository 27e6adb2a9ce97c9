"""The runs of an experiment: their settings, their folders and their state.

RUNS/SYSTEM/seed1/                      directory of a run, as written by train
RUNS/SYSTEM/dropout=0.3/seed1/          the same for a point of a grid
RUNS/SYSTEM/seed1/tests/NAME.json       scores on a test set
RUNS/synthetic/NAME/                    back-translated text
RUNS/mono/                              lines drawn from monolingual text
RUNS/prepared/models/                   truecasers, BPE and vocabularies of all systems
RUNS/prepared/NAME/                     a corpus segmented with them
OUT/logs/  OUT/settings/                output and settings of each job
"""

import functools
import hashlib
import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError, repeated
from aevnmt_tf.data import corpora
from aevnmt_tf.evaluation import external_metrics
from aevnmt_tf.experiments.experiment_plan import ONLY_DEV, OWN_DEV, OWN_TEST
from aevnmt_tf.experiments.plan_keys import BackTranslation, ExperimentPlan, PlannedSystem
from aevnmt_tf.experiments.planned_run import PlannedRun
from aevnmt_tf.storage import run_directory

SYNTHETIC, MONO, PREPARED = "synthetic", "mono", "prepared"  # folders beside the systems'
MODELS = "models"
# Systems that share text models must agree on these.
TEXT = ("text_pipeline", "subword_option", "vocab_size", "share_vocab", "sos", "eos")

Point = Mapping[str, Any]  # a point of a grid: values by setting


@dataclass(frozen=True)
class PlanRuns:
    """All runs of a plan."""

    plan: ExperimentPlan
    folder: Path  # of the runs
    out: Path  # for tables, logs and the settings of jobs
    overrides: Mapping[str, Any] = field(default_factory=dict)  # settings, for all runs
    seeds: Sequence[int] | None = None  # None: those of the plan
    only: Collection[str] | None = None  # names of the systems to run; None: all
    programs: external_metrics.Programs = external_metrics.Programs()

    @property
    def settings(self) -> Path:
        """Folder of the settings that jobs are started with."""
        return self.out / "settings"

    @property
    def wanted(self) -> list[PlannedSystem]:
        """The systems to run."""
        systems = self.plan.systems.values()
        return [one for one in systems if self.only is None or one.name in self.only]

    @property
    def test_metrics(self) -> tuple[str, ...]:
        """The metrics of the plan that can be computed on test sets."""
        lacking = {*ONLY_DEV, *external_metrics.NAMES} - set(self.programs.names)
        return tuple(name for name in self.plan.metrics if name not in lacking)

    def seeds_of(self, system: PlannedSystem) -> tuple[int, ...]:
        """Return the seeds of a system."""
        return tuple(self.seeds or system.seeds)

    def searched(self, system: PlannedSystem) -> PlannedSystem:
        """Return the system whose grid determines the settings: another one or itself."""
        return self.plan.systems[system.grid_of or system.name]

    def points(self, system: PlannedSystem) -> list[Point]:
        """Return the points of the grid, in order; without a grid, the empty one."""
        grid = self.searched(system).grid
        return [dict(zip(grid, v, strict=True)) for v in itertools.product(*grid.values())]

    def chosen(self, system: PlannedSystem) -> Point | None:
        """Return the first point with the highest dev BLEU; None: not known yet.

        Without a grid, it is the empty point.
        """
        searched = self.searched(system)
        if not searched.grid:
            return {}
        points = self.points(system)
        found = [self._dev_bleu(searched, point) for point in points]
        bleus = [bleu for bleu in found if bleu is not None]
        return points[bleus.index(max(bleus))] if len(bleus) == len(points) else None

    def _dev_bleu(self, system: PlannedSystem, point: Point) -> float | None:
        """Return the mean best dev BLEU of a point over the grid's seeds; None: not known."""
        found = []
        for seed in system.grid_seeds:
            run = self.run(system, seed=seed, point=point)
            best = run.results().get("best") if run.is_finished() else None
            if not best:
                return None
            found.append(best["dev_bleu"])
        return sum(found) / len(found)

    def run(
        self, system: PlannedSystem, *, seed: int, point: Point | None = None
    ) -> PlannedRun:
        """Return the run of a system at a point of its grid; None: at the chosen one."""
        if point is None:
            point = self.chosen(system)
        if point is None:
            raise UserError(
                f"{system.name}: the runs of its grid have no dev BLEU to choose by: check "
                "dev_prefix."
            )
        name = "/".join([system.name, *([point_name(point)] if point else []), f"seed{seed}"])
        changes = {**point, **self.overrides}
        if system.synthetic is not None:
            synthetic = self.plan.synthetic[system.synthetic]
            changes["synthetic_prefix"] = str(self.synthetic_prefix(synthetic))
            changes["synthetic_tag"] = synthetic.tag
        changes.update(random_seed=seed, out_dir=str(self.folder / name))
        raw = self.plan.settings_of(system, changes)
        hp = raw if self.plan.prepare is None else self._prepared(raw)
        return PlannedRun(system=system, seed=seed, hp=hp, unprepared=raw, name=name)

    def example(self, system: PlannedSystem, *, seed: int) -> PlannedRun:
        """Return the run of a system, with the first point of a grid that has not chosen."""
        point = self.chosen(system) or self.points(system)[0]
        return self.run(system, seed=seed, point=point)

    def final_runs(self, system: PlannedSystem) -> Iterator[PlannedRun]:
        """Yield the runs of a system that appear in tables, if its settings are known."""
        if self.chosen(system) is not None:
            for seed in self.seeds_of(system):
                yield self.run(system, seed=seed)

    def test_prefixes(self, run: PlannedRun) -> dict[str, str]:
        """Return the prefixes of the test sets of a run by name, without @dev."""
        named = {name: self.plan.tests[name] for name in run.system.tests}
        return {
            name: self._own_test(run, name) if prefix == OWN_TEST else prefix
            for name, prefix in named.items()
            if prefix != OWN_DEV
        }

    def _own_test(self, run: PlannedRun, name: str) -> str:
        """Return the prefix of a run's own test set, as raw text."""
        own = run.unprepared.test_prefix
        if run.hp.train_prefix is None and own is None:
            own = str(run.folder / "demo" / "test")
        if not isinstance(own, str):
            what = "no test_prefix" if own is None else "several prefixes in test_prefix"
            raise UserError(
                f"{self.plan.path}, tests, {name}: system {run.system.name} has {what}, so "
                f"{OWN_TEST} is undefined; give the prefix."
            )
        if not (Path(own).parent / run_directory.MANIFEST).is_file():
            return own
        from aevnmt_tf.data import preparation_manifest  # slow to import and rarely needed

        return preparation_manifest.readable_prefixes(run.hp, own)[0]

    def synthetic_prefix(self, synthetic: BackTranslation) -> Path:
        """Return the prefix of back-translated text."""
        return self.folder / SYNTHETIC / synthetic.name / "train"

    @functools.cached_property
    def shared_settings(self) -> hparams.Hparams | None:
        """Settings that the shared text models are learnt with; None: there are none."""
        if self.plan.prepare is None:
            return None
        nothing = {f"{kind}_prefix": None for kind in corpora.PARALLEL if kind != "train"}
        hp = self.plan.settings_of(self.plan.prepare, {**self.overrides, **nothing})
        if hp.train_prefix is None:
            raise UserError(
                f"{self.plan.path}, prepare: there is no train_prefix to learn from; add it to "
                "settings, or a file with it as hparams."
            )
        return hp

    def prepared_folder(self, hp: hparams.Hparams) -> Path:
        """Return the folder of prepared corpora; both directions share it."""
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
        """Return the settings with prepared instead of raw corpora."""
        folder = self.prepared_folder(hp)
        models = self.folder / PREPARED / MODELS / run_directory.TEXT / "vocab"
        changes: dict[str, Any] = {"vocab_prefix": str(models)}
        for kind in corpora.PARALLEL:
            raw = corpora.prefixes(getattr(hp, f"{kind}_prefix"))
            made = [str(folder / corpora.numbered(kind, n, raw)) for n in range(len(raw))]
            changes[f"{kind}_prefix"] = made if len(made) > 1 else next(iter(made), None)
        return hp.replace(**changes)

    def check(self) -> None:
        """Raise a UserError if settings are invalid or a folder contains another run."""
        if "," in str(self.folder):
            raise UserError(
                f"{self.folder} has a comma, which separates runs: choose another --out."
            )
        for system in self.plan.systems.values():
            start = f"{self.plan.path}, system {system.name}: "
            if system.name in (SYNTHETIC, MONO, PREPARED):
                raise UserError(f"{start}this name is reserved; choose another.")
            both = set(system.grid) & set(self.overrides)
            if both:
                raise UserError(f"{start}its grid sets {min(both)}; omit --{min(both)}.")
            twice = repeated(map(point_name, self.points(system)))
            if twice is not None:
                raise UserError(f"{start}two points of the grid are called {twice}.")
            for point in self.points(system):
                for seed in self.seeds_of(system):
                    run = self.run(system, seed=seed, point=point)
                    self._check_text(run)
                    run.refuse_changes()
            if system.synthetic is not None:
                self._check_direction(system, self.plan.synthetic[system.synthetic])

    def _check_text(self, run: PlannedRun) -> None:
        """Refuse a run whose settings do not fit the shared text models."""
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
            langs = f"{own.src} and {own.tgt}, but {shared.src} and {shared.tgt} in prepare"
            raise UserError(f"{start}its languages are {langs}.")

    def _check_direction(self, system: PlannedSystem, synthetic: BackTranslation) -> None:
        """Refuse a back-translation model that does not translate from target to source."""
        model = self.plan.systems[synthetic.model]
        back = self.example(model, seed=synthetic.seed).hp
        there = self.example(system, seed=1).hp
        if (there.src, there.tgt) != (back.tgt, back.src):
            raise UserError(
                f"{self.plan.path}, system {system.name}: it translates {there.src} to "
                f"{there.tgt}, so synthetic {synthetic.name} needs a model from {there.tgt} to "
                f"{there.src}; {model.name} translates {back.src} to {back.tgt}."
            )


def point_name(point: Point) -> str:
    """Return the folder name of a grid point, such as dropout=0.3+word_dropout=0.1."""
    plain = {k: v if isinstance(v, str) else json.dumps(v) for k, v in point.items()}
    # No commas: they separate runs on command lines.
    joined = "+".join(f"{name}={value}" for name, value in plain.items())
    return re.sub(r"[^A-Za-z0-9_.=+-]", "_", joined)
