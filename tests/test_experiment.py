"""The command: what it refuses, what it shows, and the tables of runs that are there."""

import json
import statistics

import pytest

from aevnmt_tf import experiment
from aevnmt_tf.experiments import experiment_plan as plans
from aevnmt_tf.experiments import scheduler
from aevnmt_tf.experiments.plan_runs import PlanRuns

BLEU = {"cond": [20.0, 21.0, 22.5], "aevnmt": [21.0, 22.0, 24.0]}


@pytest.fixture
def plan(tmp_path):
    """A plan of two systems with three seeds."""
    for name in ("train", "test"):
        for lang in ("en", "de"):
            (tmp_path / f"{name}.{lang}").write_text("a\n")
    path = tmp_path / "plan.json"
    path.write_text(
        json.dumps(
            {
                "note": "A plan.",
                "out_dir": str(tmp_path / "out"),
                "seeds": [1, 2, 3],
                "data": {"src": "en", "tgt": "de", "train_prefix": str(tmp_path / "train")},
                "settings": {"num_train_steps": 9},
                "metrics": ["bleu", "kl", "meteor"],
                "tests": {"news": str(tmp_path / "test"), "dev": "@dev"},
                "systems": [
                    {
                        "name": "cond",
                        "settings": {"model_type": "cond"},
                        "labels": {"Model": "Cond"},
                    },
                    {"name": "aevnmt", "labels": {"Model": "AEVNMT"}},
                ],
                "tables": [{"rows": ["Model"], "caption": "Two systems.", "label": "tab:x"}],
            }
        )
    )
    return path


@pytest.fixture
def command(plan, capsys):
    def call(*words):
        code = experiment.main(["--plan", str(plan), *map(str, words)])
        output, messages = capsys.readouterr()
        return code, output, messages

    return call


@pytest.fixture
def finished(plan, tmp_path):
    """All runs but the last, and their scores; as they are on the disk."""
    runs = PlanRuns(plans.read(plan), tmp_path / "out" / "runs", tmp_path / "out")
    for name, values in BLEU.items():
        for seed, bleu in enumerate(values, 1):
            if (name, seed) == ("aevnmt", 3):
                continue
            run = runs.run(runs.plan.systems[name], seed=seed, point={})
            run.hp.save(run.folder / "hparams.json")
            best = {"step": 9, "dev_bleu": bleu + 1, "dev_chrf": 3.0}
            best["dev_kl"] = 5.0 + seed if name == "aevnmt" else 0.0  # as training writes it
            results = {"step": 9, "reason": "why", "best": best, "wall_time_seconds": 90.0}
            results["versions"] = {"aevnmt_tf": "0.1", "tensorflow": "2.21"}
            (run.folder / "results.json").write_text(json.dumps(results))
            (run.folder / "metrics.jsonl").write_text(json.dumps({"step": 9, **best}) + "\n")
            (run.folder / "tests").mkdir()
            prefix = str(tmp_path / "test")
            kept = {"prefix": prefix, "files": run.checksums(prefix)}
            kept["scores"] = {"bleu": {"score": bleu, "signature": "nrefs:1|x"}}
            (run.folder / "tests" / "news.json").write_text(json.dumps(kept))
    return runs


def test_the_tables_of_what_is_there(finished, command, tmp_path):
    code, output, messages = command("--table_only")
    assert code == 0 and "meteor is left out: give --meteor_jar" in messages
    out = tmp_path / "out"
    std = statistics.stdev(BLEU["cond"])
    row = f"| Cond | 21.2 ({std:.1f}) | 22.2 ({std:.1f}) | – |"
    assert row in output and row in (out / "table.md").read_text()
    # Two of three runs are there: their range.
    assert "| AEVNMT | **21.5 (21.0–22.0)** | **22.5 (22.0–23.0)** | 6.5 (6.0–7.0) |" in output
    assert "3 runs: mean (1 std); 2 runs: mean (range)." in output
    assert "Not done: aevnmt/seed3." in output
    assert "- BLEU: `nrefs:1|x`" in output
    assert "Trained in 8 min in all (5 runs)" in output
    assert f"python -m aevnmt_tf.experiment --plan {tmp_path}/plan.json --table_only" in output
    results = json.loads((out / "results.json").read_text())
    cell = results["tables"][0]["cells"][0]
    assert cell["values"] == BLEU["cond"] and cell["std"] == std
    assert results["missing"] == ["aevnmt/seed3"]
    assert results["systems"]["cond"]["settings"]["model_type"] == "cond"
    assert results["systems"]["cond"]["runs"][1]["tests"] == {
        "news": {"bleu": 21.0},
        "dev": {"bleu": 22.0},
    }
    assert '- cond: `model_type` "cond"\n' in (out / "table.md").read_text()
    tex = (out / "table.tex").read_text()
    assert r"\textbf{21.5~(21.0--22.0)}" in tex and r"\label{tab:x}" in tex
    assert sorted(path.name for path in (out / "plots").iterdir()) == [
        "aevnmt.png",
        "cond.png",
        "systems.png",
    ]


