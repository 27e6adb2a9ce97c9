"""All steps of an experiment and what each needs."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from aevnmt_tf.analysis import external_metrics
from aevnmt_tf.experiments.evaluations import Evaluate
from aevnmt_tf.experiments.plan import System
from aevnmt_tf.experiments.runs import Runs
from aevnmt_tf.experiments.steps import BackTranslate, Train
from aevnmt_tf.experiments.task import Task


def make(
    runs: Runs,
    *,
    out: Path,
    programs: external_metrics.Programs,
    only: Collection[str] | None = None,
) -> list[Task]:
    """The tasks of an experiment in a good order; `only` are the systems wanted."""
    plan, found = runs.plan, {}

    def add(task: Task) -> Any:
        return found.setdefault(task.name, task)

    def train(system: System, seed: int, point=None) -> Train:
        needs: list[Task] = []
        if system.synthetic:
            synthetic = plan.synthetic[system.synthetic]
            model = train_final(plan.systems[synthetic.model], synthetic.seed)
            needs.append(add(BackTranslate(runs, synthetic.name, needs=(model,))))
        if point is None:
            searched = plan.systems[system.grid_of] if system.grid_of else system
            needs += search(searched)
        settings = out / "settings"
        task = Train(runs, system, seed, settings, point=point, needs=tuple(needs))
        return add(task)

    def search(system: System) -> Iterator[Train]:
        for point in runs.points(system):
            for seed in system.grid_seeds:
                yield train(system, seed, point)

    def train_final(system: System, seed: int) -> Train:
        return train(system, seed, None if system.grid or system.grid_of else {})

    for system in plan.systems.values():
        if only is None or system.name in only:
            for seed in runs.seeds_of(system):
                task = train_final(system, seed)
                add(Evaluate(task, metrics=plan.metrics, programs=programs))
    return list(found.values())
