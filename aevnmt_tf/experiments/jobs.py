"""The jobs of an experiment and their order; training and evaluation."""

import itertools
from dataclasses import dataclass
from pathlib import Path

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data import corpora
from aevnmt_tf.experiments.plan_keys import PlannedSystem
from aevnmt_tf.experiments.plan_runs import MODELS, PREPARED, PlanRuns, Point
from aevnmt_tf.experiments.planned_run import TESTS, PlannedRun
from aevnmt_tf.experiments.processes import JobCommand
from aevnmt_tf.experiments.scheduler import Job, verb
from aevnmt_tf.experiments.text_jobs import BackTranslationJob, PreparationJob
from aevnmt_tf.plots import training_curves
from aevnmt_tf.storage import atomic_writes, run_directory
from aevnmt_tf.storage.text_files import find_file

_FOUND = ".evaluation.json"  # output of evaluate


@dataclass
class TrainingJob(Job):
    """Trains a system with a seed, at a point of its grid; None: at the chosen one."""

    runs: PlanRuns
    system: PlannedSystem
    seed: int
    point: Point | None = None

    def __post_init__(self) -> None:
        searched = self.runs.searched(self.system)
        if self.point is None and not searched.grid:
            self.point = {}
        if self.point is None:
            self.name = f"{self.system.name}/chosen/seed{self.seed}"
            points = itertools.product(self.runs.points(searched), searched.grid_seeds)
            search = [TrainingJob(self.runs, searched, seed, point) for point, seed in points]
        else:
            self.name, search = self.run.name, []
        self.needs = (*self._text_jobs(), *search)

    def _text_jobs(self) -> list[Job]:
        """Return the jobs that create the text that it trains on."""
        runs, found = self.runs, list[Job]()
        if self.system.synthetic is not None:
            synthetic = runs.plan.synthetic[self.system.synthetic]
            model = TrainingJob(runs, runs.plan.systems[synthetic.model], synthetic.seed)
            found.append(BackTranslationJob(runs, synthetic, needs=(model,)))
        if runs.plan.prepare is None or runs.shared_settings is None:
            return found
        models, mono = runs.folder / PREPARED / MODELS, runs.plan.prepare.mono
        learning = PreparationJob(runs, models, runs.shared_settings, mono=mono)
        example = self.example
        raw = example.unprepared.replace(vocab_prefix=example.hp.vocab_prefix)
        folder = runs.prepared_folder(raw)
        return [PreparationJob(runs, folder, raw, needs=(learning, *found))]

    @property
    def run(self) -> PlannedRun:
        """The run; an error before the grid has chosen."""
        return self.runs.run(self.system, seed=self.seed, point=self.point)

    @property
    def example(self) -> PlannedRun:
        """The run, or a similar one before the grid has chosen."""
        if self.point is None:
            return self.runs.example(self.system, seed=self.seed)
        return self.run

    def check(self) -> None:
        """Check that the training text exists, unless a job prepares it."""
        if self.runs.plan.prepare is None:
            corpora.find_corpora(self.example.hp, kinds=("train", "dev"))

    def has_begun(self) -> bool:
        """Return whether there is a checkpoint."""
        return bool(run_directory.listing(self.run.folder / run_directory.CHECKPOINTS))

    def is_done(self) -> bool:
        """Return whether the run is finished; a UserError if its folder has another one."""
        self.run.refuse_changes()
        return self.run.is_finished()

    def command(self) -> JobCommand:
        """Train with a file of all settings."""
        path = self.runs.settings / f"{self.run.name}.json"
        self.run.hp.save(path)
        return JobCommand(verb("train", "--hparams", str(path)))

    def progress(self) -> str:
        """Return the last reported step and the best dev BLEU so far."""
        reports = training_curves.reports(self.run.folder / run_directory.METRICS)
        if not reports:
            return "starting"
        hp, step = self.run.hp, reports[-1]["step"]
        end = min(hp.num_train_steps, hp.max_steps or hp.num_train_steps)
        said = f"step {step} of {end}" if step <= end else f"step {step}"
        bleus = [report["dev_bleu"] for report in reports if "dev_bleu" in report]
        return f"{said}, best dev BLEU {max(bleus):.2f}" if bleus else said

    def outcome(self) -> str:
        """Return the best dev BLEU."""
        best = self.run.results().get("best")
        return f"dev BLEU {best['dev_bleu']:.2f} at step {best['step']}" if best else ""


@dataclass
class EvaluationJob(Job):
    """Translates and scores the test sets of a finished run."""

    train: TrainingJob

    def __post_init__(self) -> None:
        self.name = f"{self.train.name}/{TESTS}"
        self.needs = (self.train,)
        self._runs = self.train.runs

    def _missing(self) -> dict[str, str]:
        """Return the prefixes of the test sets without scores, by name."""
        run, metrics = self.train.run, set(self._runs.test_metrics)
        return {
            name: prefix
            for name, prefix in self._runs.test_prefixes(run).items()
            if not metrics <= set(run.scores(name, prefix=prefix))
        }

    def check(self) -> None:
        """Check that the test sets exist, except for a demo corpus, which training makes."""
        run = self.train.example
        for prefix in self._runs.test_prefixes(run).values():
            if not Path(prefix).is_relative_to(run.folder):
                for lang in (run.hp.src, run.hp.tgt):
                    find_file(f"{prefix}.{lang}")

    def is_done(self) -> bool:
        """Return whether all scores exist."""
        return not self._missing()

    def command(self) -> JobCommand:
        """Evaluate on the test sets without scores."""
        run = self.train.run.folder
        (run / TESTS).mkdir(parents=True, exist_ok=True)
        # Translations go to RUN/tests/SET.txt.
        flags = ["--model", f"{TESTS}={run}", "--output", str(run), "--json"]
        flags += ["--metrics", ",".join(self._runs.test_metrics)]
        for name, prefix in self._missing().items():
            flags += ["--test", f"{name}={prefix}"]
        for flag in ("meteor_jar", "beer", "java"):
            value = getattr(self._runs.programs, flag)
            if value not in (None, "java"):
                flags += [f"--{flag}", value]
        return JobCommand(verb("evaluate", *flags), stdout=run / TESTS / _FOUND)

    def progress(self) -> str:
        """Return the test sets without scores."""
        return f"translating {', '.join(self._missing())}"

    def finish(self) -> None:
        """Store the scores on each test set with the checksums of its files."""
        run = self.train.run
        output = run.folder / TESTS / _FOUND
        read = run_directory.read_json(output)
        if not read:
            raise UserError(f"{output} is not the output of evaluate.")
        (found,) = read["systems"]
        for name, prefix in self._missing().items():
            kept = {
                "prefix": prefix,
                "files": run.checksums(prefix),
                "weights": found["weights"],
                "lines": found["sets"][name]["lines"],
                "scores": found["sets"][name]["scores"],
            }
            atomic_writes.write_json(run.folder / TESTS / f"{name}.json", kept)
        output.unlink()
        super().finish()


def make(runs: PlanRuns) -> list[Job]:
    """Return the jobs of an experiment, each after those that it needs."""
    found: dict[str, Job] = {}

    def add(job: Job) -> None:
        for need in job.needs:
            add(need)
        found.setdefault(job.name, job)

    for system in runs.wanted:
        for seed in runs.seeds_of(system):
            add(EvaluationJob(TrainingJob(runs, system, seed)))
    return list(found.values())
