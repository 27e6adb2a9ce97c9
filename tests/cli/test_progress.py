"""Progress: a bar for terminals, lines elsewhere, silence where it is asked for."""

import io
import sys

import pytest

from aevnmt_tf.cli import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_lines_where_stderr_is_no_terminal(monkeypatch):
    said = []
    monkeypatch.setattr(progress, "SECONDS", 0)
    items = progress.track(iter("abc"), "working", total=3, report=said.append)
    assert list(items) == list("abc")
    assert said == ["working: 1 of 3", "working: 2 of 3", "working: 3 of 3"]


def test_nothing_without_a_terminal_and_a_report(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS", 0)
    assert list(progress.track([1, 2], "work")) == [1, 2]
    with progress.working("work"):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_bar_on_a_terminal(monkeypatch):
    terminal, said = on_a_terminal(monkeypatch), []
    items = progress.track(iter([1, 2]), "w0rking", total=2, report=said.append)
    assert list(items) == [1, 2]
    assert "w0rking" in terminal.getvalue() and not said


def test_no_report_is_silence_on_a_terminal_too(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    assert list(progress.track([1, 2], "work", report=None)) == [1, 2]
    assert terminal.getvalue() == ""


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    times = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: times[0])
    return times


def test_a_report_is_not_repeated(clock, capsys):
    """One line that takes long is reported when it is done, and not again in the end."""
    rate = progress.LineRate("aevnmt test")
    clock[0] = 11.0
    rate.move(1)
    rate.end()
    assert capsys.readouterr().err == "aevnmt test: 1 line in 11.0 s (0.1 lines/s)\n"


def test_reports_every_now_and_then_and_in_the_end(clock, capsys):
    rate = progress.LineRate("aevnmt test")
    for count in range(1, 31):
        clock[0] += 1
        rate.move(count)
    rate.move(31)
    rate.end()
    found = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in found] == ["10", "20", "30", "31"]
