"""What a plan says, and one sentence about each mistake in it."""

import json
from pathlib import Path

import pytest

from aevnmt_tf import hparams
from aevnmt_tf.errors import UserError
from aevnmt_tf.experiments import plan as plans
from aevnmt_tf.experiments.runs import Runs

SHIPPED = sorted((Path(__file__).parents[2] / "hparams" / "plans").glob("*.json"))


def test_defaults_and_the_order_of_settings(write_plan, tmp_path):
    (tmp_path / "base.json").write_text(
        json.dumps({"num_units": 7, "z_dim": 3, "dropout": 0.1})
    )
    system = {"name": "a", "hparams": "base.json", "settings": {"dropout": 0.3}, "seeds": [5]}
    path = write_plan(systems=[system], settings={"z_dim": 4, "dropout": 0.2})
    plan = plans.read(path)
    a = plan.systems["a"]
    assert (a.seeds, a.tests, a.grid_seeds) == ((5,), ("news", "dev"), (5,))
    hp = plan.settings_of(a, beam_width=2)
    assert (hp.num_units, hp.z_dim, hp.dropout, hp.beam_width) == (7, 4, 0.3, 2)
    assert hp.train_prefix == str(tmp_path / "train")
    (table,) = plan.tables
    assert (table.rows, table.columns) == (("system",), ("test", "metric"))
    assert table.compare == "system" and table.metrics == ("bleu", "chrf")


COND = {"name": "cond", "settings": {"model_type": "cond"}}


