import os
import subprocess
import sys

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import locks

HOLD = """
import sys
from pathlib import Path
from aevnmt_tf.storage import locks
with locks.{function}(Path(sys.argv[1]), busy="busy"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Starts a process that holds a lock until its stdin ends."""
    started = []

    def start(function):
        words = [sys.executable, "-c", HOLD.format(function=function), str(tmp_path)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_another_process_is_refused_until_the_first_one_ends_however_it_ends(holder, tmp_path):
    process = holder("folder_held")
    assert (tmp_path / locks.FILE).read_text() == f"{process.pid}\n"
    with pytest.raises(UserError, match="mine"), locks.folder_held(tmp_path, busy="mine"):
        pass
    process.kill()
    process.wait()
    with locks.folder_held(tmp_path, busy="mine"):
        assert (tmp_path / locks.FILE).read_text() == f"{os.getpid()}\n"


def test_the_children_of_a_killed_process_are_waited_for(tmp_path, monkeypatch):
    """Its lock names a process that is gone, but something still holds it."""
    said = []
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with locks.folder_held(tmp_path, busy="mine"):
        (tmp_path / locks.FILE).write_text(f"{gone.pid}\n")
        monkeypatch.setattr(locks, "PATIENCE", 0.5)
        with pytest.raises(UserError, match="mine"):
            with locks.folder_held(tmp_path, busy="mine", report=said.append):
                pass
    with locks.folder_held(tmp_path, busy="mine", report=said.append):
        pass
    assert len(said) == 1 and "waiting" in said[0]


def test_a_folder_is_abandoned_when_nobody_holds_it(holder, tmp_path):
    assert locks.is_abandoned(tmp_path)
    process = holder("held")
    assert not locks.is_abandoned(tmp_path)
    process.communicate()
    assert locks.is_abandoned(tmp_path)
    assert not locks.is_abandoned(tmp_path / "missing")


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="file"):
        with locks.folder_held(tmp_path / "file" / "run", busy="mine"):
            pass
