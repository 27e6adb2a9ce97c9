"""Order, failures, interruptions and what happens to processes."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.experiments import processes, scheduler
from aevnmt_tf.experiments.scheduler import Job, JobCommand, Scheduler


class Fake(Job):
    """Runs a line of Python that makes a file."""

    def __init__(self, folder, name, *, needs=(), source="", fails=False):
        self.name, self.needs = name, tuple(needs)
        self.path = folder / name
        self.fails = fails
        self._source = source or f"open({str(self.path)!r}, 'x').write('made')"

    def is_done(self):
        if self.fails:
            raise UserError("refused")
        return self.path.exists()

    def command(self):
        return JobCommand([sys.executable, "-c", self._source])

    def finish(self):
        if not self.path.exists():
            raise UserError("nothing came out")

    def outcome(self):
        return "fine"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "POLL", 0.01)
    said = []

    def call(tasks, jobs=1):
        said.clear()
        logs = tmp_path / "logs"
        outcome = Scheduler(tasks, at_once=jobs, logs=logs, report=said.append).run()
        return outcome, list(said)

    return call


def test_runs_what_is_missing_after_what_it_needs(run, tmp_path):
    (tmp_path / "old").write_text("there")
    before = (tmp_path / "old").stat()
    b = Fake(tmp_path, "b")
    a = Fake(tmp_path, "a", needs=[b], source=f"import os; os.link({str(b.path)!r}, 'a')")
    a._source = f"import os; os.link({str(b.path)!r}, {str(a.path)!r})"  # fails without b
    outcome, said = run([Fake(tmp_path, "old"), a, b], jobs=2)
    assert outcome.is_good
    assert (outcome.found, outcome.done) == (["old"], ["b", "a"])
    assert (tmp_path / "old").stat() == before
    assert said[0] == "[1/3] old: was done before: fine"
    assert said[1].startswith("[1/3] b: started (log: ")
    assert said[-1].startswith("[3/3] a: done in ")


WAIT = "import pathlib, time\nwhile not pathlib.Path({!r}).exists(): time.sleep(0.01)"


def test_progress_is_reported_when_there_is_some(run, tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "HEARTBEAT", 0)
    job = Fake(tmp_path, "slow", source=WAIT.format(str(tmp_path / "slow")))
    asked = []

    def progress():
        asked.append(None)
        if len(asked) == 4:
            job.path.touch()  # the process ends now, and not before
        return "step 100" if len(asked) < 3 else "step 200"

    job.progress = progress
    _, said = run([job])
    assert len(asked) >= 4
    assert said[1:-1] == ["[0/1] slow: step 100", "[0/1] slow: step 200"]


def test_what_is_found_done_lets_the_next_start_before_others(run, tmp_path):
    (tmp_path / "old").write_text("there")
    old = Fake(tmp_path, "old")
    tasks = [old, Fake(tmp_path, "after", needs=[old]), Fake(tmp_path, "other")]
    assert run(tasks)[0].done == ["after", "other"]


def test_a_failure_is_reported_and_the_rest_goes_on(run, tmp_path):
    crash = Fake(tmp_path, "x/crash", source="raise SystemExit('the reason')")
    empty = Fake(tmp_path, "empty", source="pass")
    killed = Fake(tmp_path, "killed", source="import os; os.kill(os.getpid(), 9)")
    blocked = Fake(tmp_path, "blocked", needs=[crash])
    far = Fake(tmp_path, "far", needs=[blocked])
    good = Fake(tmp_path, "good")
    refused = Fake(tmp_path, "refused", fails=True)
    outcome, said = run([crash, empty, killed, refused, blocked, far, good])
    assert not outcome.is_good
    assert outcome.done == ["good"]
    assert outcome.failed == {
        "x/crash": "the reason",
        "empty": "nothing came out",
        "killed": "killed by signal 9",
        "refused": "refused",
    }
    assert outcome.blocked == {"blocked": "x/crash", "far": "blocked"}
    assert any("x/crash: FAILED: the reason (log: " in line for line in said)
    log = (tmp_path / "logs" / "x.crash.log").read_text()
    assert log.startswith("--- 2") and log.endswith("the reason\n")


def test_as_many_at_a_time_as_wanted(run, tmp_path):
    # Each waits for the other, so that they end only if they run together.
    meet = "import time, pathlib; p = pathlib.Path({mine!r}); p.touch()\n"
    meet += "while not pathlib.Path({other!r}).exists(): time.sleep(0.01)"
    paths = [str(tmp_path / name) for name in ("a", "b")]
    pair = [
        Fake(tmp_path, "a", source=meet.format(mine=paths[0], other=paths[1])),
        Fake(tmp_path, "b", source=meet.format(mine=paths[1], other=paths[0])),
    ]
    outcome, _ = run(pair, jobs=2)
    assert sorted(outcome.done) == ["a", "b"]


def test_each_has_its_share_of_the_cores(run, tmp_path, monkeypatch):
    cores = sorted(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(cores[:1]) | {98, 99})
    assert processes.shares_of_cores(1) == [None]
    assert processes.shares_of_cores(4) == [None] * 4  # more processes than cores
    first, second = processes.shares_of_cores(2)
    assert first == {cores[0]} and second == {98, 99}
    monkeypatch.undo()

    write = "import os; open({!r}, 'x').write(str(sorted(os.sched_getaffinity(0))))"
    names = ("a", "b", "c")
    tasks = [Fake(tmp_path, n, source=write.format(str(tmp_path / n))) for n in names]
    run(tasks, jobs=len(cores))
    shares = [str(sorted(share or cores)) for share in processes.shares_of_cores(len(cores))]
    assert all((tmp_path / n).read_text() in shares for n in names)
    assert sorted(os.sched_getaffinity(0)) == cores


STUBBORN = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: ((folder / "saved").write_text("x"), sys.exit(130)))
signal.signal(signal.SIGINT, lambda *_: (folder / "interrupted").write_text("x"))
open(folder / "ready", "w").close()  # the test opens the pipe, too
while True:
    time.sleep(0.01)
"""

