"""Which runs a plan has, when they are finished, and what a grid chooses."""

import json

import pytest

from aevnmt_tf.errors import UserError
from aevnmt_tf.experiments import results, tasks
from aevnmt_tf.experiments.runs import cut_by
from aevnmt_tf.experiments.task import state
from aevnmt_tf.training.loop import USED_UP_ELSEWHERE
from aevnmt_tf.training.stopping import Progress, StoppingRule

GRID = {
    "name": "cond",
    "settings": {"model_type": "cond"},
    "grid": {"dropout": [0.1, 0.2], "num_units": [4, 8]},
    "tests": ["dev"],
}


def system(runs, name="cond"):
    return runs.plan.systems[name]


def test_which_budget_has_ended_a_run():
    end = {"num_train_steps": 50, "check_convergence_every": 0, "patience": 1}
    rule = StoppingRule(**end, max_steps=20, max_minutes=1.0)
    known = {"progress": Progress(), "seconds": 0.0}
    reasons = {
        "max_steps": rule.reason_to_stop(**known, step=20),
        "max_minutes": rule.reason_to_stop(**{**known, "seconds": 60.0}, step=3),
        None: StoppingRule(**end).reason_to_stop(**known, step=50),
    }
    for budget, reason in reasons.items():
        assert reason and cut_by({"reason": reason}) == budget
    assert cut_by({"reason": USED_UP_ELSEWHERE}) == "max_minutes"


def test_a_run_is_finished_when_its_results_are_there_for_the_same_settings(make_runs, finish):
    runs = make_runs()
    run = runs.run(system(runs), seed=1, point={})
    assert run.name == "cond/seed1" and run.hp.random_seed == 1
    assert not run.is_finished() and run.changes() == {}
    finish(run)
    assert run.is_finished()
    (run.folder / "checkpoints" / "step-000000020").mkdir(parents=True)
    assert run.is_finished()
    # It was continued and has not ended yet.
    (run.folder / "checkpoints" / "step-000000025").mkdir()
    assert not run.is_finished()


def test_a_run_that_would_go_on_is_not_finished(make_runs, finish):
    run = make_runs().run(system(make_runs()), seed=1, point={})
    finish(run)
    # train has begun to continue it: its settings are there, its results are the old ones.
    longer = make_runs(overrides={"num_train_steps": 30})
    run = longer.run(system(longer), seed=1, point={})
    run.hp.save(run.folder / "hparams.json")
    assert not run.changes() and not run.is_finished()


@pytest.mark.parametrize(
    "budget, used, grown, smaller", [("max_steps", 20, 25, 15), ("max_minutes", 0.5, 0.6, 0.4)]
)
def test_a_budget_may_grow_and_the_run_goes_on(make_runs, finish, budget, used, grown, smaller):
    def run(value):
        runs = make_runs(overrides={budget: value, "num_train_steps": 100})
        return runs.run(system(runs), seed=1, point={})

    finish(run(used), reason=f"{budget} ({used}) is what ended it")
    assert run(used).is_finished()
    for value in (grown, None):
        assert not run(value).changes() and not run(value).is_finished()
    assert run(smaller).changes() == {budget: (used, smaller)}


