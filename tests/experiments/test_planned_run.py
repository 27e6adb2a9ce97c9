"""When a run is finished, continues or is refused."""

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.experiments.planned_run import cut_by
from aevnmt_tf.training.stopping import Convergence, StoppingRule
from aevnmt_tf.training.training_loop import USED_UP_ELSEWHERE


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
    with pytest.raises(UserError, match=r"cond/seed2 contains .*\(dropout: 0.3 there, 0.25"):
        changed.check()
