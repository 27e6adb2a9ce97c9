"""Which runs a plan has, when they are finished, and what a grid chooses."""

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.experiments.plan_runs import cut_by
from aevnmt_tf.training.stopping import Convergence, StoppingRule
from aevnmt_tf.training.training_loop import USED_UP_ELSEWHERE

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
    known = {"progress": Convergence(), "seconds": 0.0}
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


def test_training_may_become_longer_unless_the_learning_rate_follows_its_length(
    make_runs, finish
):
    def run(steps, decay="", **more):
        flags = {"num_train_steps": steps, "decay_scheme": decay, **more}
        runs = make_runs(overrides=flags)
        return runs.run(system(runs), seed=1, point={})

    finish(run(20))
    assert run(20).is_finished()
    assert run(30).changes() == {} and not run(30).is_finished()
    run(30).refuse_changes()
    assert run(10).changes() == {"num_train_steps": (20, 10)}
    finish(run(20, "luong5"))
    assert run(30, "luong5").changes() == {"num_train_steps": (20, 30)}


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


def test_back_translation_must_go_the_other_way(make_runs):
    runs = make_runs(
        systems=[{"name": "a", "synthetic": "crawl"}, {"name": "back"}],
        synthetic={"crawl": {"model": "back", "mono": "mono"}},
    )
    with pytest.raises(
        UserError, match="needs a model from de to en; back is one from en to de"
    ):
        runs.check()
