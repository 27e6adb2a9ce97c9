"""What the runs of an experiment have found so far, in the form of results.json.

plan, note, command, finished, machines, versions, signatures, wall_time_seconds, trained_runs
systems: by name: labels, settings, chosen, grid, runs (seed, step, wall time, scores by test)
tables: as score_tables has them, with `significance` where the plan wants it
missing: the runs and evaluations that are not there
"""

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from aevnmt_tf.evaluation import external_metrics
from aevnmt_tf.experiments import jobs, score_tables, seed_significance
from aevnmt_tf.experiments.experiment_plan import ABOUT_Z, ONLY_DEV, SET_HERE
from aevnmt_tf.experiments.plan_keys import PlannedSystem, PlannedTable
from aevnmt_tf.experiments.plan_runs import PlanRun, PlanRuns, Point
from aevnmt_tf.storage import run_directory

Found = dict[str, Any]  # as JSON holds it


def collect(
    runs: PlanRuns,
    *,
    programs: external_metrics.Programs,
    provenance: Mapping[str, str],
    only: Collection[str] | None = None,
) -> Found:
    """Return everything that is known now; `only` are the systems wanted."""
    collector = _Collector(runs, programs)
    systems = runs.plan.systems.items()
    found = {n: collector.system(one) for n, one in systems if only is None or n in only}
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
        "systems": found,
        "tables": [
            *(_table(runs, plan, found) for plan in runs.plan.tables),
            *(table.to_dict() for table in _searches(found)),
        ],
        "missing": collector.missing,
    }


def provenance(previous: Path, *, command: str, is_new: bool) -> dict[str, str]:
    """Return the command that made the scores, and when it ended.

    Args:
        previous: the results.json of before, whose provenance stands if nothing was made since.
        command: the command of now.
        is_new: whether it has made something.
    """
    kept = run_directory.read_json(previous)
    if not is_new and kept.get("command"):
        return {name: kept[name] for name in ("command", "finished") if name in kept}
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {"command": command, **({"finished": now} if is_new else {})}


class _Collector:
    """Describes systems, and remembers what is missing and what runs have in common."""

    def __init__(self, runs: PlanRuns, programs: external_metrics.Programs):
        self._runs, self._metrics = runs, runs.plan.metrics
        self._wanted = jobs.scored_metrics(self._metrics, programs)
        self.missing: list[str] = []
        self.machines: list[Found] = []  # that runs were trained on
        self.versions: dict[str, str] = {}
        self.signatures: dict[str, dict[str, None]] = {}  # by metric, in order
        self.seconds: dict[str, float] = {}  # by run

    def system(self, system: PlannedSystem) -> Found:
        """Return what is known of a system."""
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
            settings = run.hp.to_dict()  # of the system: those of a run are left out
            found["settings"] = {k: v for k, v in settings.items() if k not in SET_HERE}
            if run.is_finished():
                found["runs"].append(self._run(run))
            else:
                self.missing.append(run.name)
        return found

    def _run(self, run: PlanRun) -> Found:
        results = run.results()
        self.versions.update(results.get("versions", {}))
        machine = results.get("machine")
        if machine is not None and machine not in self.machines:
            self.machines.append(machine)
        self.seconds[run.name] = results.get("wall_time_seconds", 0.0)
        found = {key: results.get(key) for key in ("step", "reason", "wall_time_seconds")}
        prefixes = jobs.test_prefixes(self._runs.plan, run)
        tests = {test: self._scores(run, test, prefixes.get(test)) for test in run.system.tests}
        return {"seed": run.seed, "folder": str(run.folder), **found, "tests": tests}

    def _scores(self, run: PlanRun, test: str, prefix: str | None) -> dict[str, float]:
        """Return the scores of a run on a test set; without a prefix, on dev in training."""
        if prefix is None:
            for name, signature in run.results().get("signatures", {}).items():
                self._sign(name, signature)
            return _dev_scores(run, self._metrics)
        scores = jobs.scores(run, test, prefix=prefix)
        if not set(self._wanted) <= set(scores):
            self.missing.append(f"{run.name}/{jobs.TESTS}/{test}")
        for name in self._metrics:
            if name in scores:
                self._sign(name, scores[name]["signature"])
        return {name: scores[name]["score"] for name in self._metrics if name in scores}

    def _sign(self, metric: str, signature: str) -> None:
        if metric in self._metrics:
            self.signatures.setdefault(metric, {})[signature] = None

    def _point(self, system: PlannedSystem, point: Point) -> Found:
        """Return what is known of a point of a grid."""
        found: dict[str, list[float]] = {"bleu": [], "kl": []}
        for seed in system.grid_seeds:
            run = self._runs.run(system, seed=seed, point=point)
            if not run.is_finished():
                self.missing.append(run.name)
                continue
            self.seconds[run.name] = run.results().get("wall_time_seconds", 0.0)
            for name, value in _dev_scores(run, found).items():
                found[name].append(value)
        return {"point": dict(point), "dev": found}


def _dev_scores(run: PlanRun, metrics: Iterable[str]) -> dict[str, float]:
    """Return the scores of the best evaluation on dev during training."""
    best = run.results().get("best") or {}
    # Without z there is no KL; training writes a zero.
    lacks = {"cond": ONLY_DEV, "joint": ABOUT_Z}.get(run.hp.model_type, ())
    found = {name: best.get(f"dev_{name}") for name in metrics if name not in lacks}
    return {name: value for name, value in found.items() if value is not None}


def _table(runs: PlanRuns, plan: PlannedTable, found: Mapping[str, Any]) -> Found:
    """Return a table of the plan as JSON holds it."""
    table = score_tables.pivot(
        list(_scores(runs, plan, found)),
        rows=plan.rows,
        columns=plan.columns,
        compare=plan.compare,
        decimals=plan.decimals,
        caption=plan.caption,
        label=plan.label,
    )
    if not plan.significance:
        return table.to_dict()
    return {**table.to_dict(), "significance": seed_significance.compare(table, runs, found)}


def _scores(
    runs: PlanRuns, plan: PlannedTable, found: Mapping[str, Any]
) -> Iterator[score_tables.LabelledScore]:
    for name in plan.systems:
        system = runs.plan.systems[name]
        for test in (test for test in plan.tests if test in system.tests):
            for metric in plan.metrics:
                labels = {**system.labels, "system": name, "test": test, "metric": metric}
                for run in found.get(name, {"runs": []})["runs"]:
                    value = run["tests"][test].get(metric)
                    if value is not None:
                        yield score_tables.LabelledScore(labels, value, seed=run["seed"])


def _searches(found: Mapping[str, Any]) -> Iterator[score_tables.ScoreTable]:
    """Return a table for each grid: what each point has reached on dev."""
    for name, system in found.items():
        scores = [
            score_tables.LabelledScore(
                {"system": name, "settings": _shown(p["point"]), "test": "dev", "metric": m},
                value,
            )
            for p in system["grid"]
            for m, values in p["dev"].items()
            for value in values
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
