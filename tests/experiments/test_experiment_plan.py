"""What a plan says, and one sentence about each mistake in it."""

import dataclasses
import json
from pathlib import Path

import pytest

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.experiments import experiment_plan as plans
from aevnmt_tf.experiments import plan_keys
from aevnmt_tf.experiments.plan_runs import PlanRuns

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
    hp = plan.settings_of(a, {"beam_width": 2})
    assert (hp.num_units, hp.z_dim, hp.dropout, hp.beam_width) == (7, 4, 0.3, 2)
    assert hp.train_prefix == str(tmp_path / "train")
    (table,) = plan.tables
    assert (table.rows, table.columns) == (("system",), ("test", "metric"))
    assert table.compare == "system" and table.metrics == ("bleu", "chrf")


COND = {"name": "cond", "settings": {"model_type": "cond"}}


CRAWL = {"mono": "m", "model": "cond"}
A, B = ({"name": name, "labels": {"Model": "C"}} for name in "ab")


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"systms": []}, ["plan.json, line 1: ", "systms", "did you mean systems"]),
        ({"systems": None}, ["systems"]),
        ({"systems": []}, ["systems", "[]"]),
        ({"seeds": [1, 1]}, ["seeds"]),
        ({"seeds": [-1]}, ["seeds"]),
        ({"metrics": ["bleu", "crhf"]}, ["metrics", "crhf", "did you mean chrf"]),
        ({"tests": {"a/b": "x"}}, ["tests"]),
        ({"tests": {"a,b": "x"}}, ["tests"]),
        ({"tests": {"-a": "x"}}, ["tests"]),
        ({"tests": {"all": "x"}}, ["tests"]),
        ({"tests": {}}, ["tests"]),
        ({"data": {"train_prefx": "x"}}, ["data: ", "train_prefx", "train_prefix?"]),
        ({"data": {"dropout": 0.1}}, ["data: ", "dropout"]),
        ({"settings": {"droput": 0.1}}, ["settings: ", "droput", "dropout?"]),
        ({"settings": {"random_seed": 3}}, ["random_seed", "use seeds"]),
        ({"systems": [{"settings": {}}]}, ["systems: ", "name"]),
        ({"systems": [{"name": "a/b"}]}, ["system a/b: ", "name"]),
        ({"systems": [COND, COND]}, ["two", "cond"]),
        ({"systems": [{**COND, "hparam": "x"}]}, ["system cond: ", "hparam", "hparams?"]),
        ({"systems": [{**COND, "tests": ["nws"]}]}, ["system cond: ", "nws", "news?"]),
        ({"systems": [{**COND, "grid": {"dropout": []}}]}, ["grid"]),
        ({"systems": [{**COND, "grid": {"drop": [1]}}]}, ["grid: ", "drop"]),
        ({"systems": [{**COND, "grid": {"model_type": ["cond"]}}]}, ["model_type"]),
        ({"systems": [{**COND, "grid_of": "x"}]}, ["system cond: ", "x"]),
        ({"systems": [{**COND, "grid_of": "b"}, {"name": "b"}]}, ["grid_of b"]),
        ({"systems": [{**COND, "synthetic": "x"}]}, ["system cond: ", "x"]),
        ({"synthetic": {"x": {"mono": "m"}}}, ["synthetic x: ", "model"]),
        ({"synthetic": {"x": {**CRAWL, "model": "con"}}}, ["synthetic x: ", "con", "cond?"]),
        ({"synthetic": {"x": {**CRAWL, "seed": 7}}}, ["synthetic x: ", "seed 7", "1, 2"]),
        (
            {"synthetic": {"x": CRAWL}, "systems": [{**COND, "synthetic": "x"}]},
            ["cond -> cond"],
        ),
        ({"prepare": {"hparms": "x"}}, ["prepare: ", "hparms", "hparams?"]),
        ({"prepare": {"mono": {"de": {"seed": 1}}}}, ["prepare: mono de: ", "mono"]),
        ({"prepare": {"settings": {"vocb_size": 1}}}, ["prepare: ", "vocab_size?"]),
        ({"prepare": {}, "settings": {"vocab_prefix": "x"}}, ["cond: ", "vocab_prefix"]),
        (
            {"prepare": {}, "synthetic": {"x": {**CRAWL, "tag": "<bt>"}}},
            ["synthetic x: ", "tag <bt>", "prepare"],
        ),
        ({"tables": [{"rows": ["Model"]}]}, ["table 1: ", "Model"]),
        (
            {"systems": [A, {"name": "c"}], "tables": [{"rows": ["Model"]}]},
            ["table 1: ", "system c", "Model"],
        ),
        ({"tables": [{"rows": ["test"]}]}, ["table 1: ", "test"]),
        ({"tables": [{"columns": ["metric"], "compare": "test"}]}, ["compare", "test"]),
        (
            {"systems": [A, B], "tables": [{"rows": ["Model"]}]},
            ["table 1: ", "systems a and b", "(C, news, bleu)"],
        ),
        ({"tables": [{}, {"columns": ["metric"]}]}, ["table 2: ", "tests news and dev"]),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_place(write_plan, changes, named):
    with pytest.raises(UserError) as caught:
        plans.read(write_plan(**changes))
    said = str(caught.value)
    assert said.count("plan.json") == 1 and "\n" not in said and said[-1] in ".?"
    for name in named:
        assert name in said, said


