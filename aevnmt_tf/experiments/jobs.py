"""The jobs of an experiment and what each needs; training and evaluation."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data import corpora
from aevnmt_tf.evaluation import external_metrics
from aevnmt_tf.experiments.experiment_plan import ONLY_DEV, OWN_DEV, OWN_TEST
from aevnmt_tf.experiments.plan_keys import ExperimentPlan, PlannedSystem
from aevnmt_tf.experiments.plan_runs import MODELS, PREPARED, PlanRun, PlanRuns, Point
from aevnmt_tf.experiments.processes import JobCommand
from aevnmt_tf.experiments.scheduler import Job, verb
from aevnmt_tf.experiments.text_jobs import BackTranslationJob, PreparationJob, checksum
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.plots import training_curves
from aevnmt_tf.storage import atomic_writes, run_directory
from aevnmt_tf.storage.text_files import find_file

TESTS = "tests"  # the folder of a run's scores on test sets
_FOUND = ".evaluation.json"  # what evaluate has printed
AnyJob = TypeVar("AnyJob", bound=Job)


@dataclass
class TrainingJob(Job):
    """Trains a system with a seed; `point` None: with the settings that its grid has chosen."""

    runs: PlanRuns
    system: PlannedSystem
    seed: int
    settings: Path  # the folder for the files that jobs are started with
    point: Point | None = None
    needs: tuple[Job, ...] = ()

    def __post_init__(self) -> None:
        chosen = f"{self.system.name}/chosen/seed{self.seed}"
        self.name = chosen if self.point is None else self.run.name

    @property
    def run(self) -> PlanRun:
        """The run; an error before the grid has chosen."""
        if self.point is None:
            return self.runs.final_run(self.system, seed=self.seed)
        return self.runs.run(self.system, seed=self.seed, point=self.point)

    @property
    def example(self) -> PlanRun:
        """A run of this system: the run itself as soon as it is known."""
        if self.point is None:
            return self.runs.example(self.system, seed=self.seed)
        return self.run

    def check(self) -> None:
        """Find the training text, unless a job prepares it."""
        if self.runs.plan.prepare is None:
            corpora.find_corpora(self.example.hp, kinds=("train", "dev"))

    def has_begun(self) -> bool:
        """Return whether it has a checkpoint."""
        return bool(run_directory.listing(self.run.folder / run_directory.CHECKPOINTS))

    def is_done(self) -> bool:
        """Return whether the run is finished; a UserError if its folder holds another one."""
        self.run.refuse_changes()
        return self.run.is_finished()

    def command(self) -> JobCommand:
        """Train with a file of all settings."""
        path = self.settings / f"{self.run.name}.json"
        self.run.hp.save(path)
        return JobCommand(verb("train", "--hparams", str(path)))

    def progress(self) -> str:
        """Return the last step that was reported, and the best score on dev before it."""
        reports = training_curves.reports(self.run.folder / run_directory.METRICS)
        if not reports:
            return "starting"
        hp, step = self.run.hp, reports[-1]["step"]
        end = min(hp.num_train_steps, hp.max_steps or hp.num_train_steps)
        said = f"step {step} of {end}" if step <= end else f"step {step}"
        bleus = [report["dev_bleu"] for report in reports if "dev_bleu" in report]
        return f"{said}, best dev BLEU {max(bleus):.2f}" if bleus else said

    def outcome(self) -> str:
        """Return the best score on dev."""
        best = self.run.results().get("best")
        return f"dev BLEU {best['dev_bleu']:.2f} at step {best['step']}" if best else ""


@dataclass
class EvaluationJob(Job):
    """Translates a finished run's test sets and scores them."""

    train: TrainingJob
    programs: external_metrics.Programs

    def __post_init__(self) -> None:
        self.name = f"{self.train.name}/{TESTS}"
        self.needs = (self.train,)
        self._plan = self.train.runs.plan
        self._metrics = scored_metrics(self._plan.metrics, self.programs)

    def _missing(self) -> dict[str, str]:
        """Return the prefixes of the test sets that are not scored yet, by name."""
        run = self.train.run
        return {
            name: prefix
            for name, prefix in test_prefixes(self._plan, run).items()
            if not set(self._metrics) <= set(scores(run, name, prefix=prefix))
        }

    def check(self) -> None:
        """Find the test sets; a demo corpus is made by training."""
        run = self.train.example
        for prefix in test_prefixes(self._plan, run).values():
            if not Path(prefix).is_relative_to(run.folder):
                for lang in (run.hp.src, run.hp.tgt):
                    find_file(f"{prefix}.{lang}")

    def is_done(self) -> bool:
        """Return whether every score is there."""
        return not self._missing()

    def command(self) -> JobCommand:
        """Evaluate what is missing."""
        run = self.train.run.folder
        (run / TESTS).mkdir(parents=True, exist_ok=True)
        # Translations go to RUN/tests/SET.txt.
        flags = ["--model", f"{TESTS}={run}", "--output", str(run), "--json"]
        flags += ["--metrics", ",".join(self._metrics)]
        for name, prefix in self._missing().items():
            flags += ["--test", f"{name}={prefix}"]
        for flag in ("meteor_jar", "beer", "java"):
            value = getattr(self.programs, flag)
            if value not in (None, "java"):
                flags += [f"--{flag}", value]
        return JobCommand(verb("evaluate", *flags), stdout=run / TESTS / _FOUND)

    def progress(self) -> str:
        """Return which sets are missing."""
        return f"translating {', '.join(self._missing())}"

    def finish(self) -> None:
        """Keep the scores of each set with the checksums of its files."""
        folder = self.train.run.folder / TESTS
        read = run_directory.read_json(folder / _FOUND)
        if not read:
            raise UserError(f"{folder / _FOUND} has no result of evaluate.")
        (found,) = read["systems"]
        for name, prefix in self._missing().items():
            kept = {
                "prefix": prefix,
                "files": checksums(prefix, self.train.run),
                "weights": found["weights"],
                "lines": found["sets"][name]["lines"],
                "scores": found["sets"][name]["scores"],
            }
            atomic_writes.write_json(folder / f"{name}.json", kept)
        (folder / _FOUND).unlink()
        super().finish()


