"""What the runs of an experiment have found so far, in the form of results.json.

plan, note, command, machine, versions, signatures, wall_time_seconds, trained_runs
systems: by name: labels, settings, chosen, grid, runs (seed, step, wall time, scores by test)
tables: as analysis.tables has them
missing: the runs and evaluations that are not there
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from aevnmt_tf import run_directory
from aevnmt_tf.analysis import external_metrics, tables
from aevnmt_tf.experiments import evaluations
from aevnmt_tf.experiments.plan import System
from aevnmt_tf.experiments.runs import Run, Runs
from aevnmt_tf.experiments.table_plan import ONLY_DEV, OWN_DEV, TablePlan

# They say which run it is, and not what the system is.
_OF_A_RUN = ("random_seed", "out_dir")


def collect(
    runs: Runs,
    *,
    programs: external_metrics.Programs,
    command: str = "",
    only: Collection[str] | None = None,
) -> dict[str, Any]:
    """Everything that is known now; `only` are the systems wanted."""
    found, missing = {}, []
    about: dict[str, Any] = {"versions": {}, "machines": [], "signatures": {}, "seconds": {}}
    for system in runs.plan.systems.values():
        if only is None or system.name in only:
            found[system.name] = _system(runs, system, programs, missing=missing, about=about)
    return {
        "plan": str(runs.plan.path),
        "note": runs.plan.note,
        "command": command,
        "machines": about["machines"],
        "versions": about["versions"],
        "signatures": {name: "; ".join(texts) for name, texts in about["signatures"].items()},
        "wall_time_seconds": round(sum(about["seconds"].values()), 1),
        "trained_runs": len(about["seconds"]),
        "systems": found,
        "tables": [
            table.to_dict()
            for table in [
                *(_table(runs, plan, found) for plan in runs.plan.tables),
                *_searches(found),
            ]
        ],
        "missing": missing,
    }


def _system(runs: Runs, system: System, programs, *, missing, about) -> dict[str, Any]:
    """What is known of a system; adds to `missing` and `about`."""
    chosen = runs.chosen(system)
    described: dict[str, Any] = {
        "labels": dict(system.labels),
        "hparams": None if system.hparams is None else str(system.hparams),
        "chosen": chosen if system.grid or system.grid_of else None,
        "grid": [
            _point(runs, system, point, missing=missing, about=about)
            for point in runs.points(system)
        ],
        "runs": [],
    }
    if chosen is None:
        missing.append(f"{system.name}/chosen")
    for run in runs.final_runs(system):
        settings = run.hp.to_dict()
        described["settings"] = {k: v for k, v in settings.items() if k not in _OF_A_RUN}
        if not run.is_finished():
            missing.append(run.name)
            continue
        described["runs"].append(_run(runs, run, programs, missing=missing, about=about))
    return described


def _run(runs: Runs, run: Run, programs, *, missing, about) -> dict[str, Any]:
    results = run.results() or {}
    about["versions"].update(results.get("versions", {}))
    machine = results.get("machine")  # that it was trained on
    if machine is not None and machine not in about["machines"]:
        about["machines"].append(machine)
    about["seconds"][run.name] = results.get("wall_time_seconds", 0.0)
    described = {
        "seed": run.seed,
        "folder": str(run.folder),
        "step": results.get("step"),
        "reason": results.get("reason"),
        "wall_time_seconds": results.get("wall_time_seconds"),
        "tests": {},
    }
    prefixes = evaluations.test_prefixes(runs.plan, run)
    wanted = evaluations.scored_metrics(runs.plan.metrics, programs)
    for test in run.system.tests:
        if runs.plan.tests[test] == OWN_DEV:
            described["tests"][test] = _dev_scores(run, runs.plan.metrics, results)
            for name, signature in results.get("signatures", {}).items():
                if name in runs.plan.metrics:
                    about["signatures"].setdefault(name, {})[signature] = None
            continue
        scores = evaluations.scores(run, test, prefix=prefixes[test]) or {}
        if not set(wanted) <= set(scores):
            missing.append(f"{run.name}/{evaluations.TESTS}/{test}")
        shown = {name: scores[name] for name in runs.plan.metrics if name in scores}
        described["tests"][test] = {name: score["score"] for name, score in shown.items()}
        for name, score in shown.items():
            about["signatures"].setdefault(name, {})[score["signature"]] = None
    return described


def _dev_scores(run: Run, metrics, results: Mapping[str, Any]) -> dict[str, float]:
    """The scores of the best evaluation on dev during training."""
    best = results.get("best") or {}
    # Without z there is no KL; training writes a zero.
    lacks = {"cond": ONLY_DEV, "joint": ("kl", "active_units")}.get(run.hp.model_type, ())
    found = {name: best.get(f"dev_{name}") for name in metrics if name not in lacks}
    return {name: value for name, value in found.items() if value is not None}


def _point(runs: Runs, system: System, point, *, missing, about) -> dict[str, Any]:
    """What is known of a point of a grid."""
    found: dict[str, list[float]] = {"bleu": [], "kl": []}
    for seed in system.grid_seeds:
        run = runs.run(system, seed=seed, point=point)
        results = run.results() if run.is_finished() else None
        if results is None:
            missing.append(run.name)
            continue
        about["seconds"][run.name] = results.get("wall_time_seconds", 0.0)
        for name, value in _dev_scores(run, found, results).items():
            found[name].append(value)
    return {"point": dict(point), "dev": found}


def _table(runs: Runs, plan: TablePlan, found: Mapping[str, Any]) -> tables.Table:
    return tables.pivot(
        list(_scores(runs, plan, found)),
        rows=plan.rows,
        columns=plan.columns,
        compare=plan.compare,
        decimals=plan.decimals,
        caption=plan.caption,
        label=plan.label,
    )


def _scores(runs: Runs, plan: TablePlan, found: Mapping[str, Any]) -> Iterator[tables.Score]:
    for name in plan.systems:
        system = runs.plan.systems[name]
        for test in (test for test in plan.tests if test in system.tests):
            for metric in plan.metrics:
                labels = {**system.labels, "system": name, "test": test, "metric": metric}
                for run in found.get(name, {"runs": []})["runs"]:
                    value = run["tests"][test].get(metric)
                    if value is not None:
                        yield tables.Score(labels, value)


def _searches(found: Mapping[str, Any]) -> Iterator[tables.Table]:
    """A table for each grid: what each point has reached on dev."""
    for name, system in found.items():
        scores = [
            tables.Score(
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
            yield tables.pivot(
                scores,
                rows=["settings"],
                columns=["metric"],
                compare="settings",
                decimals=2,
                caption=f"Search for {name} on the development set{taken}.",
            )


def _shown(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in point.items())


def curve_files(runs: Runs, system: System) -> dict[str, str]:
    """The metrics.jsonl of a system's runs, by what they are called in a legend."""
    return {
        f"seed {run.seed}": str(run.folder / run_directory.METRICS)
        for run in runs.final_runs(system)
    }
