"""Which runs a plan has, and what a grid chooses."""

import pytest

from aevnmt_tf.cli.errors import UserError

GRID = {
    "name": "cond",
    "settings": {"model_type": "cond"},
    "grid": {"dropout": [0.1, 0.2], "num_units": [4, 8]},
    "tests": ["dev"],
}


def system(runs, name="cond"):
    return runs.plan.systems[name]


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
    with pytest.raises(UserError, match="system cond: its grid sets dropout; omit --dropout"):
        make_runs(systems=[GRID], overrides={"dropout": 0.1}).check()
    runs = make_runs(systems=[{**GRID, "grid": {"train_prefix": ["a/b", "a_b"]}}])
    with pytest.raises(UserError, match="two points of the grid are called train_prefix=a_b"):
        runs.check()
    with pytest.raises(UserError, match="system synthetic: this name is reserved"):
        make_runs(systems=[{"name": "synthetic"}]).check()


def test_back_translation_must_go_the_other_way(make_runs):
    runs = make_runs(
        systems=[{"name": "a", "synthetic": "crawl"}, {"name": "back"}],
        synthetic={"crawl": {"model": "back", "mono": "mono"}},
    )
    with pytest.raises(
        UserError, match="needs a model from de to en; back translates en to de"
    ):
        runs.check()
