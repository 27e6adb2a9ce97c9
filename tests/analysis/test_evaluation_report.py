"""Tables for people: rich on a terminal, plain columns elsewhere; and progress."""

import io
import sys

from aevnmt_tf.analysis import evaluation_report, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_plain_table():
    file = io.StringIO()
    rows = [["a", "1.50"], ["longer", "20.25"]]
    evaluation_report.show(["name", ">BLEU"], rows, file=file, title="Title")
    assert file.getvalue() == "Title\nname     BLEU\na        1.50\nlonger  20.25\n"


def test_a_table_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    file = Terminal()
    evaluation_report.show(["name", ">BLEU"], [["[red]a", "1.50"]], file=file)
    shown = file.getvalue()
    assert "[red]a" in shown and "1.50" in shown  # the name is no markup
    assert "┃" in shown and "name" in shown and ">" not in shown


def test_progress_in_lines_and_as_a_bar(monkeypatch):
    said = []
    monkeypatch.setattr(progress, "SECONDS", 0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    items = progress.track(iter("abc"), "working", total=3, report=said.append)
    assert list(items) == list("abc")
    assert said == ["working: 1 of 3", "working: 2 of 3", "working: 3 of 3"]
    assert list(progress.track("abc", "working", total=3, report=None)) == list("abc")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(progress.track(iter("abc"), "w0rking", total=3, report=said.append)) == list(
        "abc"
    )
    assert "w0rking" in sys.stderr.getvalue() and len(said) == 3
