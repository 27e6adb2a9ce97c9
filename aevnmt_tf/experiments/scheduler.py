"""Runs the steps of an experiment: what is missing, some at a time, each in a process."""

import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from aevnmt_tf.errors import UserError
from aevnmt_tf.experiments import processes
from aevnmt_tf.experiments.task import Task

POLL = 0.2  # seconds between looks at the processes
HEARTBEAT = 60  # seconds between reports of how far they are


@dataclass
class Outcome:
    """What became of the tasks, by name."""

    found: list[str] = field(default_factory=list)  # done before
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # and why
    blocked: dict[str, str] = field(default_factory=dict)  # by which task

    @property
    def is_good(self) -> bool:
        """Whether everything is done."""
        return not self.failed and not self.blocked


@dataclass
class _Running:
    task: Task
    process: subprocess.Popen
    log: Path
    start: float
    place: int  # which of the shares of cores it has
    said: str = ""  # how far it was when that was last reported


class Scheduler:
    """Runs tasks after what they need.

    Args:
        tasks: in the order in which they should start.
        jobs: how many processes at a time, each on its share of the cores.
        logs: the folder for what they print.
        report: called with a sentence about each start and end.
        locks: descriptors that the processes hold, too.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        jobs: int,
        logs: Path,
        report: Callable[[str], object],
        locks: Iterable[int] = (),
    ):
        self._waiting, self._total = list(tasks), len(tasks)
        self._logs, self._report, self._locks = logs, report, tuple(locks)
        self._cores = processes.shares_of_cores(jobs)
        self._running: list[_Running] = []
        self._outcome = Outcome()

    def run(self) -> Outcome:
        """Run everything; a failure is reported, and the rest goes on.

        On an interruption the processes are asked to save and stop before it is raised.
        """
        last = time.monotonic()
        try:
            while self._waiting or self._running:
                moved = self._start_some() + self._end_some()
                if time.monotonic() - last >= HEARTBEAT:
                    last = time.monotonic()
                    self._say_progress()
                if not moved:
                    time.sleep(POLL)
        except BaseException:
            if self._running:
                names = ", ".join(one.task.name for one in self._running)
                self._report(f"stopping {names}; they save first")
            processes.stop(one.process for one in self._running)
            raise
        return self._outcome

    def _start_some(self) -> int:
        """Start what can start; return how many tasks have left the queue."""
        left = 0
        for task in list(self._waiting):
            # Anew for each: what is found to be done lets the next one start.
            done = {*self._outcome.found, *self._outcome.done}
            lost = {*self._outcome.failed, *self._outcome.blocked}
            missing = [need.name for need in task.needs if need.name in lost]
            if missing:
                self._outcome.blocked[task.name] = missing[0]
                self._say(task, f"not done: it needs {missing[0]}")
            elif any(need.name not in done for need in task.needs):
                continue
            elif not self._begin(task):
                continue
            self._waiting.remove(task)
            left += 1
        return left

    def _begin(self, task: Task) -> bool:
        """Start a task, or find that it is done; False: all places are taken."""
        if len(self._running) >= len(self._cores):
            return False
        try:
            if task.is_done():
                self._outcome.found.append(task.name)
                self._say(task, _with("was done before", task.outcome()))
                return True
            self._running.append(self._launch(task))
        except (UserError, OSError) as error:
            self._outcome.failed[task.name] = str(error)
            self._say(task, f"FAILED: {error}")
        return True

    def _launch(self, task: Task) -> _Running:
        command = task.command()
        log = self._logs / f"{task.name.replace('/', '.')}.log"
        with ExitStack() as stack:
            files = {}
            if command.stdin is not None:
                files["stdin"] = stack.enter_context(open(command.stdin, "rb"))
            if command.stdout is not None:
                mode = "ab" if command.adds else "wb"
                files["stdout"] = stack.enter_context(open(command.stdout, mode))
            taken = {one.place for one in self._running}
            place = next(i for i in range(len(self._cores)) if i not in taken)
            process = processes.start(
                command.words, log=log, locks=self._locks, cores=self._cores[place], **files
            )
        self._say(task, f"started (log: {log})")
        return _Running(task, process, log, time.monotonic(), place)

    def _end_some(self) -> int:
        """See which processes have ended; return how many."""
        ended = [one for one in self._running if one.process.poll() is not None]
        for one in ended:
            self._running.remove(one)
            why = self._why_failed(one)
            if why is None:
                self._outcome.done.append(one.task.name)
                minutes, seconds = divmod(round(time.monotonic() - one.start), 60)
                spent = f"done in {minutes}:{seconds:02d}"
                self._say(one.task, _with(spent, one.task.outcome()))
            else:
                self._outcome.failed[one.task.name] = why
                self._say(one.task, f"FAILED: {why} (log: {one.log})")
        return len(ended)

    def _why_failed(self, one: _Running) -> str | None:
        code = one.process.returncode
        if code == 0:
            try:
                one.task.finish()
                return None
            except (UserError, OSError) as error:
                return str(error)
        words = processes.last_words(one.log)
        if code < 0:
            return _with(f"killed by signal {-code}", words)
        return words or f"exit code {code}"

    def _say_progress(self) -> None:
        for one in self._running:
            if (progress := one.task.progress()) != one.said:
                one.said = progress
                self._say(one.task, progress)

    def _say(self, task: Task, sentence: str) -> None:
        outcome = self._outcome
        ended = [*outcome.found, *outcome.done, *outcome.failed, *outcome.blocked]
        self._report(f"[{len(ended)}/{self._total}] {task.name}: {sentence}")


def _with(sentence: str, more: str) -> str:
    return f"{sentence}: {more}" if more else sentence
