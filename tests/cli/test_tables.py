"""Tables for people: rich on a terminal, plain columns elsewhere."""

import io

from aevnmt_tf.cli import tables


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_plain_table():
    file = io.StringIO()
    rows = [["a", "1.50"], ["longer", "20.25"]]
    tables.show(["name", ">BLEU"], rows, file=file, title="Title")
    assert file.getvalue() == "Title\nname     BLEU\na        1.50\nlonger  20.25\n"


def test_a_table_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    file = Terminal()
    tables.show(["name", ">BLEU"], [["[red]a", "1.50"]], file=file)
    shown = file.getvalue()
    assert "[red]a" in shown and "1.50" in shown  # the name is no markup
    assert "┃" in shown and "name" in shown and ">" not in shown


def test_a_table_in_markdown():
    found = tables.markdown(["name", ">BLEU"], [("q(z|x)", "1.5"), ("two\nlines", "2")])
    assert found.splitlines() == [
        "| name | BLEU |",
        "| --- | ---: |",
        r"| q(z\|x) | 1.5 |",
        "| two lines | 2 |",
    ]