def test_results_cut_short_are_no_results(make_runs, finish):
    runs = make_runs()
    run = runs.run(system(runs), seed=1, point={})
    finish(run)
    text = (run.folder / "results.json").read_text()
    (run.folder / "results.json").write_text(text[: len(text) // 2])
    assert not run.is_finished()


def test_a_run_with_other_settings_is_refused_by_name(make_runs, finish):
    runs = make_runs()
    finish(runs.run(system(runs), seed=2, point={}))
    assert runs.run(system(runs), seed=2, point={}).is_finished()
    harmless = {"note": "other words", "test_prefix": "elsewhere/test"}
    assert make_runs(overrides=harmless).run(system(runs), seed=2, point={}).is_finished()
    changed = make_runs(overrides={"dropout": 0.25, **harmless})
    run = changed.run(system(changed), seed=2, point={})
    assert run.changes() == {"dropout": (0.3, 0.25)} and not run.is_finished()
    with pytest.raises(UserError, match=r"cond/seed2 holds .*\(dropout: 0.3 there, 0.25 now\)"):
        changed.check()


def test_the_grid_is_the_product_and_the_best_on_dev_is_chosen(make_runs, finish):
    runs = make_runs(systems=[GRID, {"name": "b", "grid_of": "cond", "tests": ["dev"]}])
    cond = system(runs)
    assert runs.points(cond) == [
        {"dropout": 0.1, "num_units": 4},
        {"dropout": 0.1, "num_units": 8},
        {"dropout": 0.2, "num_units": 4},
        {"dropout": 0.2, "num_units": 8},
    ]
    assert runs.chosen(cond) is None and list(runs.final_runs(cond)) == []
    # The highest is not the last, and an equal one that comes later does not beat it.
    for point, bleu in zip(runs.points(cond), [3.0, 7.5, 7.5, 1.0], strict=True):
        assert runs.chosen(cond) is None
        finish(runs.run(cond, seed=1, point=point), bleu=bleu)
    chosen = {"dropout": 0.1, "num_units": 8}
    assert runs.chosen(cond) == chosen == runs.chosen(system(runs, "b"))
    final = list(runs.final_runs(cond))
    assert [run.name for run in final] == [
        f"cond/dropout=0.1+num_units=8/seed{s}" for s in (1, 2)
    ]
    assert [run.is_finished() for run in final] == [True, False]  # seed 1 has searched
    assert all((run.hp.dropout, run.hp.num_units) == (0.1, 8) for run in final)


def test_the_mean_over_the_grids_seeds_decides(make_runs, finish):
    runs = make_runs(systems=[{**GRID, "grid": {"dropout": [0.1, 0.2]}, "grid_seeds": [1, 3]}])
    cond = system(runs)
    for dropout, seed, bleu in [(0.1, 1, 9.0), (0.1, 3, 1.0), (0.2, 1, 6.0), (0.2, 3, 5.0)]:
        assert runs.chosen(cond) is None
        finish(runs.run(cond, seed=seed, point={"dropout": dropout}), bleu=bleu)
    assert runs.chosen(cond) == {"dropout": 0.2}


def test_times_and_signatures_are_of_all_runs(make_runs, finish, tmp_path):
    """A search is work, too, and METEOR differs by language."""
    grid = {**GRID, "grid": {"dropout": [0.1, 0.2]}, "grid_seeds": [1], "tests": ["news"]}
    runs = make_runs(systems=[grid])
    for seed, dropout, seconds in [(1, 0.1, 10.0), (1, 0.2, 20.0), (2, 0.2, 40.0)]:
        run = runs.run(system(runs), seed=seed, point={"dropout": dropout})
        tests = {"news": (str(tmp_path / "test"), {"bleu": 1.0})}
        finish(run, bleu=dropout, seconds=seconds, tests=tests)
    path = run.folder / "tests" / "news.json"
    path.write_text(path.read_text().replace("bleu|sig", "bleu|other"))
    found = results.collect(runs, programs=tasks.external_metrics.Programs())
    assert found["signatures"] == {"bleu": "bleu|sig; bleu|other"}
    assert found["trained_runs"] == 3 and found["wall_time_seconds"] == 70.0


def test_flags_that_fight_with_the_grid_and_points_that_look_alike(make_runs):
    with pytest.raises(
        UserError, match="--dropout: .* searches for the best dropout of .*cond"
    ):
        make_runs(systems=[GRID], overrides={"dropout": 0.1})
    runs = make_runs(systems=[{**GRID, "grid": {"train_prefix": ["a/b", "a_b"]}}])
    with pytest.raises(UserError, match="two points of the grid are called train_prefix=a_b"):
        runs.check()
    with pytest.raises(UserError, match="a system cannot be called synthetic"):
        make_runs(systems=[{"name": "synthetic"}])


def names(runs, **options):
    programs = tasks.external_metrics.Programs()
    return tasks.make(runs, out=runs.folder.parent, programs=programs, **options)


def test_tasks_come_after_what_they_need(make_runs, finish):
    synthetic = {"crawl": {"model": "back", "seed": 3, "mono": "mono"}}
    back = {"name": "back", "settings": {"src": "de", "tgt": "en"}, "grid": {"dropout": [0.1]}}
    a = {"name": "a", "synthetic": "crawl", "tests": ["dev"], "seeds": [3]}
    runs = make_runs(systems=[a, {**back, "seeds": [3]}], synthetic=synthetic)
    found = names(runs, only=["a"])
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
    (run,) = runs.grid_runs(system(runs, "back"))
    finish(run)
    assert [state(task) for task in found[:3]] == ["done", "done", "to do"]
    (a,) = [task.run for task in found if task.name == "a/seed3"]
    assert a.hp.synthetic_prefix == str(runs.folder / "synthetic" / "crawl" / "train")
    assert [task.name for task in names(runs)][5:] == ["back/chosen/seed3/tests"]


def test_back_translation_must_go_the_other_way(make_runs):
    runs = make_runs(
        systems=[{"name": "a", "synthetic": "crawl"}, {"name": "back"}],
        synthetic={"crawl": {"model": "back", "mono": "mono"}},
    )
    with pytest.raises(
        UserError, match="needs a model from de to en; back is one from en to de"
    ):
        runs.check()


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
    task = next(t for t in names(runs) if t.name == "cond/seed1/tests")
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
    task = next(t for t in names(more) if t.name == "cond/seed1/tests")
    assert not task.is_done()
    flags = task.command().words
    assert flags[flags.index("--metrics") + 1] == "bleu,ter"
    assert flags[flags.index("--test") + 1] == f"news={prefix}"


def test_own_test_sets(make_runs, tmp_path):
    runs = make_runs(tests={"own": "@test"})
    evaluation = names(runs)[1]
    with pytest.raises(UserError, match="own: system cond has no test_prefix, so @test says"):
        evaluation.check()
    runs = make_runs(
        tests={"own": "@test"}, settings={"test_prefix": [str(tmp_path / "x"), "y"]}
    )
    with pytest.raises(UserError, match="several prefixes in test_prefix"):
        names(runs)[1].check()
    runs = make_runs(tests={"own": "@test"}, settings={"test_prefix": str(tmp_path / "x")})
    with pytest.raises(UserError, match="There is no file .*x.en"):
        names(runs)[1].check()
    demo = make_runs(tests={"own": "@test"}, data={})
    names(demo)[1].check()  # training makes it
    assert json.dumps(str(names(demo)[1].command().words)).count("demo/test") == 1


def test_data_that_is_not_there_is_known_before_anything_starts(make_runs):
    with pytest.raises(UserError, match="There is no file .*train.en"):
        names(make_runs())[0].check()


def test_progress_is_how_far_it_is_and_how_good(make_runs):
    runs = make_runs(overrides={"num_train_steps": 400})
    train = names(runs, only=["cond"])[0]
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
    assert names(shorter, only=["cond"])[0].progress() == "step 500, best dev BLEU 22.00"
    metrics.write_text(json.dumps(lines[0]))
    assert names(shorter, only=["cond"])[0].progress() == "step 100 of 350"
