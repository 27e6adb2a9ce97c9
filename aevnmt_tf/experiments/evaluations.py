"""The scores of runs on test sets: making them, and finding those that are there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aevnmt_tf import hparams_files, run_directory
from aevnmt_tf.analysis import external_metrics
from aevnmt_tf.data.pairs import find_file
from aevnmt_tf.errors import UserError
from aevnmt_tf.experiments import processes
from aevnmt_tf.experiments.plan import OWN_TEST, Plan
from aevnmt_tf.experiments.runs import TESTS, Run, read_json
from aevnmt_tf.experiments.steps import Train
from aevnmt_tf.experiments.table_plan import ONLY_DEV, OWN_DEV
from aevnmt_tf.experiments.task import Command, Task

_FOUND = ".evaluation.json"  # what evaluate has printed


@dataclass
class Evaluate(Task):
    """Translate a finished run's test sets and score them."""

    train: Train
    metrics: Sequence[str]
    programs: external_metrics.Programs
    name: str = field(init=False)
    needs: tuple[Task, ...] = field(init=False)

    def __post_init__(self):
        self.name = f"{self.train.name}/{TESTS}"
        self.needs = (self.train,)

    def _missing(self) -> dict[str, str]:
        """The prefixes of the test sets that are not scored yet, by name."""
        run = self.train.run
        wanted = test_prefixes(self.train.runs.plan, run)
        metrics = scored_metrics(self.metrics, self.programs)
        return {
            name: prefix
            for name, prefix in wanted.items()
            if metrics and not set(metrics) <= set(scores(run, name, prefix=prefix) or ())
        }

    def check(self) -> None:
        """The test sets must be there; a demo corpus is made by training."""
        run = self.train.example
        for prefix in test_prefixes(self.train.runs.plan, run).values():
            if not Path(prefix).is_relative_to(run.folder):
                for lang in (run.hp.src, run.hp.tgt):
                    find_file(f"{prefix}.{lang}")

    def is_done(self) -> bool:
        """Whether every score is there."""
        return not self._missing()

    def command(self) -> Command:
        """Evaluate what is missing."""
        run = self.train.run.folder
        (run / TESTS).mkdir(parents=True, exist_ok=True)
        # Translations go to RUN/tests/SET.txt.
        flags = ["--model", f"{TESTS}={run}", "--output", str(run), "--json"]
        flags += ["--metrics", ",".join(scored_metrics(self.metrics, self.programs))]
        for name, prefix in self._missing().items():
            flags += ["--test", f"{name}={prefix}"]
        for flag in ("meteor_jar", "beer", "java"):
            value = getattr(self.programs, flag)
            if value not in (None, "java"):
                flags += [f"--{flag}", value]
        return Command(processes.verb("evaluate", *flags), stdout=run / TESTS / _FOUND)

    def progress(self) -> str:
        """Which sets are missing."""
        return f"translating {', '.join(self._missing())}"

    def finish(self) -> None:
        """Keep the scores of each set with the checksums of its files."""
        folder = self.train.run.folder / TESTS
        read = read_json(folder / _FOUND)
        if read is None:
            raise UserError(f"{folder / _FOUND} has no result of evaluate")
        (found,) = read["systems"]
        for name, prefix in self._missing().items():
            kept = {
                "prefix": prefix,
                "files": _checksums(prefix, self.train.run),
                "weights": found["weights"],
                "lines": found["sets"][name]["lines"],
                "scores": found["sets"][name]["scores"],
            }
            hparams_files.write(folder / f"{name}.json", kept)
        (folder / _FOUND).unlink()
        if self._missing():
            raise UserError(f"{folder} has not all scores")


def test_prefixes(plan: Plan, run: Run) -> dict[str, str]:
    """The prefixes of the test sets of a run by name, without @dev."""
    found = {}
    for name in run.system.tests:
        prefix = plan.tests[name]
        if prefix == OWN_TEST:
            own = run.hp.test_prefix
            if run.hp.train_prefix is None and own is None:
                own = str(run.folder / "demo" / "test")
            if own is None or not isinstance(own, str):
                what = "no test_prefix" if own is None else "several prefixes in test_prefix"
                raise UserError(
                    f"{plan.path}, tests, {name}: system {run.system.name} has {what}, so "
                    f"{OWN_TEST} says nothing; give the prefix"
                )
            prefix = _raw(own)
        if prefix != OWN_DEV:
            found[name] = prefix
    return found


def _raw(prefix: str) -> str:
    """The prefix of the raw text where this one is of text that the Moses pipeline made."""
    if not (Path(prefix).parent / "manifest.json").is_file():
        return prefix
    from aevnmt_tf.data import manifest  # slow to import, and few need it

    return manifest.raw_prefixes(prefix)[0]


def scored_metrics(
    metrics: Sequence[str], programs: external_metrics.Programs
) -> tuple[str, ...]:
    """The metrics that can be computed on test sets."""
    able = [n for n in metrics if n not in external_metrics.NAMES or n in programs.names]
    return tuple(name for name in able if name not in ONLY_DEV)


def scores(run: Run, test: str, *, prefix: str) -> dict[str, dict] | None:
    """The scores of a run on a test set by metric; None where the set has not been scored."""
    kept = read_json(run.folder / TESTS / f"{test}.json")
    if kept is None or kept.get("prefix") != prefix or _other_weights(kept, run):
        return None
    try:
        same = kept["files"] == _checksums(prefix, run)
    except (UserError, OSError):
        same = True  # the test set is gone; what it said about the run is still true
    return kept["scores"] if same else None


def _other_weights(kept: dict, run: Run) -> bool:
    """Whether the run has gone on since: its weights are not those that were scored."""
    try:
        weights = run_directory.find_weights(run.folder)
    except UserError:
        return False  # they are gone; what was said about them is still true
    return kept.get("weights") != f"{weights.parent.name}/{weights.name}"


def _checksums(prefix: str, run: Run) -> dict[str, int]:
    return {
        lang: run_directory.checksum(find_file(f"{prefix}.{lang}"))
        for lang in (run.hp.src, run.hp.tgt)
    }
