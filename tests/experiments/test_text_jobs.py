"""Back-translation that goes on where it was cut short, and text prepared once for all runs."""

import gzip
import json

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.experiments import jobs as all_jobs
from aevnmt_tf.experiments import text_jobs
from aevnmt_tf.experiments.plan_keys import MonolingualText
from aevnmt_tf.experiments.scheduler import state
from aevnmt_tf.experiments.text_jobs import BackTranslationJob
from aevnmt_tf.storage import run_directory

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
        return BackTranslationJob(runs, runs.plan.synthetic["crawl"])

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


def test_a_draw_keeps_the_order_and_depends_on_the_seed_alone(make, mono, tmp_path):
    text = make(num_lines=7)
    text.draw()
    drawn = lines(text.target)
    assert len(drawn) == 7 and drawn == [line for line in LINES if line in drawn]
    text.target.unlink()
    for path in (tmp_path / "runs" / "mono").iterdir():
        path.unlink()
    text.draw()
    assert lines(text.target) == drawn


@pytest.mark.parametrize("pipeline", ["moses", "sentencepiece"])
def test_lines_are_drawn_from_those_that_training_keeps(tmp_path, pipeline):
    good = [" ".join(["Wort"] * count) for count in (1, 49, 50)]
    commas = ",".join("ab" for _ in range(30))  # one word, 59 tokens
    (tmp_path / "m.de").write_text("\n".join(["", " ", *good, "Wort " * 51, commas]) + "\n")
    text = MonolingualText(str(tmp_path / "m"), 4 - (pipeline == "moses"), 1)

    def draw(text):
        return text_jobs.drawn(text, "de", folder=tmp_path / "drawn", pipeline=pipeline)

    path = draw(text)
    assert lines(path) == good + [commas] * (pipeline != "moses")
    with pytest.raises(UserError, match="num_lines is 5"):
        draw(MonolingualText(text.mono, 5, 1))
    (tmp_path / "m.de").write_text("anders\n" * 9)
    with pytest.raises(UserError, match="mono_checksum"):
        draw(text)


def test_every_line_is_drawn_equally_often(tmp_path):
    (tmp_path / "m.de").write_text("".join(f"{n}\n" for n in range(10)))
    counts = [0] * 10
    for seed in range(400):
        found = text_jobs._draw(
            tmp_path / "m.de", 3, seed=seed, lang="de", pipeline="sentencepiece"
        )
        assert len(set(found)) == 3 and found == sorted(found)
        for line in found:
            counts[int(line)] += 1
    # 120 each; 4 standard deviations of a binomial are 37.
    assert all(abs(count - 120) < 37 for count in counts), counts


def test_more_lines_than_there_are_and_no_file_at_all(make, mono, tmp_path):
    with pytest.raises(
        UserError, match="mono.de.gz has only 20 lines of 1 to 50 words, but num_lines is 21"
    ):
        make(num_lines=21).draw()
    with pytest.raises(UserError, match="other.de"):
        make(mono=str(tmp_path / "other")).draw()


@pytest.mark.parametrize("half", ["", "half a li", "ü" * 70000])
def test_goes_on_at_the_right_line(make, mono, half):
    text = make()
    text.draw()
    assert lines(text.rest()) == LINES
    done = [f"line {number}" for number in range(6)]
    text.part.write_text("".join(f"{line}\n" for line in done) + half)
    assert text.done() == 6 and not text.is_done()
    assert lines(text.rest()) == LINES[6:]
    assert lines(text.part) == done and text.part.read_text().endswith("line 5\n")
    with pytest.raises(UserError, match="has 6 of 20 lines"):
        text.finish()
    with open(text.part, "a") as file:
        file.write("x\n" * 14)
    text.finish()
    assert text.is_done() and text.done() == 20
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
    with pytest.raises(UserError, match="created with num_lines None, but it is 3 now; remove"):
        make(num_lines=3).is_done()
    with pytest.raises(UserError, match=r"created with search beam, but it is greedy now"):
        make(search="greedy").draw()


def test_text_of_a_model_that_went_on_or_of_other_lines_is_refused(
    make, mono, monkeypatch, tmp_path
):
    weights = tmp_path / "best" / "step-100"
    monkeypatch.setattr(run_directory, "find_weights", lambda run: weights)
    make().draw()
    assert not make().is_done()  # it is only drawn
    weights = tmp_path / "best" / "step-900"
    with pytest.raises(UserError, match="weights best/step-100, but it is best/step-900 now"):
        make().is_done()
    weights = tmp_path / "best" / "step-100"
    (tmp_path / "mono.de.gz").write_bytes(gzip.compress(b"x\n"))
    with pytest.raises(UserError, match="created with mono_checksum"):
        make().is_done()
    (tmp_path / "mono.de.gz").unlink()
    assert not make().is_done()  # nobody needs it any more


def test_a_line_has_one_translation_whatever_the_settings_say(make_runs, mono, tmp_path):
    settings = {"src": "de", "tgt": "en", "num_translations_per_input": 5}
    runs = make_runs(
        systems=[{"name": "back", "settings": settings}],
        synthetic={"crawl": {"model": "back", "mono": str(tmp_path / "mono")}},
    )
    words = BackTranslationJob(runs, runs.plan.synthetic["crawl"]).command().words
    assert words[words.index("--n_best") + 1] == "1"


