"""The steps that make models and text: training and back-translation."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aevnmt_tf import run_directory
from aevnmt_tf.data.pairs import find_file
from aevnmt_tf.errors import UserError
from aevnmt_tf.experiments import processes
from aevnmt_tf.experiments.plan import System
from aevnmt_tf.experiments.runs import Run, Runs
from aevnmt_tf.experiments.synthetic import SyntheticText
from aevnmt_tf.experiments.task import Command, Task


@dataclass
class Train(Task):
    """Train a system with a seed; `point` None: with the settings that its grid has chosen."""

    runs: Runs
    system: System
    seed: int
    settings: Path  # the folder for the files that runs are started with
    point: Mapping[str, Any] | None = None
    needs: tuple[Task, ...] = ()
    name: str = field(init=False)

    def __post_init__(self):
        if self.point is None and self._follows_grid():
            self.name = f"{self.system.name}/chosen/seed{self.seed}"
        else:
            self.name = self.run.name

    def _follows_grid(self) -> bool:
        return bool(self.system.grid or self.system.grid_of)

    @property
    def run(self) -> Run:
        """The run; an error before the grid has chosen."""
        point = self.runs.chosen(self.system) if self.point is None else self.point
        if point is None:
            raise UserError(
                f"{self.system.name}: the runs of its grid have no dev BLEU to choose by; has "
                "it a dev_prefix?"
            )
        return self.runs.run(self.system, seed=self.seed, point=point)

    @property
    def example(self) -> Run:
        """A run of this system: the run itself as soon as it is known."""
        followed = self.runs.plan.systems[self.system.grid_of or self.system.name]
        point = self.runs.points(followed)[:1] or [{}]
        known = self.runs.chosen(self.system) if self.point is None else self.point
        return self.runs.run(self.system, seed=self.seed, point=known or point[0])

    def check(self) -> None:
        """The training text must be there."""
        hp = self.example.hp
        for prefix in (*prefixes(hp.train_prefix), *prefixes(hp.dev_prefix)):
            for lang in (hp.src, hp.tgt):
                find_file(f"{prefix}.{lang}")

    def has_begun(self) -> bool:
        """Whether it has a checkpoint."""
        return bool(run_directory.listing(self.run.folder / run_directory.CHECKPOINTS))

    def is_done(self) -> bool:
        """Whether the run is finished; a UserError where its folder holds another one."""
        self.run.refuse_changes()
        return self.run.is_finished()

    def command(self) -> Command:
        """Train with a file of all settings."""
        path = self.settings / f"{self.run.name}.json"
        self.run.hp.save(path)
        return Command(processes.verb("train", "--hparams", str(path)))

    def finish(self) -> None:
        """The run must say that it is finished."""
        if not self.run.is_finished():
            raise UserError(f"{self.run.folder} has no results of a finished run")

    def progress(self) -> str:
        """The last step that was reported, and the best score on dev before it."""
        reports = _reports(self.run.folder / run_directory.METRICS)
        if not reports:
            return "starting"
        hp, step = self.run.hp, reports[-1]["step"]
        end = min(hp.num_train_steps, hp.max_steps or hp.num_train_steps)
        said = f"step {step} of {end}" if step <= end else f"step {step}"
        bleus = [report["dev_bleu"] for report in reports if "dev_bleu" in report]
        return f"{said}, best dev BLEU {max(bleus):.2f}" if bleus else said

    def outcome(self) -> str:
        """The best score on dev."""
        best = (self.run.results() or {}).get("best")
        return f"dev BLEU {best['dev_bleu']:.2f} at step {best['step']}" if best else ""


def prefixes(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """A setting that is null, one prefix or several as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value or ())


def _reports(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics; the last one may be half written."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            report = json.loads(line)
            if isinstance(report, dict) and "step" in report:
                found.append(report)
    return found


@dataclass
class BackTranslate(Task):
    """Translate monolingual text of the target language into the source language."""

    runs: Runs
    which: str
    needs: tuple[Task, ...]  # the training of the model that translates, alone
    name: str = field(init=False)

    def __post_init__(self):
        self.name = f"synthetic/{self.which}"

    @property
    def text(self) -> SyntheticText:
        """The files."""
        synthetic = self.runs.plan.synthetic[self.which]
        (model,) = self.needs
        assert isinstance(model, Train)
        prefix = self.runs.synthetic_prefix(synthetic)
        return SyntheticText(synthetic, prefix, run=model.run)

    def check(self) -> None:
        """The monolingual text must be there."""
        mono = self.runs.plan.synthetic[self.which].mono
        (model,) = self.needs
        assert isinstance(model, Train)
        find_file(f"{mono}.{model.example.hp.src}")

    def has_begun(self) -> bool:
        """Whether lines are translated."""
        return self.text.done() > 0

    def is_done(self) -> bool:
        """Whether all lines are translated."""
        return self.text.is_finished()

    def command(self) -> Command:
        """Translate what is left, from standard input."""
        text = self.text
        text.draw()
        search = self.runs.plan.synthetic[self.which].search
        (model,) = self.needs
        assert isinstance(model, Train)
        words = processes.verb("translate", "--model", str(model.run.folder))
        return Command(
            [*words, "--search", search, "--n_best", "1"],
            stdin=text.rest(),
            stdout=text.part,
            adds=True,
        )

    def finish(self) -> None:
        """Every line must have a translation."""
        self.text.finish()

    def progress(self) -> str:
        """How many lines are translated."""
        return f"{self.text.done():,} lines"

    outcome = progress
