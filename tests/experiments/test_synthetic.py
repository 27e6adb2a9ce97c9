"""The text to translate, and going on with a translation that was cut short."""

import gzip

import pytest

from aevnmt_tf import run_directory
from aevnmt_tf.errors import UserError
from aevnmt_tf.experiments.steps import BackTranslate, Train
from aevnmt_tf.experiments.synthetic import SyntheticText

LINES = [f"Satz {number} ist hier" for number in range(20)]


@pytest.fixture
def make(make_runs, tmp_path):
    """The text of a plan with one back-translation."""

    def make(**changes):
        crawl = {"model": "back", "mono": str(tmp_path / "mono"), **changes}
        runs = make_runs(
            systems=[{"name": "back", "settings": {"src": "de", "tgt": "en"}}],
            synthetic={"crawl": crawl},
        )
        synthetic = runs.plan.synthetic["crawl"]
        run = runs.run(runs.plan.systems["back"], seed=1, point={})
        return SyntheticText(synthetic, runs.synthetic_prefix(synthetic), run=run)

    return make


@pytest.fixture
def mono(tmp_path):
    content = ("\ufeff" + "\r\n".join(LINES)).encode()
    (tmp_path / "mono.de.gz").write_bytes(gzip.compress(content))


def lines(path):
    return path.read_text().split("\n")[:-1]


def test_all_lines_or_so_many_drawn_once(make, mono):
    text = make()
    text.draw()
    assert text.target.name == "train.de" and text.source.name == "train.translation.en"
    assert lines(text.target) == LINES
    before = text.target.stat()
    text.draw()
    assert text.target.stat() == before


def test_a_draw_keeps_the_order_and_depends_on_the_seed_alone(make, mono):
    text = make(num_lines=7)
    text.draw()
    drawn = lines(text.target)
    assert len(drawn) == 7 and drawn == [line for line in LINES if line in drawn]
    text.target.unlink()
    text.draw()
    assert lines(text.target) == drawn


def test_more_lines_than_there_are_and_no_file_at_all(make, mono, tmp_path):
    with pytest.raises(UserError, match="mono.de.gz has 20 lines, and num_lines is 21"):
        make(num_lines=21).draw()
    with pytest.raises(UserError, match="There is no file .*other.de"):
        make(mono=str(tmp_path / "other")).draw()


@pytest.mark.parametrize("half", ["", "half a li", "ü" * 70000])
def test_goes_on_at_the_right_line(make, mono, half):
    text = make()
    text.draw()
    assert lines(text.rest()) == LINES
    done = [f"line {number}" for number in range(6)]
    text.part.write_text("".join(f"{line}\n" for line in done) + half)
    assert text.done() == 6 and not text.is_finished()
    assert lines(text.rest()) == LINES[6:]
    assert lines(text.part) == done and text.part.read_text().endswith("line 5\n")
    with pytest.raises(UserError, match="has 6 lines of 20"):
        text.finish()
    with open(text.part, "a") as file:
        file.write("x\n" * 14)
    text.finish()
    assert text.is_finished() and text.done() == 20
    assert lines(text.source)[:7] == [*done, "x"]
    assert sorted(path.name for path in text.folder.iterdir()) == [
        "made.json",
        "train.de",
        "train.translation.en",
    ]


def test_only_half_a_line_is_nothing(make, mono):
    text = make()
    text.draw()
    text.part.write_text("half")
    assert lines(text.rest()) == LINES and text.part.read_bytes() == b""


def test_text_that_was_made_from_something_else_is_refused(make, mono):
    make().draw()
    with pytest.raises(UserError, match=r"made with num_lines None, and that is 3 now; remove"):
        make(num_lines=3).is_finished()
    with pytest.raises(UserError, match=r"made with search beam, and that is greedy now"):
        make(search="greedy").draw()


def test_text_of_a_model_that_went_on_or_of_other_lines_is_refused(
    make, mono, monkeypatch, tmp_path
):
    weights = tmp_path / "best" / "step-100"
    monkeypatch.setattr(run_directory, "find_weights", lambda run: weights)
    make().draw()
    assert not make().is_finished()  # it is only drawn
    weights = tmp_path / "best" / "step-900"
    with pytest.raises(UserError, match="weights best/step-100, and that is best/step-900 now"):
        make().is_finished()
    weights = tmp_path / "best" / "step-100"
    (tmp_path / "mono.de.gz").write_bytes(gzip.compress(b"x\n"))
    with pytest.raises(UserError, match="made with mono_checksum"):
        make().is_finished()
    (tmp_path / "mono.de.gz").unlink()
    assert not make().is_finished()  # nobody needs it any more


def test_a_line_has_one_translation_whatever_the_settings_say(make_runs, mono, tmp_path):
    settings = {"src": "de", "tgt": "en", "num_translations_per_input": 5}
    runs = make_runs(
        systems=[{"name": "back", "settings": settings}],
        synthetic={"crawl": {"model": "back", "mono": str(tmp_path / "mono")}},
    )
    model = Train(runs, runs.plan.systems["back"], 1, tmp_path, point={}, needs=())
    words = BackTranslate(runs, "crawl", needs=(model,)).command().words
    assert words[words.index("--n_best") + 1] == "1"