OUTER = """
import pathlib, sys
from aevnmt_tf.experiments import processes, scheduler
from aevnmt_tf.experiments.scheduler import Job, JobCommand, Scheduler

class One(Job):
    name = "one"
    def is_done(self): return False
    def command(self): return JobCommand([sys.executable, sys.argv[1], sys.argv[2]])

folder = pathlib.Path(sys.argv[2])
try:
    with processes.termination_is_interruption():
        with processes.all_held([folder, folder], report=print) as locks:
            assert len(locks) == 1
            Scheduler([One()], at_once=1, logs=folder, report=print, locks=locks).run()
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture
def outer(tmp_path):
    """An experiment in a process of its own that runs a process of its own."""
    (tmp_path / "inner.py").write_text(STUBBORN)
    (tmp_path / "outer.py").write_text(OUTER)
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(folder / "ready")
    ready = os.open(folder / "ready", os.O_RDONLY | os.O_NONBLOCK)
    root = str(Path(processes.__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, tmp_path / "outer.py", tmp_path / "inner.py", folder],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert select.select([ready], [], [], 600)[0], "the inner process has not started"
    yield process, folder
    process.kill()
    process.communicate()
    os.close(ready)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_lets_processes_save(outer, number):
    process, folder = outer
    process.send_signal(number)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 130
    assert (folder / "saved").exists() and not (folder / "interrupted").exists()
    assert "stopping one; they save first" in said


def test_a_kill_takes_the_processes_along_and_the_next_one_waits_for_them(outer):
    process, folder = outer
    with pytest.raises(UserError, match="folder"):
        with processes.all_held([folder], report=print):
            pass
    process.kill()
    process.wait()
    said = []
    with processes.all_held([folder], report=said.append):
        assert (folder / "saved").exists()  # the kernel has told it, and it has ended
    assert len(said) <= 1
