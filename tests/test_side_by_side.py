import math
import os
import subprocess
import sys
import threading
import time
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aevnmt_tf import machine
from aevnmt_tf.translator import side_by_side


@pytest.fixture(autouse=True)
def cores(monkeypatch):
    monkeypatch.setattr(machine, "num_cores", lambda: 2)


def test_results_come_in_the_order_of_the_items():
    def slow_then_quick(item):
        time.sleep(0.05 if item == 0 else 0)
        return item

    assert list(side_by_side.run(slow_then_quick, range(9))) == [*range(9)]


def test_two_are_under_way_at_the_same_time():
    both = threading.Barrier(2, timeout=30)  # passes only where two wait at it together
    assert len(list(side_by_side.run(lambda _: both.wait(), range(4)))) == 4


@given(
    count=st.integers(1, 2000),
    most=st.integers(1, 70),
    workers=st.integers(1, side_by_side.MOST),
)
def test_all_cores_get_as_many_batches(count, most, workers):
    with mock.patch.object(machine, "num_cores", lambda: workers):
        size = side_by_side.even_size(count, most=most)

    fewest_rounds = math.ceil(count / (most * workers))
    assert 1 <= size <= most
    assert math.ceil(count / size) <= fewest_rounds * workers
    assert math.ceil(count / max(1, size - 1)) > fewest_rounds * workers or size == 1


@pytest.mark.parametrize(
    "most, hypotheses, on_cpu, on_gpu",
    [(64, 1, 64, 64), (64, 10, 38, 64), (64, 32, 12, 32), (4, 10, 4, 4), (500, 1, 500, 500)],
)
def test_batches_fit_into_caches_or_memory(monkeypatch, most, hypotheses, on_cpu, on_gpu):
    monkeypatch.setattr(side_by_side, "_has_gpu", lambda: False)
    assert side_by_side.fitting_size(most, hypotheses=hypotheses) == on_cpu
    monkeypatch.setattr(side_by_side, "_has_gpu", lambda: True)
    assert side_by_side.fitting_size(most, hypotheses=hypotheses) == on_gpu
    assert side_by_side.fitting_size(1, hypotheses=10**6) == 1


def test_one_core_has_one_thread(monkeypatch):
    """The main one waits: only there is Ctrl-C heard."""
    monkeypatch.setattr(machine, "num_cores", lambda: 1)
    found = set(side_by_side.run(lambda _: threading.get_ident(), range(3)))
    assert len(found) == 1 and found != {threading.get_ident()}


def test_whoever_leaves_does_not_wait():
    go, done = threading.Event(), []

    def slow(item):
        if item:
            go.wait(60)
            done.append(item)
        return item

    results = side_by_side.run(slow, range(9))
    assert next(results) == 0
    results.close()
    assert not done
    go.set()
    for _ in range(1000):
        if not any(thread.name == machine._WORKER for thread in threading.enumerate()):
            break
        time.sleep(0.01)
    assert len(done) <= 2  # what had begun


@pytest.mark.parametrize("error, code", [("KeyboardInterrupt", 130), ("UserError('no')", 2)])
def test_a_process_ends_although_threads_compute(error, code):
    program = f"""
import sys, time
from aevnmt_tf import command, machine
from aevnmt_tf.errors import UserError

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


def test_an_error_stops_what_has_not_begun():
    begun = []

    def fail(item):
        begun.append(item)
        time.sleep(0.01)
        raise ValueError(item)

    with pytest.raises(ValueError, match="0"):
        list(side_by_side.run(fail, range(1000)))
    assert len(begun) < 100


def test_whoever_sets_threads_and_kernels_is_obeyed(monkeypatch):
    for name, other in (("TF_NUM_INTRAOP_THREADS", "3"), ("TF_ENABLE_ONEDNN_OPTS", "0")):
        monkeypatch.setenv(name, other)
        machine.many_sentences()
        assert os.environ[name] == other
        monkeypatch.delenv(name)
        machine.many_sentences()
        assert os.environ[name] == "1"
