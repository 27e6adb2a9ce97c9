"""How this process uses the machine."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_freed_memory_is_given_back():
    """Blocks that are freed below one that is still in use stay with the process."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    if not hasattr(libc, "malloc_trim"):
        pytest.skip("not glibc")

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    blocks = [libc.malloc(64 * 1024) for _ in range(1000)]
    for block in blocks:
        ctypes.memset(block, 1, 64 * 1024)
    for block in blocks[:-1]:
        libc.free(block)
    before = resident()
    machine.give_back_freed_memory()
    assert before - resident() > 30 * 2**20
    libc.free(blocks[-1])
