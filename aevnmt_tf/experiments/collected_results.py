"""What the runs of an experiment have found so far, in the format of results.json.

plan, note, command, finished, machines, versions, signatures, wall_time_seconds, trained_runs
systems: by name: labels, settings, chosen, grid, runs (seed, step, wall time, scores by test)
tables: in the format of score_tables.py, with `significance` if the plan asks for it
missing: runs and evaluations that have not been made
"""

import datetime
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from aevnmt_tf.experiments import score_tables, seed_significance
from aevnmt_tf.experiments.experiment_plan import ABOUT_Z, ONLY_DEV, SET_HERE
from aevnmt_tf.experiments.plan_keys import PlannedSystem, PlannedTable
from aevnmt_tf.experiments.plan_runs import PlanRuns, Point
from aevnmt_tf.experiments.planned_run import TESTS, PlannedRun
from aevnmt_tf.experiments.score_tables import LabelledScore
from aevnmt_tf.storage import run_directory

Found = dict[str, Any]  # as in results.json


def collect(runs: PlanRuns, *, provenance: Mapping[str, str]) -> Found:
    """Return everything that is known now about the systems to run."""
    collector = _Collector(runs)
    systems = {system.name: collector.system(system) for system in runs.wanted}
    signatures = collector.signatures.items()
    return {
        "plan": str(runs.plan.path),
        "note": runs.plan.note,
        **provenance,
        "machines": collector.machines,
        "versions": collector.versions,
        "signatures": {name: "; ".join(texts) for name, texts in signatures},
        "wall_time_seconds": round(sum(collector.seconds.values()), 1),
        "trained_runs": len(collector.seconds),
        "systems": systems,
        "tables": [
            *(_table(runs, table, systems) for table in runs.plan.tables),
            *_searches(systems),
        ],
        "missing": collector.missing,
    }


def provenance(previous: Path, *, command: str, is_new: bool) -> dict[str, str]:
    """Return the command that produced the scores, and when it finished.

    If the current command has produced nothing new, that is the one of a previous results.json.
    """
    kept = run_directory.read_json(previous)
    if not is_new and kept.get("command"):
        return {name: kept[name] for name in ("command", "finished") if name in kept}
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {"command": command, **({"finished": now} if is_new else {})}


class _Collector:
    """Describes systems, and gathers what is missing and what runs have in common."""

    def __init__(self, runs: PlanRuns):
        self._runs, self._metrics = runs, runs.plan.metrics
        self.missing: list[str] = []
        self.machines: list[Found] = []
        self.versions: dict[str, str] = {}
        self.signatures: dict[str, dict[str, None]] = {}  # by metric, in order
        self.seconds: dict[str, float] = {}  # by run

    def system(self, system: PlannedSystem) -> Found:
        """Return what is known about a system."""
        chosen = self._runs.chosen(system)
        points = self._runs.points(system) if system.grid else []
        found: Found = {
            "labels": dict(system.labels),
            "hparams": None if system.hparams is None else str(system.hparams),
            "chosen": chosen if system.grid or system.grid_of else None,
            "grid": [self._point(system, point) for point in points],
            "runs": [],
        }
        if chosen is None:
            self.missing.append(f"{system.name}/chosen")
        for run in self._runs.final_runs(system):
            settings = run.hp.to_dict().items()
            found["settings"] = {name: v for name, v in settings if name not in SET_HERE}
            if self._is_finished(run):
                found["runs"].append(self._run(run))
        return found

    def _is_finished(self, run: PlannedRun) -> bool:
        """Return whether a run is finished; record its time, or that it is missing."""
        if run.is_finished():
            self.seconds[run.name] = run.results().get("wall_time_seconds", 0.0)
            return True
        self.missing.append(run.name)
        return False

    def _run(self, run: PlannedRun) -> Found:
        results = run.results()
        self.versions.update(results.get("versions", {}))
        machine = results.get("machine")
        if machine is not None and machine not in self.machines:
            self.machines.append(machine)
        found = {key: results.get(key) for key in ("step", "reason", "wall_time_seconds")}
        prefixes = self._runs.test_prefixes(run)
        tests = {test: self._scores(run, test, prefixes.get(test)) for test in run.system.tests}
        return {"seed": run.seed, "folder": str(run.folder), **found, "tests": tests}

    def _scores(self, run: PlannedRun, test: str, prefix: str | None) -> dict[str, float]:
        """Return the scores of a run on a test set; without a prefix, on dev in training."""
        if prefix is None:
            self._sign(run.results().get("signatures", {}))
            return _dev_scores(run, self._metrics)
        scores = run.scores(test, prefix=prefix)
        if not set(self._runs.test_metrics) <= set(scores):
            self.missing.append(f"{run.name}/{TESTS}/{test}")
        self._sign({name: score["signature"] for name, score in scores.items()})
        return {name: scores[name]["score"] for name in self._metrics if name in scores}

    def _sign(self, signatures: Mapping[str, str]) -> None:
        for metric in self._metrics:
            if metric in signatures:
                self.signatures.setdefault(metric, {})[signatures[metric]] = None

    def _point(self, system: PlannedSystem, point: Point) -> Found:
        """Return what is known about a point of a grid."""
        found: dict[str, list[float]] = {"bleu": [], "kl": []}
        for seed in system.grid_seeds:
            run = self._runs.run(system, seed=seed, point=point)
            if self._is_finished(run):
                for name, value in _dev_scores(run, found).items():
                    found[name].append(value)
        return {"point": dict(point), "dev": found}