def test_a_run_that_was_cut_short_is_named(finished, command):
    def change(path, **values):
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    run = finished.run(finished.plan.systems["aevnmt"], seed=2, point={})
    assert "Cut short" not in command("--table_only")[1]
    change(run.folder / "hparams.json", max_minutes=1.5)
    change(run.folder / "results.json", step=5, reason="max_minutes (1.5) have passed")
    flags = ["--table_only", "--only", "aevnmt", "--seeds", "2"]
    _, output, messages = command(*flags, "--max_minutes", 1.5)
    assert "Cut short by a budget: aevnmt/seed2 at step 5 of 9.\n" in output, messages
    assert "Not done: aevnmt/seed2.\n" in command(*flags, "--max_minutes", 20)[1]


def test_some_test_sets_alone(finished, command, tmp_path):
    code, output, _ = command("--table_only", "--tests", "dev")
    assert code == 0
    std = statistics.stdev(BLEU["cond"])
    assert f"| Cond | 22.2 ({std:.1f}) | – |" in output
    assert "| AEVNMT | **22.5 (22.0–23.0)** | 6.5 (6.0–7.0) |" in output
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["systems"]["cond"]["runs"][1]["tests"] == {"dev": {"bleu": 22.0}}


def test_a_dry_run_says_what_is_there_and_makes_nothing(finished, command, tmp_path):
    before = sorted((tmp_path / "out").rglob("*"))
    code, output, _ = command("--dry_run")
    assert code == 0
    lines = {line[7:]: line[:7].strip() for line in output.splitlines()}
    assert lines["cond/seed1"] == lines["cond/seed1/tests"] == "done"
    assert lines["aevnmt/seed3"] == lines["aevnmt/seed3/tests"] == "to do"
    assert len(lines) == 12
    assert sorted((tmp_path / "out").rglob("*")) == before
    code, output, _ = command("--dry_run", "--only", "cond", "--seeds", "2,7")
    assert output == "done   cond/seed2\ndone   cond/seed2/tests\nto do  cond/seed7\n" + (
        "to do  cond/seed7/tests\n"
    )
    both = command("--dry_run", "--only", "aevnmt,cond", "--seeds", "2")[1]
    assert [line[7:] for line in both.splitlines()] == [
        f"{name}/seed2{part}" for name in ("cond", "aevnmt") for part in ("", "/tests")
    ]


def test_a_dry_run_names_data_that_is_not_there(plan, command, tmp_path):
    assert command("--dry_run")[0] == 0
    (tmp_path / "train.en").unlink()
    (tmp_path / "test.de").unlink()
    code, output, messages = command("--dry_run", "--only", "cond", "--seeds", "1")
    assert code == 2 and output == "to do  cond/seed1\nto do  cond/seed1/tests\n"
    assert messages.count("\n") == 2 and "train.en" in messages and "test.de" in messages