@pytest.fixture
def prepare(make_runs, tmp_path):
    """The runs and jobs of a plan that prepares, by name."""
    for name in ("train", "test", "more", "crawl"):
        for lang in ("en", "de"):
            (tmp_path / f"{name}.{lang}").write_text("a b\nc\n")

    def make(mono=None, **changes):
        settings = {"train_prefix": [str(tmp_path / "train"), str(tmp_path / "more")]}
        mono = mono or {"mono": str(tmp_path / "crawl"), "num_lines": 1}
        back = {"src": "de", "tgt": "en", "model_type": "cond"}
        plan = {
            "prepare": {"settings": settings, "mono": {"de": mono}},
            "synthetic": {"s": {"model": "back", "mono": str(tmp_path / "crawl")}},
            "systems": [
                {"name": "cond", "settings": {"model_type": "cond"}},
                {"name": "back", "settings": back},
                {"name": "more", "synthetic": "s", "seeds": [1], "tests": ["dev"]},
            ],
            **changes,
        }
        runs = make_runs(**plan)
        jobs = all_jobs.make(runs)
        return runs, {job.name: job for job in jobs}

    return make


def data_of(jobs, name):
    """The job that segments the corpora of a run."""
    (found,) = [job for job in jobs[name].needs if job.name.startswith("prepared/")]
    return found


def test_models_are_learnt_once_and_each_corpus_is_segmented_once(prepare, tmp_path):
    runs, jobs = prepare()
    runs.check()
    models = jobs["prepared/models"]
    assert list(jobs)[0] == "prepared/models" and models.needs == ()
    # Both directions and all seeds share a corpus; synthetic text makes another.
    first = data_of(jobs, "cond/seed1")
    assert {data_of(jobs, f"{n}/seed{s}").name for n in ("cond", "back") for s in (1, 2)} == {
        first.name
    }
    more = data_of(jobs, "more/seed1")
    assert more.name != first.name and more.needs == (models, jobs["synthetic/s"])
    assert first.needs == (models,)
    assert sum(name.startswith("prepared/") for name in jobs) == 3
    hp = jobs["more/seed1"].run.hp
    assert hp.vocab_prefix == str(runs.folder / "prepared/models/text/vocab")
    assert hp.train_prefix == str(more.folder / "train")
    assert hp.synthetic_prefix == str(more.folder / "synthetic")
    assert more.hp.synthetic_prefix == str(runs.folder / "synthetic/s/train")
    assert jobs["cond/seed1/tests"].train.run.unprepared.test_prefix is None


def test_what_prepare_is_started_with(prepare, tmp_path):
    _, jobs = prepare()
    words = jobs["prepared/models"].command().words
    (mono,) = (tmp_path / "runs" / "mono").glob("*.de")
    assert words[words.index("--mono_tgt") + 1] == str(mono) and "--mono_src" not in words
    assert mono.read_text() in ("a b\n", "c\n")
    settings = json.loads((tmp_path / "out/settings/prepared/models.json").read_text())
    assert len(settings["train_prefix"]) == 2 and settings["vocab_prefix"] is None
    data = data_of(jobs, "cond/seed1")
    data.command()
    settings = json.loads((tmp_path / f"out/settings/{data.name}.json").read_text())
    assert settings["train_prefix"] == str(tmp_path / "train")
    assert settings["vocab_prefix"].endswith("prepared/models/text/vocab")


def test_prepared_text_that_other_things_made_is_refused(prepare, tmp_path):
    _, jobs = prepare()
    models, data = jobs["prepared/models"], data_of(jobs, "cond/seed1")
    for job in (models, data):
        job.command()
        assert not job.is_done()
        with pytest.raises(UserError, match=job.folder.name):
            job.finish()
        (job.folder / "manifest.json").write_text("{}")
        job.finish()
    assert models.is_done() and state(data) == "done"
    mono = {"mono": str(tmp_path / "crawl"), "num_lines": 2}
    with pytest.raises(UserError, match="drawn de"):
        prepare(mono)[1]["prepared/models"].is_done()
    (tmp_path / "more.de").write_text("other\nlines\n")
    with pytest.raises(UserError, match="more.de"):
        models.is_done()
    assert data.is_done()
    (models.folder / "manifest.json").write_text('{"made": "again"}')
    with pytest.raises(UserError, match="models/manifest.json"):
        data.is_done()


def test_missing_files_and_settings_that_differ(prepare, make_runs, tmp_path):
    runs, jobs = prepare()
    for name in ("more.en", "crawl.de"):
        (tmp_path / name).rename(tmp_path / "away")
        with pytest.raises(UserError, match=name):
            jobs["prepared/models"].check()
        (tmp_path / "away").rename(tmp_path / name)
    (tmp_path / "train.en").unlink()
    with pytest.raises(UserError, match="train.en"):
        data_of(jobs, "cond/seed1").check()
    jobs["cond/seed1"].check()  # its text is made
    runs = prepare(systems=[{"name": "cond", "settings": {"vocab_size": 9}}], synthetic={})[0]
    with pytest.raises(UserError, match="system cond: vocab_size"):
        runs.check()
    runs = make_runs(prepare={}, data={})
    with pytest.raises(UserError, match="prepare: .*train_prefix"):
        runs.check()
