"""One step of an experiment."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Command:
    """A command to run, what it reads and where its output goes (None: into the log)."""

    words: Sequence[str]
    stdin: Path | None = None
    stdout: Path | None = None
    adds: bool = False  # to what stdout holds


class Task:
    """One step of an experiment, which one process does.

    A task knows from the disk alone whether it is done, so that a killed experiment goes on.
    """

    name: str
    needs: tuple["Task", ...] = ()

    def check(self) -> None:
        """A UserError where it cannot work, such as for a file that is not there."""

    def is_done(self) -> bool:
        """Whether there is nothing left to do; asked when the needed tasks are done."""
        raise NotImplementedError

    def has_begun(self) -> bool:
        """Whether a part of it is there to go on from."""
        return False

    def command(self) -> Command:
        """What to run."""
        raise NotImplementedError

    def finish(self) -> None:
        """Called after the command has succeeded; a UserError where it has not worked."""

    def progress(self) -> str:
        """How far it is, in a few words."""
        return ""

    def outcome(self) -> str:
        """What came out of it, in a few words."""
        return ""


def state(task: Task) -> str:
    """How far a task is: "done", "begun" or "to do"."""
    if all(state(need) == "done" for need in task.needs):
        if task.is_done():
            return "done"
        if task.has_begun():
            return "begun"
    return "to do"
