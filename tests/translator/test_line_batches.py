"""Windows of lines, sizes of batches, and batches at the same time."""

import math
import threading
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aevnmt_tf.cli import machine
from aevnmt_tf.translator import line_batches


@pytest.fixture(autouse=True)
def cores(monkeypatch):
    monkeypatch.setattr(machine, "num_cores", lambda: 2)


def wait_for_workers():
    for thread in threading.enumerate():
        if thread.name == machine._WORKER:
            thread.join(60)


def test_results_come_in_the_order_of_the_items():
    later = threading.Event()

    def slow_then_quick(item):
        if item == 0:
            later.wait(60)  # for a later one to be done
        if item == 5:
            later.set()
        return item

    assert list(line_batches.run(slow_then_quick, range(9))) == [*range(9)]


def test_two_are_under_way_at_the_same_time():
    both = threading.Barrier(2, timeout=30)  # passes only where two wait at it together
    assert len(list(line_batches.run(lambda _: both.wait(), range(4)))) == 4


@given(
    count=st.integers(1, 2000),
    most=st.integers(1, 70),
    workers=st.integers(1, line_batches.MOST_WORKERS),
)
def test_all_cores_get_as_many_batches(count, most, workers):
    with mock.patch.object(machine, "num_cores", lambda: workers):
        size = line_batches.even_size(count, most=most)

    fewest_rounds = math.ceil(count / (most * workers))
    assert 1 <= size <= most
    assert math.ceil(count / size) <= fewest_rounds * workers
    assert math.ceil(count / max(1, size - 1)) > fewest_rounds * workers or size == 1


@pytest.mark.parametrize(
    "most, hypotheses, on_cpu, on_gpu",
    [(64, 1, 64, 64), (64, 10, 38, 64), (64, 32, 12, 32), (4, 10, 4, 4), (500, 1, 500, 500)],
)
def test_batches_fit_into_caches_or_memory(monkeypatch, most, hypotheses, on_cpu, on_gpu):
    monkeypatch.setattr(line_batches, "_has_gpu", lambda: False)
    assert line_batches.fitting_size(most, hypotheses=hypotheses) == on_cpu
    monkeypatch.setattr(line_batches, "_has_gpu", lambda: True)
    assert line_batches.fitting_size(most, hypotheses=hypotheses) == on_gpu
    assert line_batches.fitting_size(1, hypotheses=10**6) == 1


def test_one_core_has_one_thread(monkeypatch):
    """The main one waits: only there is Ctrl-C heard."""
    monkeypatch.setattr(machine, "num_cores", lambda: 1)
    found = set(line_batches.run(lambda _: threading.get_ident(), range(3)))
    assert len(found) == 1 and found != {threading.get_ident()}


def test_whoever_leaves_does_not_wait():
    go, done = threading.Event(), []

    def slow(item):
        if item:
            go.wait(60)
            done.append(item)
        return item

    results = line_batches.run(slow, range(9))
    assert next(results) == 0
    results.close()
    assert not done
    go.set()
    wait_for_workers()
    assert len(done) <= 2  # what had begun


def test_an_error_stops_what_has_not_begun():
    go, begun = threading.Event(), []

    def fail(item):
        begun.append(item)
        if item:
            go.wait(60)
        raise ValueError(item)

    with pytest.raises(ValueError, match="0"):
        list(line_batches.run(fail, range(1000)))
    go.set()
    wait_for_workers()
    assert len(begun) <= 3  # the one that failed, and one for each of two workers


def test_a_window_ends_where_nothing_more_is_ready():
    ready = iter([True, False, True, True, True])
    found = line_batches.windows("abcdef", batch_size=2, is_ready=lambda: next(ready))
    assert list(found) == [(0, ["a", "b"]), (2, ["c"]), (3, ["d", "e", "f"])]


@pytest.mark.parametrize("total", [0, 1, 4, 5, 100, 1000])
def test_windows_start_where_they_are_said_to(total):
    starts = [start for start, _ in line_batches.windows(range(total), batch_size=4)]
    assert starts == line_batches.window_starts(total, batch_size=4)
    assert line_batches.WINDOW * 4 == 80


def test_a_part_has_the_windows_of_the_whole():
    whole = list(line_batches.windows(range(500), batch_size=4))
    for place in range(1, len(whole)):
        start = whole[place][0]
        rest = line_batches.windows(range(start, 500), batch_size=4, start=start)
        assert list(rest) == whole[place:]