def _dev_scores(run: PlannedRun, metrics: Iterable[str]) -> dict[str, float]:
    """Return the scores of the best evaluation on dev during training."""
    best = run.results().get("best") or {}
    # A model without z has no KL, but training writes a zero.
    lacks = {"cond": ONLY_DEV, "joint": ABOUT_Z}.get(run.hp.model_type, ())
    found = {name: best.get(f"dev_{name}") for name in metrics if name not in lacks}
    return {name: value for name, value in found.items() if value is not None}


def _table(runs: PlanRuns, plan: PlannedTable, systems: Mapping[str, Any]) -> Found:
    """Return a table of the plan."""
    scores = list(_labelled(runs, plan, systems))
    names = ("rows", "columns", "compare", "decimals", "caption", "label")
    table = score_tables.pivot(scores, **{name: getattr(plan, name) for name in names})
    if plan.significance:
        table["significance"] = seed_significance.compare(table, scores, runs)
    return table


def _labelled(
    runs: PlanRuns, plan: PlannedTable, systems: Mapping[str, Any]
) -> Iterator[LabelledScore]:
    for name in plan.systems:
        system = runs.plan.systems[name]
        for test in (test for test in plan.tests if test in system.tests):
            for metric in plan.metrics:
                labels = {**system.labels, "system": name, "test": test, "metric": metric}
                for run in systems.get(name, {"runs": []})["runs"]:
                    value = run["tests"][test].get(metric)
                    if value is not None:
                        yield LabelledScore(labels, value, run["seed"])


def _searches(systems: Mapping[str, Any]) -> Iterator[Found]:
    """Yield a table of dev scores for each grid."""
    for name, system in systems.items():
        scores = [
            LabelledScore({"system": name, "settings": point, "test": "dev", "metric": m}, v)
            for point, dev in ((_shown(p["point"]), p["dev"]) for p in system["grid"])
            for m, values in dev.items()
            for v in values
        ]
        if scores:
            chosen = system["chosen"]
            taken = f"; taken: {_shown(chosen)}" if chosen else ""
            yield score_tables.pivot(
                scores,
                rows=["settings"],
                columns=["metric"],
                compare="settings",
                decimals=2,
                caption=f"Search for {name} on the development set{taken}.",
            )


def _shown(point: Point) -> str:
    return ", ".join(f"{name} {value}" for name, value in point.items())