def test_prefixes(plan: ExperimentPlan, run: PlanRun) -> dict[str, str]:
    """Return the prefixes of the test sets of a run by name, without @dev."""
    found = {name: plan.tests[name] for name in run.system.tests}
    for name, prefix in found.items():
        if prefix == OWN_TEST:
            own = run.unprepared.test_prefix
            if run.hp.train_prefix is None and own is None:
                own = str(run.folder / "demo" / "test")
            if not isinstance(own, str):
                what = "no test_prefix" if own is None else "several prefixes in test_prefix"
                raise UserError(
                    f"{plan.path}, tests, {name}: system {run.system.name} has {what}, so "
                    f"{OWN_TEST} says nothing; give the prefix."
                )
            found[name] = _raw(run.hp, own)
    return {name: prefix for name, prefix in found.items() if prefix != OWN_DEV}


def _raw(hp: Hparams, prefix: str) -> str:
    """Return the prefix of the raw text of a prefix that the Moses pipeline has written."""
    if not (Path(prefix).parent / "manifest.json").is_file():
        return prefix
    from aevnmt_tf.data import preparation_manifest  # slow to import, and few need it

    return preparation_manifest.readable_prefixes(hp, prefix)[0]


def scored_metrics(
    metrics: Sequence[str], programs: external_metrics.Programs
) -> tuple[str, ...]:
    """Return the metrics that can be computed on test sets."""
    lacking = {*ONLY_DEV, *external_metrics.NAMES} - set(programs.names)
    return tuple(name for name in metrics if name not in lacking)


def scores(run: PlanRun, test: str, *, prefix: str) -> dict[str, dict[str, Any]]:
    """Return the scores of a run on a test set by metric; none where they are of another state.

    If weights or files are gone, what was said about them is still true.
    """
    kept = run_directory.read_json(run.folder / TESTS / f"{test}.json")
    if kept.get("prefix") != prefix:
        return {}
    try:
        weights = run_directory.find_weights(run.folder)
        if kept.get("weights") != f"{weights.parent.name}/{weights.name}":
            return {}
    except UserError:
        pass
    try:
        return kept["scores"] if kept["files"] == checksums(prefix, run) else {}
    except (UserError, OSError):
        return kept["scores"]


def checksums(prefix: str, run: PlanRun) -> dict[str, int]:
    """Return the checksums of a test set's files, by language."""
    return {lang: checksum(find_file(f"{prefix}.{lang}")) for lang in (run.hp.src, run.hp.tgt)}


def make(
    runs: PlanRuns,
    *,
    out: Path,
    programs: external_metrics.Programs,
    only: Collection[str] | None = None,
) -> list[Job]:
    """Return the jobs of an experiment in a good order; `only` are the systems wanted."""
    jobs = _JobList(runs, settings=out / "settings")
    for system in runs.plan.systems.values():
        if only is None or system.name in only:
            for seed in runs.seeds_of(system):
                jobs.add(EvaluationJob(jobs.train_final(system, seed), programs=programs))
    return list(jobs.found.values())


class _JobList:
    """Jobs by name; what a job needs is added before it, and once."""

    def __init__(self, runs: PlanRuns, *, settings: Path):
        self._runs, self._settings = runs, settings
        self.found: dict[str, Job] = {}

    def add(self, job: AnyJob) -> AnyJob:
        """Return the job of this name that is in the list, which may be a new one."""
        return self.found.setdefault(job.name, job)  # type: ignore[return-value]

    def train_final(self, system: PlannedSystem, seed: int) -> TrainingJob:
        """Add the training of a system with its own settings, or those that a grid chooses."""
        return self._train(system, seed, None if self._runs.searched(system).grid else {})

    def _train(self, system: PlannedSystem, seed: int, point: Point | None) -> TrainingJob:
        runs, needs = self._runs, list[Job]()
        if system.synthetic:
            synthetic = runs.plan.synthetic[system.synthetic]
            model = self.train_final(runs.plan.systems[synthetic.model], synthetic.seed)
            needs.append(self.add(BackTranslationJob(runs, synthetic, needs=(model,))))
        job = TrainingJob(runs, system, seed, self._settings, point)
        if runs.plan.prepare is not None:
            needs = [self._prepare(job.example, needs=needs)]
        if point is None:
            needs += self._search(runs.searched(system))
        job.needs = tuple(needs)
        return self.add(job)

    def _search(self, system: PlannedSystem) -> Iterator[TrainingJob]:
        for point in self._runs.points(system):
            for seed in system.grid_seeds:
                yield self._train(system, seed, point)

    def _prepare(self, run: PlanRun, *, needs: list[Job]) -> PreparationJob:
        """Add the learning of the text models, and the segmentation of a run's corpora."""
        runs = self._runs
        assert runs.plan.prepare is not None and runs.shared_settings is not None
        folder, mono = runs.folder / PREPARED / MODELS, runs.plan.prepare.mono
        learning = PreparationJob(folder, runs.shared_settings, self._settings, mono=mono)
        raw = run.unprepared.replace(vocab_prefix=run.hp.vocab_prefix)
        return self.add(
            PreparationJob(
                runs.prepared_folder(raw),
                raw,
                self._settings,
                needs=(self.add(learning), *needs),
            )
        )
