"""Ctrl-C during the start of a command; tests/cli/test_command.py has what comes later."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Python imports it first. It interrupts the process when a verb's module is being imported.
INTERRUPT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "aevnmt_tf.hparams":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""


def started(tmp_path, *words):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    return subprocess.run(
        [sys.executable, *words], env=environment, cwd=tmp_path, capture_output=True, text=True
    )


def test_an_interrupt_during_the_imports_of_a_verb_shows_no_traceback(tmp_path):
    done = started(tmp_path, "-m", "aevnmt_tf.prepare")
    assert (done.returncode, done.stderr) == (130, "aevnmt: interrupted\n")
    done = started(tmp_path, "-m", "aevnmt_tf", "prepare")
    assert (done.returncode, done.stderr) == (130, "aevnmt prepare: interrupted\n")


def test_who_only_imports_the_package_keeps_python_s_own_handler(tmp_path):
    code = "import signal, aevnmt_tf\n"
    code += "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
    (tmp_path / "other.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "other"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
    )
    assert done.returncode == 0
