"""What people see."""

import io

from aevnmt_tf.training import terminal

REPORT = {
    "pairs_per_second": 123.4,
    "elbo": -20.5,
    "nll_x": 10.0,
    "nll_y": 9.25,
    "kl": 1.25,
    "kl_weight": 0.5,
    "skipped": 0,
}


class FakeTerminal(io.StringIO):
    def isatty(self):
        return True


def test_one_plain_line_a_report_where_output_is_no_terminal():
    stream = io.StringIO()
    shown = terminal.Terminal(last_step=100, stream=stream)
    shown.start(0)
    for step in range(1, 11):
        shown.move(step)
    shown.report(10, REPORT, seconds_left=3723)
    shown.stop()
    assert stream.getvalue() == (
        "step 10  123 pairs/s  ELBO -20.50  nll_x 10.00  nll_y 9.25  KL 1.25  KL weight 0.50"
        "  1:02:03 left\n"
    )


def test_long_lines_and_brackets_stay_as_they_are():
    stream = io.StringIO()
    text = "[bold] " + "word " * 100
    terminal.Terminal(last_step=1, stream=stream).say(text)
    assert stream.getvalue() == text + "\n"


def test_a_terminal_gets_a_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = FakeTerminal()
    shown = terminal.Terminal(last_step=100, stream=stream)
    shown.start(5)
    shown.move(10)
    shown.report(10, REPORT, seconds_left=61)
    shown.say("a sentence")
    shown.stop()
    text = stream.getvalue()
    for part in ("step 10/100", "123 pairs/s", "ELBO -20.50", "1:01 left", "a sentence"):
        assert part in text, part


def test_silent_processes_say_nothing():
    stream = io.StringIO()
    shown = terminal.Terminal(last_step=100, stream=stream, silent=True)
    shown.start(0)
    shown.say("hello")
    shown.stop()
    assert stream.getvalue() == ""


def test_skipped_batches_are_shown():
    assert "3 batches skipped" in terminal.summary(REPORT | {"skipped": 3})


def test_durations():
    assert terminal.duration(None) == ""
    assert terminal.duration(59.6) == "1:00 left"
    assert terminal.duration(-5) == "0:00 left"


def test_a_system_shows_what_it_has():
    cond = {"pairs_per_second": 10.0, "nll_y": 9.25, "skipped": 0}
    assert terminal.summary(cond) == "10 pairs/s  nll_y 9.25"
    joint = {"dev_bleu": 1.0, "dev_chrf": 2.0, "dev_elbo": -19.25, "dev_nll_x": 10.0}
    text = terminal.dev_summary(joint | {"dev_nll_y": 9.25})
    assert text == "dev BLEU 1.00  chrF 2.00  nll_x 10.00  nll_y 9.25"
    text = terminal.dev_summary(joint | {"dev_rouge": 3.0, "dev_accuracy": 4.0})
    assert text == "dev BLEU 1.00  chrF 2.00  ROUGE-L 3.00  accuracy 4.00  nll_x 10.00"
