"""How this process uses the machine."""

import os
import subprocess
import sys

import pytest

from aevnmt_tf.cli import machine


@pytest.mark.parametrize("error, code", [("KeyboardInterrupt", 130), ("UserError('no')", 2)])
def test_a_process_ends_although_threads_compute(error, code):
    program = f"""
import sys, time
from aevnmt_tf.cli import command, machine
from aevnmt_tf.cli.errors import UserError

def run(args):
    machine.start_worker(lambda: time.sleep(600))
    print("some output")
    raise {error}

sys.exit(command.main(run, parser=command.Parser("translate", "A test."), argv=[]))
"""
    words = [sys.executable, "-c", program]
    found = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert found.returncode == code and found.stdout == "some output\n"
    assert found.stderr.startswith("aevnmt translate: ") and found.stderr.count("\n") == 1


def test_whoever_sets_threads_and_kernels_is_obeyed(monkeypatch):
    for name, other in (("TF_NUM_INTRAOP_THREADS", "3"), ("TF_ENABLE_ONEDNN_OPTS", "0")):
        monkeypatch.setenv(name, other)
        machine.tune_for_throughput()
        assert os.environ[name] == other
        monkeypatch.delenv(name)
        machine.tune_for_throughput()
        assert os.environ[name] == "1"