def test_a_table_keeps_the_provenance_of_its_runs(
    finished, command, plan, tmp_path, monkeypatch
):
    def results():
        return json.loads((tmp_path / "out" / "results.json").read_text())

    done = scheduler.JobOutcomes(done=["aevnmt/seed2"])
    monkeypatch.setattr(scheduler.Scheduler, "run", lambda self: done)
    assert command("--jobs", 2)[0] == 0
    made = results()
    assert made["command"] == f"python -m aevnmt_tf.experiment --plan {plan} --jobs 2"
    assert made["finished"][:2] == "20"
    _, output, _ = command("--table_only", "--only", "cond")
    assert {**results(), "finished": made["finished"]} == results()
    assert results()["command"] == made["command"] and made["command"] in output
    # All was there: nothing was made by this command.
    monkeypatch.setattr(scheduler.Scheduler, "run", lambda self: scheduler.JobOutcomes())
    command("--jobs", 1)
    assert results()["command"] == made["command"]


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--only", "con"], "--only"),
        (["--only", "cond,con"], "did you mean cond?"),
        (["--tests", "dev,new"], "no test set called new; did you mean news?"),
        (["--random_seed", "3"], "--random_seed is set by the experiment: use --seeds"),
        (["--out_dir", "x"], "--out_dir is set by the experiment: use --out"),
        (["--seeds", "1,1"], "--seeds: 1,1 names a seed twice"),
        (["--max_stps", "3"], "unknown flag --max_stps; did you mean --max_steps?"),
        (
            ["--dropout", "0.9", "--dry_run"],
            "cond/seed1 contains a run with other settings (dropout",
        ),
        (["--jobs", "0"], "must be 1 or more"),
        (["--beer", "nowhere"], "nowhere"),
    ],
)
def test_what_it_refuses(finished, command, words, sentence):
    code, output, messages = command(*words)
    assert code == 2 and output == ""
    assert sentence in messages and messages.count("\n") == 1


def test_files_that_are_missing_are_known_at_once(plan, command, tmp_path):
    (tmp_path / "test.de").unlink()
    code, _, messages = command()
    assert code == 2 and "test.de" in messages
    assert not (tmp_path / "out").exists()


def test_what_is_done_needs_its_files_no_more(finished, command, tmp_path):
    for name in ("train", "test"):
        for lang in ("en", "de"):
            (tmp_path / f"{name}.{lang}").unlink()
    code, output, _ = command("--only", "cond")
    assert code == 0 and "| Cond |" in output
    code, _, messages = command("--only", "aevnmt")  # has a run to do
    assert code == 2 and "train.en" in messages


def test_machines_are_those_that_trained(finished, command, tmp_path):
    assert "Trained in 8 min in all (5 runs), aevnmt_tf 0.1" in command("--table_only")[1]
    for seed, cores in ((1, 1), (2, 4), (3, 1)):
        path = tmp_path / "out" / "runs" / "cond" / f"seed{seed}" / "results.json"
        found = {**json.loads(path.read_text()), "machine": {"processor": "P", "cores": cores}}
        path.write_text(json.dumps(found))
    assert "(5 runs), on 1 core of P and 4 cores of P, aevnmt" in command("--table_only")[1]


def test_settings_that_change_nothing_do_not_refuse_a_run(finished, command):
    flags = ("--infer_batch_size", 3, "--jit_compile", "false")
    code, _, messages = command("--table_only", *flags)
    assert code == 0, messages
    code, _, messages = command("--table_only", "--dropout", 0.33)
    assert code == 2 and "choose another --out, or remove the folder to train again" in messages


def test_an_interruption_says_how_to_go_on(plan, command, monkeypatch, tmp_path):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(scheduler.Scheduler, "run", interrupted)
    code, output, messages = command("--seeds", "1")
    assert code == 130 and output == ""
    words = f"python -m aevnmt_tf.experiment --plan {tmp_path}/plan.json --seeds 1"
    assert f"interrupted; the same command continues from here: {words}\n" in messages


def test_a_failure_is_the_exit_code(plan, command, monkeypatch):
    outcome = scheduler.JobOutcomes(failed={"cond/seed1": "why"}, blocked={"x": "cond/seed1"})
    monkeypatch.setattr(scheduler.Scheduler, "run", lambda self: outcome)
    code, output, messages = command()
    assert code == 1 and "No score yet." in output
    assert "cond/seed1 failed: why" in messages


def test_out_of_the_command_line_has_runs_of_its_own(plan, tmp_path):
    parse = experiment.parser().parse_args
    shared = plan.with_name("shared.json")
    shared.write_text(json.dumps({**json.loads(plan.read_text()), "runs_dir": "shared"}))
    for words, expected in [
        ([], ("out", "shared")),
        (["--out", "o"], ("o", "o/runs")),
        (["--out", "o/", "--runs", "./r"], ("o", "r")),
    ]:
        args = parse(["--plan", str(shared), *words])
        found = experiment._folders(args, plans.read(shared))
        assert tuple(str(path).removeprefix(f"{tmp_path}/") for path in found) == expected
