"""One run of an experiment: what its folder says about it."""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.experiments.plan_keys import PlannedSystem
from aevnmt_tf.storage import run_directory
from aevnmt_tf.storage.text_files import find_file

TESTS = "tests"  # folder of a run's scores on test sets
# Settings that change neither what is learnt nor what is found; training never reads test sets.
UNREMARKABLE = (
    *("out_dir", "note", "test_prefix"),
    *("infer_batch_size", "jit_compile", "distribute"),
)
BUDGETS = ("max_steps", "max_minutes")  # may change as long as the run stays within them


@dataclass(frozen=True)
class PlannedRun:
    """One training run: a system with a seed, and a point of its grid if it has one.

    `unprepared` are the settings with the raw corpora, `hp` those with prepared ones.
    """

    system: PlannedSystem
    seed: int
    hp: hparams.Hparams
    unprepared: hparams.Hparams
    name: str

    @property
    def folder(self) -> Path:
        """The run's directory."""
        return Path(str(self.hp.out_dir))

    def results(self) -> dict[str, Any]:
        """Return the content of results.json, or nothing if it is missing."""
        return run_directory.read_json(self.folder / run_directory.RESULTS)

    def is_finished(self) -> bool:
        """Return whether results.json belongs to the last checkpoint and these settings."""
        results = self.results()
        if not results or not (self.folder / run_directory.HPARAMS).is_file():
            return False
        # A resumed run keeps its old results until it ends.
        checkpoints = run_directory.listing(self.folder / run_directory.CHECKPOINTS)
        if checkpoints and run_directory.step_of(checkpoints[-1]) != results.get("step"):
            return False
        return not self.changes() and not self._would_continue(results)

    def _would_continue(self, results: Mapping[str, Any]) -> bool:
        """Return whether training would make more updates with the current settings."""
        budget = cut_by(results)
        if budget is None:
            return results.get("step", 0) < self.hp.num_train_steps
        limit = getattr(self.hp, budget)
        return limit is None or _used(results)[budget] < limit

    def changes(self) -> dict[str, tuple[Any, Any]]:
        """Return the settings that differ from those of the folder: name -> (there, here).

        Training may become longer, unless the learning rate depends on its length.
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
        """Raise a UserError if the folder contains a run with other settings."""
        shown = ", ".join(
            f"{name}: {json.dumps(there)} there, {json.dumps(here)} now"
            for name, (there, here) in self.changes().items()
        )
        if shown:
            raise UserError(
                f"{self.folder} contains a run with other settings ({shown}); choose another "
                "--out, or remove the folder to train again."
            )

    def weights(self) -> str | None:
        """Return the name of the weights that commands load, such as best/step-000000020."""
        try:
            found = run_directory.find_weights(self.folder)
        except UserError:
            return None
        return f"{found.parent.name}/{found.name}"

    def scores(self, test: str, *, prefix: str) -> dict[str, dict[str, Any]]:
        """Return the scores on a test set by metric; none if weights or files have changed.

        If weights or files no longer exist, the scores are still valid.
        """
        kept = run_directory.read_json(self.folder / TESTS / f"{test}.json")
        if kept.get("prefix") != prefix or self.weights() not in (None, kept.get("weights")):
            return {}
        try:
            return kept["scores"] if kept["files"] == self.checksums(prefix) else {}
        except (UserError, OSError):
            return kept["scores"]

    def checksums(self, prefix: str) -> dict[str, int]:
        """Return the checksums of a test set's files, by language."""
        langs = (self.hp.src, self.hp.tgt)
        return {lang: checksum(find_file(f"{prefix}.{lang}")) for lang in langs}


def cut_by(results: Mapping[str, Any]) -> str | None:
    """Return the budget that ended a run, according to results.json; None: no budget."""
    reason = results.get("reason") or ""
    return next((name for name in BUDGETS if reason.startswith(name)), None)


def _used(results: Mapping[str, Any]) -> dict[str, float]:
    """Return how much of each budget a run has used so far."""
    minutes = results.get("wall_time_seconds", 0.0) / 60
    return {"max_steps": results.get("step", 0), "max_minutes": minutes}


def checksum(path: Path) -> int:
    """Return the checksum of a file, computed once as long as the file does not change."""
    stat = path.stat()
    return _checksum(path, stat.st_size, stat.st_mtime_ns)


@functools.cache
def _checksum(path: Path, size: int, time: int) -> int:
    return run_directory.checksum(path)
