"""Runs the jobs of an experiment that are not done, several at a time, each as a process."""

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.experiments import processes
from aevnmt_tf.experiments.processes import JobCommand

POLL = 0.2  # seconds between checks of the processes
HEARTBEAT = 60  # seconds between progress reports


class Job:
    """One step of an experiment, which runs as one process.

    A job derives its state from the disk alone, so a killed experiment can continue.
    """

    name: str
    needs: tuple["Job", ...] = ()

    def check(self) -> None:
        """Raise a UserError if the job cannot run, for example because a file is missing."""

    def is_done(self) -> bool:
        """Return whether nothing is left to do; called when the needed jobs are done."""
        raise NotImplementedError

    def has_begun(self) -> bool:
        """Return whether there is something to continue from."""
        return False

    def command(self) -> JobCommand:
        """Return the command to run."""
        raise NotImplementedError

    def finish(self) -> None:
        """Complete the job after its command has succeeded; a UserError if it is not done."""
        if not self.is_done():
            raise UserError(f"{self.name}: the command succeeded, but its output is missing.")

    def progress(self) -> str:
        """Describe the progress briefly."""
        return ""

    def outcome(self) -> str:
        """Describe the result briefly."""
        return ""


def state(job: Job) -> str:
    """Return the state of a job: "done", "begun" or "to do"."""
    if all(state(need) == "done" for need in job.needs):
        if job.is_done():
            return "done"
        if job.has_begun():
            return "begun"
    return "to do"


def verb(name: str, *flags: str) -> list[str]:
    """Return the command line of a verb."""
    return [sys.executable, "-m", f"aevnmt_tf.{name}", *flags]


@dataclass
class JobOutcomes:
    """The outcomes of jobs, by name."""

    found: list[str] = field(default_factory=list)  # done before
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # with the reason
    blocked: dict[str, str] = field(default_factory=dict)  # with the job that is missing

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
    place: int  # which share of the cores it has
    said: str = ""  # the progress last reported


@dataclass
class Scheduler:
    """Runs jobs after those that they need."""

    jobs: Sequence[Job]  # in the order in which they should start
    at_once: int  # concurrent processes, which share the cores
    logs: Path  # folder for their output
    report: processes.Report  # called with a sentence about each start and end
    locks: Sequence[int] = ()  # descriptors that the processes inherit

    def __post_init__(self) -> None:
        self._waiting = list(self.jobs)
        self._cores = processes.shares_of_cores(self.at_once)
        self._running: list[_Running] = []
        self._outcome = JobOutcomes()

    def run(self) -> JobOutcomes:
        """Run all jobs; a failure is reported and does not stop the others.

        On an interruption, the processes save and stop before it is raised.
        """
        last = time.monotonic()
        try:
            while self._waiting or self._running:
                if time.monotonic() - last >= HEARTBEAT:
                    last = time.monotonic()
                    self._say_progress()
                if not self._start_one() and not self._end_some():
                    time.sleep(POLL)
        except BaseException:
            if self._running:
                names = ", ".join(one.job.name for one in self._running)
                self.report(f"stopping {names}; they save first")
            processes.stop(one.process for one in self._running)
            raise
        return self._outcome

    def _start_one(self) -> bool:
        """Take the first job that can start from the queue; return whether there was one."""
        done = {*self._outcome.found, *self._outcome.done}
        lost = {*self._outcome.failed, *self._outcome.blocked}
        is_full = len(self._running) >= len(self._cores)
        for job in self._waiting:
            needs = [need.name for need in job.needs]
            missing = next((name for name in needs if name in lost), None)
            if missing is not None:
                self._outcome.blocked[job.name] = missing
                self._say(job, f"not done: it needs {missing}")
            elif not is_full and done.issuperset(needs):
                self._begin(job)
            else:
                continue
            self._waiting.remove(job)
            return True
        return False

    def _begin(self, job: Job) -> None:
        """Start a job unless it is done."""
        try:
            if job.is_done():
                self._outcome.found.append(job.name)
                self._say(job, _with("was done before", job.outcome()))
            else:
                self._launch(job)
        except (UserError, OSError) as error:
            self._outcome.failed[job.name] = str(error)
            self._say(job, f"FAILED: {error}")

    def _launch(self, job: Job) -> None:
        command = job.command()
        log = self.logs / f"{job.name.replace('/', '.')}.log"
        taken = {one.place for one in self._running}
        place = next(i for i in range(len(self._cores)) if i not in taken)
        process = processes.start(command, log=log, locks=self.locks, cores=self._cores[place])
        self._running.append(_Running(job, process, log, time.monotonic(), place))
        self._say(job, f"started (log: {log})")

    def _end_some(self) -> bool:
        """Handle the processes that have ended; return whether there were any."""
        ended = [one for one in self._running if one.process.poll() is not None]
        for one in ended:
            self._running.remove(one)
            why = self._why_failed(one)
            if why is None:
                self._outcome.done.append(one.job.name)
                minutes, seconds = divmod(round(time.monotonic() - one.start), 60)
                self._say(one.job, _with(f"done in {minutes}:{seconds:02d}", one.job.outcome()))
            else:
                self._outcome.failed[one.job.name] = why
                self._say(one.job, f"FAILED: {why} (log: {one.log})")
        return bool(ended)

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
        self.report(f"[{len(ended)}/{len(self.jobs)}] {job.name}: {sentence}")


def _with(sentence: str, more: str) -> str:
    return f"{sentence}: {more}" if more else sentence
