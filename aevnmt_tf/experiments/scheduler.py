"""Runs the jobs of an experiment: what is missing, some at a time, each in a process."""

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.experiments import processes
from aevnmt_tf.experiments.processes import JobCommand

POLL = 0.2  # seconds between looks at the processes
HEARTBEAT = 60  # seconds between reports of how far they are


class Job:
    """One step of an experiment, which one process does.

    A job knows from the disk alone whether it is done, so that a killed experiment goes on.
    """

    name: str
    needs: tuple["Job", ...] = ()

    def check(self) -> None:
        """Raise a UserError where it cannot work, such as for a file that is not there."""

    def is_done(self) -> bool:
        """Return whether there is nothing left to do; asked when the needed jobs are done."""
        raise NotImplementedError

    def has_begun(self) -> bool:
        """Return whether a part of it is there to go on from."""
        return False

    def command(self) -> JobCommand:
        """Return what to run."""
        raise NotImplementedError

    def finish(self) -> None:
        """Complete the job after its command has succeeded; a UserError where it has not."""
        if not self.is_done():
            raise UserError(f"{self.name} has ended well, but has not left what it should.")

    def progress(self) -> str:
        """Return how far it is, in a few words."""
        return ""

    def outcome(self) -> str:
        """Return what came out of it, in a few words."""
        return ""


def state(job: Job) -> str:
    """Return how far a job is: "done", "begun" or "to do"."""
    if all(state(need) == "done" for need in job.needs):
        if job.is_done():
            return "done"
        if job.has_begun():
            return "begun"
    return "to do"


def verb(name: str, *flags: str) -> list[str]:
    """Return the command of a verb with its flags."""
    return [sys.executable, "-m", f"aevnmt_tf.{name}", *flags]


@dataclass
class JobOutcomes:
    """What became of the jobs, by name."""

    found: list[str] = field(default_factory=list)  # done before
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # and why
    blocked: dict[str, str] = field(default_factory=dict)  # by which job

    @property
    def is_good(self) -> bool:
        """Whether everything is done."""
        return not self.failed and not self.blocked


@dataclass
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    log: Path
    start: float
    place: int  # which of the shares of cores it has
    said: str = ""  # how far it was when that was last reported


class Scheduler:
    """Runs jobs after what they need.

    Args:
        jobs: in the order in which they should start.
        at_once: how many processes at a time, each on its share of the cores.
        logs: the folder for what they print.
        report: called with a sentence about each start and end.
        locks: descriptors that the processes hold, too.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        at_once: int,
        logs: Path,
        report: processes.Report,
        locks: Iterable[int] = (),
    ):
        self._waiting, self._total = list(jobs), len(jobs)
        self._logs, self._report, self._locks = logs, report, tuple(locks)
        self._cores = processes.shares_of_cores(at_once)
        self._running: list[_Running] = []
        self._outcome = JobOutcomes()

    def run(self) -> JobOutcomes:
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
                names = ", ".join(one.job.name for one in self._running)
                self._report(f"stopping {names}; they save first")
            processes.stop(one.process for one in self._running)
            raise
        return self._outcome

    def _start_some(self) -> int:
        """Start what can start; return how many jobs have left the queue."""
        left = 0
        for job in list(self._waiting):
            # Anew for each: what is found to be done lets the next one start.
            done = {*self._outcome.found, *self._outcome.done}
            lost = {*self._outcome.failed, *self._outcome.blocked}
            missing = [need.name for need in job.needs if need.name in lost]
            if missing:
                self._outcome.blocked[job.name] = missing[0]
                self._say(job, f"not done: it needs {missing[0]}")
            elif any(need.name not in done for need in job.needs):
                continue
            elif not self._begin(job):
                continue
            self._waiting.remove(job)
            left += 1
        return left

    def _begin(self, job: Job) -> bool:
        """Start a job, or find that it is done; False: all places are taken."""
        if len(self._running) >= len(self._cores):
            return False
        try:
            if job.is_done():
                self._outcome.found.append(job.name)
                self._say(job, _with("was done before", job.outcome()))
                return True
            self._running.append(self._launch(job))
        except (UserError, OSError) as error:
            self._outcome.failed[job.name] = str(error)
            self._say(job, f"FAILED: {error}")
        return True

    def _launch(self, job: Job) -> _Running:
        command = job.command()
        log = self._logs / f"{job.name.replace('/', '.')}.log"
        taken = {one.place for one in self._running}
        place = next(i for i in range(len(self._cores)) if i not in taken)
        process = processes.start(command, log=log, locks=self._locks, cores=self._cores[place])
        self._say(job, f"started (log: {log})")
        return _Running(job, process, log, time.monotonic(), place)

    def _end_some(self) -> int:
        """See which processes have ended; return how many."""
        ended = [one for one in self._running if one.process.poll() is not None]
        for one in ended:
            self._running.remove(one)
            why = self._why_failed(one)
            if why is None:
                self._outcome.done.append(one.job.name)
                minutes, seconds = divmod(round(time.monotonic() - one.start), 60)
                spent = f"done in {minutes}:{seconds:02d}"
                self._say(one.job, _with(spent, one.job.outcome()))
            else:
                self._outcome.failed[one.job.name] = why
                self._say(one.job, f"FAILED: {why} (log: {one.log})")
        return len(ended)

    def _why_failed(self, one: _Running) -> str | None:
        code = one.process.returncode
        if code == 0:
            try:
                one.job.finish()
                return None
            except (UserError, OSError) as error:
                return str(error)
        words = processes.last_words(one.log)
        if code < 0:
            return _with(f"killed by signal {-code}", words)
        return words or f"exit code {code}"

    def _say_progress(self) -> None:
        for one in self._running:
            if (progress := one.job.progress()) != one.said:
                one.said = progress
                self._say(one.job, progress)

    def _say(self, job: Job, sentence: str) -> None:
        outcome = self._outcome
        ended = [*outcome.found, *outcome.done, *outcome.failed, *outcome.blocked]
        self._report(f"[{len(ended)}/{self._total}] {job.name}: {sentence}")


def _with(sentence: str, more: str) -> str:
    return f"{sentence}: {more}" if more else sentence