@pytest.mark.parametrize(
    "changes, sentence",
    [
        (
            {"systms": []},
            "plan.json, line 1: there is no key called systms; did you mean systems",
        ),
        ({"systems": None}, "the key systems is missing"),
        ({"systems": []}, "systems must be a list of objects, not \\[\\]"),
        ({"seeds": [1, 1]}, "seeds must be a list of different whole numbers from 0"),
        ({"seeds": [-1]}, "seeds must be"),
        ({"metrics": ["bleu", "crhf"]}, "metrics must be .*; did you mean chrf"),
        ({"tests": {"a/b": "x"}}, "tests must be test sets"),
        ({"tests": {"a,b": "x"}}, "names without / = and comma"),
        ({"tests": {"-a": "x"}}, "and no - in front"),
        (
            {"data": {"train_prefx": "x"}},
            "data: there is no data setting called train_prefx; did",
        ),
        ({"data": {"dropout": 0.1}}, "data: there is no data setting called dropout"),
        ({"settings": {"droput": 0.1}}, "settings: there is no setting called droput; did you"),
        ({"settings": {"random_seed": 3}}, "random_seed is set by the experiment: use seeds"),
        ({"systems": [{"settings": {}}]}, "systems: the key name is missing"),
        ({"systems": [{"name": "a/b"}]}, "name must be a name of letters, digits"),
        ({"systems": [COND, COND]}, "there are two systems called cond"),
        (
            {"systems": [{**COND, "hparam": "x"}]},
            "system cond: there is no key called hparam; did",
        ),
        (
            {"systems": [{**COND, "tests": ["nws"]}]},
            "no test set called nws; did you mean news",
        ),
        ({"systems": [{**COND, "grid": {"dropout": []}}]}, "grid must be a grid"),
        (
            {"systems": [{**COND, "grid": {"drop": [1]}}]},
            "grid: there is no setting called drop",
        ),
        (
            {"systems": [{**COND, "grid": {"model_type": ["cond"]}}]},
            "model_type stands in settings and in grid",
        ),
        ({"systems": [{**COND, "grid_of": "x"}]}, "there is no system called x"),
        ({"systems": [{**COND, "grid_of": "b"}, {"name": "b"}]}, "b: that system has no grid"),
        ({"systems": [{**COND, "synthetic": "x"}]}, "there is no synthetic data called x"),
        ({"synthetic": {"x": {"mono": "m"}}}, "synthetic x: the key model is missing"),
        (
            {"synthetic": {"x": {"mono": "m", "model": "con"}}},
            "synthetic x: there is no system called con; did you mean cond",
        ),
        (
            {"synthetic": {"x": {"mono": "m", "model": "cond", "seed": 7}}},
            "seed 7 is none of cond's: 1, 2",
        ),
        (
            {
                "synthetic": {"x": {"mono": "m", "model": "cond"}},
                "systems": [{**COND, "synthetic": "x"}],
            },
            "systems need each other in a circle: cond -> cond",
        ),
        ({"tables": [{"rows": ["Model"]}]}, "table 1: there is no label called Model"),
        (
            {
                "systems": [{**COND, "labels": {"Model": "C"}}, {"name": "b"}],
                "tables": [{"rows": ["Model"]}],
            },
            "table 1: system b has no label Model",
        ),
        ({"tables": [{"rows": ["test"]}]}, "test stands twice in rows and columns"),
        (
            {"tables": [{"columns": ["metric"], "compare": "test"}]},
            "compare must be a label of",
        ),
        (
            {
                "systems": [{"name": name, "labels": {"Model": "C"}} for name in "ab"],
                "tables": [{"rows": ["Model"]}],
            },
            "table 1: systems a and b fall into one cell of the table .C, news, bleu.: tell",
        ),
        (
            {"tables": [{}, {"columns": ["metric"]}]},
            "table 2: tests news and dev fall into one cell",
        ),
    ],
)
def test_a_mistake_is_one_sentence(write_plan, changes, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        plans.read(write_plan(**changes))
    assert "plan.json" in str(caught.value) and "\n" not in str(caught.value)


def test_scores_that_only_dev_has_need_no_column_for_the_test(write_plan):
    table = {"columns": ["metric"], "metrics": ["kl"]}
    (read,) = plans.read(write_plan(tables=[table])).tables
    assert read.columns == ("metric",) and read.tests == ("news", "dev")


def test_files_that_are_no_plans(tmp_path):
    with pytest.raises(UserError, match="none.json cannot be read"):
        plans.read(tmp_path / "none.json")
    (tmp_path / "x.json").write_text('{"a": 1,\n}')
    with pytest.raises(UserError, match="x.json, line 2: this is not JSON"):
        plans.read(tmp_path / "x.json")


def test_bad_values_and_missing_files_name_the_system(make_runs):
    runs = make_runs(systems=[{**COND, "settings": {"dropout": 2}}])
    with pytest.raises(UserError, match="plan.json, system cond: dropout must be .*, not 2"):
        runs.check()
    with pytest.raises(UserError, match="system cond: .*no.json cannot be read"):
        make_runs(systems=[{**COND, "hparams": "no.json"}]).check()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_plans_are_good(path, tmp_path):
    plan = plans.read(path)
    assert plan.note and plan.out_dir
    for system in plan.systems.values():
        assert system.hparams.is_file()
    runs = Runs(plan, tmp_path)
    runs.check()  # all settings load, directions fit
    for system in plan.systems.values():
        hp = runs.run(system, seed=1, point=(runs.points(system) or [{}])[0]).hp
        direction = system.labels.get("Direction")
        assert direction is None or direction.lower() == f"{hp.src}-{hp.tgt}"
        model = system.labels.get("Model")
        assert model is None or model.split()[0].lower() == hp.model_type
        assert (hp.synthetic_prefix is not None) == (system.synthetic is not None)


def test_the_papers_plans_are_all_there_and_share_runs():
    names = "in_domain mixed_domain synthetic elbo_variants unseen_domains search".split()
    names += ["multi30k", "multi30k_tatoeba", "demo"]
    found = {path.stem: plans.read(path) for path in SHIPPED}
    assert sorted(found) == sorted(names)
    shared = [found[name] for name in names[:5]]
    assert {plan.runs_dir for plan in shared} == {"runs/paper"}
    settings: dict[str, hparams.Hparams] = {}
    for plan in shared:
        runs = Runs(plan, Path("runs/paper"))
        for system in plan.systems.values():
            hp = runs.run(system, seed=1, point={}).hp
            assert settings.setdefault(system.name, hp) == hp, system.name
    grids = {s.name: s.grid for s in found["search"].systems.values() if s.grid}
    assert grids["nc_cond_en-de"] == {"dropout": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}
    assert set(grids["nc_aevnmt_en-de"]) == {"KL_annealing_steps", "word_dropout"}
    modes = [s.settings.get("r_train_mode") for s in found["elbo_variants"].systems.values()]
    assert modes == ["KLr", "KLq", "JS", "l2", None]


def test_the_page_of_the_plans_lists_them_all():
    page = (SHIPPED[0].parent / "README.md").read_text()
    for path in SHIPPED:
        assert f"| `{path.name}` |" in page