def test_scores_that_only_dev_has_need_no_column_for_the_test(write_plan):
    table = {"columns": ["metric"], "metrics": ["kl"]}
    (read,) = plans.read(write_plan(tables=[table])).tables
    assert read.columns == ("metric",) and read.tests == ("news", "dev")


def test_files_that_are_no_plans(tmp_path):
    with pytest.raises(UserError, match="none.json"):
        plans.read(tmp_path / "none.json")
    (tmp_path / "x.json").write_text('{"a": 1,\n}')
    with pytest.raises(UserError, match="x.json, line 2: .*JSON"):
        plans.read(tmp_path / "x.json")


def test_bad_values_and_missing_files_name_the_system(make_runs):
    runs = make_runs(systems=[{**COND, "settings": {"dropout": 2}}])
    with pytest.raises(UserError, match="plan.json, system cond: dropout must be .*, not 2"):
        runs.check()
    with pytest.raises(UserError, match="system cond: .*no.json"):
        make_runs(systems=[{**COND, "hparams": "no.json"}]).check()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_plans_are_good(path, tmp_path):
    plan = plans.read(path)
    assert plan.note and plan.out_dir
    for system in plan.systems.values():
        assert system.hparams.is_file()
    runs = PlanRuns(plan, tmp_path, tmp_path)
    runs.check()  # all settings load, directions fit
    for system in plan.systems.values():
        hp = runs.run(system, seed=1, point=(runs.points(system) or [{}])[0]).hp
        direction = system.labels.get("Direction")
        assert direction is None or direction.lower() == f"{hp.src}-{hp.tgt}"
        model = system.labels.get("Model")
        assert model is None or model.replace(",", " ").split()[0].lower() == hp.model_type
        assert (hp.synthetic_prefix is not None) == (system.synthetic is not None)


def test_the_papers_plans_are_all_there_and_share_runs():
    names = "in_domain mixed_domain synthetic elbo_variants unseen_domains search".split()
    names += ["multi30k", "multi30k_tatoeba", "demo"]
    found = {path.stem: plans.read(path) for path in SHIPPED}
    assert set(names) <= set(found)
    shared = [found[name] for name in names[:5]]
    assert {plan.runs_dir for plan in shared} == {"runs/paper"}
    settings: dict[str, hparams.Hparams] = {}
    for plan in shared:
        runs = PlanRuns(plan, Path("runs/paper"), Path("out"))
        for system in plan.systems.values():
            hp = runs.run(system, seed=1, point={}).hp
            assert settings.setdefault(system.name, hp) == hp, system.name
    (prepare,) = {json.dumps(dataclasses.asdict(plan.prepare), default=str) for plan in shared}
    grids = {s.name: s.grid for s in found["search"].systems.values() if s.grid}
    assert grids["nc_cond_en-de"] == {"dropout": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}
    assert grids["nc_aevnmt_en-de"] == {
        "KL_annealing_steps": [20000, 40000, 60000, 80000],
        "word_dropout": [0.2, 0.3, 0.4],
    }
    modes = [s.settings.get("r_train_mode") for s in found["elbo_variants"].systems.values()]
    assert modes == ["KLr", "KLq", "JS", "l2", None]


def test_the_paper_learns_its_text_models_from_all_bilingual_text_and_german():
    for path in SHIPPED:
        plan = plans.read(path)
        if plan.runs_dir != "runs/paper":
            continue
        runs = PlanRuns(plan, Path(plan.runs_dir), Path("out"))
        hp = runs.shared_settings
        assert set(hp.train_prefix) == {"data/news-commentary/train", "data/iwslt14/train"}
        assert (hp.text_pipeline, hp.vocab_size, hp.share_vocab) == ("moses", 32000, False)
        assert list(plan.prepare.mono) == ["de"]
        text = plan.prepare.mono["de"]
        # The same lines as those that are back-translated.
        for synthetic in plan.synthetic.values():
            there = (synthetic.mono, synthetic.num_lines, synthetic.seed)
            assert there == (text.mono, text.num_lines, text.seed)


def test_the_page_of_the_plans_lists_them_all():
    page = (SHIPPED[0].parent / "README.md").read_text()
    assert plan_keys.table() in page
    for path in SHIPPED:
        assert f"| `{path.name}` |" in page
