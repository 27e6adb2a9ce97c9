"""Time, with a clock that the test winds."""

import pytest

from aevnmt_tf.training.throughput import Stopwatch


class Clock:
    now = 100.0

    def __call__(self):
        return self.now

    def pass_(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


def steps(watch, clock, *durations, shape="a"):
    for seconds in durations:
        with watch.step(shape):
            clock.pass_(seconds)


def test_the_first_step_of_a_shape_and_pauses_do_not_count(clock):
    watch = Stopwatch(clock=clock)
    watch.start()
    steps(watch, clock, 30.0, 2.0, 2.0)
    steps(watch, clock, 20.0, 2.0, shape="b")
    with watch.pause():
        clock.pass_(50.0)
    # 5 steps, 3 of them ordinary: 6 seconds for 3/5 of the pairs
    assert watch.rate(50.0) == pytest.approx(50.0 * 3 / 5 / 6.0)
    assert watch.total() == pytest.approx(106.0)


def test_each_report_has_its_own_rate(clock):
    watch = Stopwatch(clock=clock)
    watch.start()
    steps(watch, clock, 9.0, 1.0)
    watch.lap()
    steps(watch, clock, 4.0)
    assert watch.rate(8.0) == pytest.approx(2.0)


def test_time_left(clock):
    watch = Stopwatch(clock=clock)
    watch.start()
    assert watch.left(10) is None
    steps(watch, clock, 9.0)
    assert watch.left(10) is None
    assert watch.rate(10.0) == 0.0
    steps(watch, clock, 3.0)
    assert watch.left(10) == pytest.approx(30.0)
    assert watch.left(10, max_minutes=0.5) == pytest.approx(18.0)
    assert watch.left(-5) == 0.0


def test_a_resumed_run_goes_on_counting(clock):
    watch = Stopwatch(clock=clock)
    watch.start()
    steps(watch, clock, 9.0, 1.0)
    state = watch.state()
    clock.pass_(1000.0)
    again = Stopwatch(clock=clock)
    again.restore(state)
    again.start()
    steps(again, clock, 7.0, 1.0)
    assert again.total() == pytest.approx(18.0)
    assert again.rate(8.0) == pytest.approx(8.0 * 2 / 4 / 2.0)
