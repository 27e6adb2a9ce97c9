"""Jobs come after what they need, and know what is done."""

import dataclasses
import json

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.experiments import jobs
from aevnmt_tf.experiments.scheduler import state


def system(runs, name="cond"):
    return runs.plan.systems[name]


def test_jobs_come_after_what_they_need(make_runs, finish):
    synthetic = {"crawl": {"model": "back", "seed": 3, "mono": "mono"}}
    back = {"name": "back", "settings": {"src": "de", "tgt": "en"}, "grid": {"dropout": [0.1]}}
    a = {"name": "a", "synthetic": "crawl", "tests": ["dev"], "seeds": [3]}
    runs = make_runs(systems=[a, {**back, "seeds": [3]}], synthetic=synthetic)
    found = jobs.make(dataclasses.replace(runs, only=["a"]))
    assert [task.name for task in found] == [
        "back/dropout=0.1/seed3",
        "back/chosen/seed3",
        "synthetic/crawl",
        "a/seed3",
        "a/seed3/tests",
    ]
    for place, task in enumerate(found):
        assert all(need in found[:place] for need in task.needs)
    assert [state(task) for task in found] == ["to do"] * 5
    finish(found[0].run)
    assert [state(task) for task in found[:3]] == ["done", "done", "to do"]
    (a,) = [task.run for task in found if task.name == "a/seed3"]
    assert a.hp.synthetic_prefix == str(runs.folder / "synthetic" / "crawl" / "train")
    assert [task.name for task in jobs.make(runs)][5:] == ["back/chosen/seed3/tests"]


def save_weights(folder):
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text('{"files": {}}')


def test_evaluations_are_made_again_for_other_files_weights_or_more_metrics(
    make_runs, finish, tmp_path
):
    prefix = str(tmp_path / "test")
    runs = make_runs(metrics=["bleu", "kl"])
    run = runs.run(system(runs), seed=1, point={})
    finish(run, tests={"news": (prefix, {"bleu": 1.0})})
    task = next(t for t in jobs.make(runs) if t.name == "cond/seed1/tests")
    assert task.is_done()
    (tmp_path / "test.de").write_text("other\n")
    assert not task.is_done()
    finish(run, tests={"news": (prefix, {"bleu": 1.0})})
    assert task.is_done()
    save_weights(run.folder / "best" / "step-000000020")
    finish(run, tests={"news": (prefix, {"bleu": 1.0})}, weights="best/step-000000020")
    assert task.is_done()
    save_weights(run.folder / "best" / "step-000000025")  # the run has gone on
    assert not task.is_done()
    more = make_runs(metrics=["bleu", "ter"])
    task = next(t for t in jobs.make(more) if t.name == "cond/seed1/tests")
    assert not task.is_done()
    flags = task.command().words
    assert flags[flags.index("--metrics") + 1] == "bleu,ter"
    assert flags[flags.index("--test") + 1] == f"news={prefix}"


def test_own_test_sets(make_runs, tmp_path):
    runs = make_runs(tests={"own": "@test"})
    evaluation = jobs.make(runs)[1]
    with pytest.raises(UserError, match="own: system cond has no test_prefix, so @test"):
        evaluation.check()
    runs = make_runs(
        tests={"own": "@test"}, settings={"test_prefix": [str(tmp_path / "x"), "y"]}
    )
    with pytest.raises(UserError, match="several prefixes in test_prefix"):
        jobs.make(runs)[1].check()
    runs = make_runs(tests={"own": "@test"}, settings={"test_prefix": str(tmp_path / "x")})
    with pytest.raises(UserError, match="x.en"):
        jobs.make(runs)[1].check()
    demo = make_runs(tests={"own": "@test"}, data={})
    jobs.make(demo)[1].check()  # training makes it
    assert json.dumps(str(jobs.make(demo)[1].command().words)).count("demo/test") == 1


def test_data_that_is_not_there_is_known_before_anything_starts(make_runs):
    with pytest.raises(UserError, match="train.en"):
        jobs.make(make_runs())[0].check()


def test_progress_is_how_far_it_is_and_how_good(make_runs):
    runs = make_runs(overrides={"num_train_steps": 400})
    train = jobs.make(runs)[0]
    metrics = train.run.folder / "metrics.jsonl"
    assert train.progress() == "starting"
    metrics.parent.mkdir(parents=True)
    lines = [
        {"step": 100, "nll_y": 3.0},
        {"step": 100, "dev_bleu": 21.257},
        {"step": 200, "dev_bleu": 20.0},
        {"step": 300, "nll_y": 2.0},
    ]

    def written(count):
        text = "".join(json.dumps(line) + "\n" for line in lines[:count])
        metrics.write_text(text + '{"step": 9')  # a line that is being written
        return train.progress()

    assert written(0) == "starting"
    assert written(1) == "step 100 of 400"
    assert written(4) == "step 300 of 400, best dev BLEU 21.26"
    lines.append({"step": 500, "dev_bleu": 22.0})  # until it no longer gains
    assert written(5) == "step 500, best dev BLEU 22.00"
    shorter = make_runs(overrides={"num_train_steps": 400, "max_steps": 350})
    assert jobs.make(shorter)[0].progress() == "step 500, best dev BLEU 22.00"
    metrics.write_text(json.dumps(lines[0]))
    assert jobs.make(shorter)[0].progress() == "step 100 of 350"
