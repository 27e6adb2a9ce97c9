"""Whole experiments with tiny models: killed and resumed, searched, with synthetic text."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aevnmt_tf.evaluation import metrics
from aevnmt_tf.storage import run_directory
from tests import tiny_run

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "aevnmt_tf.experiment", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*words):
    process = start(*words)
    output, messages = process.communicate(timeout=900)
    return process.returncode, output, messages


def write_plan(folder, **changes):
    """A plan whose systems train on a tiny corpus."""
    tiny_run.write_settings(folder, num_train_steps=20)
    settings = json.loads((folder / "settings.json").read_text())
    del settings["out_dir"]
    (folder / "settings.json").write_text(json.dumps(settings))
    tiny_run.write_corpus(folder / "other", dev=5, seed=2)
    plan = {
        "out_dir": str(folder / "out"),
        "tests": {"other": str(folder / "other" / "dev"), "dev": "@dev"},
        "metrics": ["bleu", "chrf", "kl"],
        **changes,
    }
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    return path


def stats(folder):
    """What the files of a folder are: a run that is repeated would have others."""
    return {
        str(path): (path.stat().st_ino, path.stat().st_mtime_ns, path.stat().st_size)
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def kill_when(is_true, process, seconds=900):
    """Kill the process at once when something is true, or when it takes too long."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end and not is_true():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    _, messages = process.communicate()
    assert process.returncode == -signal.SIGKILL and is_true(), messages


def test_a_killed_experiment_goes_on_without_repeating_finished_runs(tmp_path):
    plan = write_plan(
        tmp_path,
        systems=[
            {
                "name": "cond",
                "hparams": "settings.json",
                "settings": {"model_type": "cond"},
                "grid": {"dropout": [0.0, 0.2]},
            },
            {
                "name": "aevnmt",
                "hparams": "settings.json",
                "settings": {"num_train_steps": 200, "steps_per_external_eval": 200},
            },
        ],
    )
    runs = tmp_path / "out" / "runs"
    process = start("--plan", plan)
    long_one = runs / "aevnmt" / "seed1"
    kill_when(lambda: run_directory.listing(long_one / "checkpoints"), process)
    assert not (long_one / "results.json").exists()
    finished = stats(runs / "cond")
    assert {Path(name).name for name in finished} >= {"results.json", "other.json"}

    code, output, messages = run("--plan", plan)
    assert code == 0, messages
    assert stats(runs / "cond") == finished
    assert "cond/dropout=0.0/seed1: was done before" in messages
    log = (tmp_path / "out" / "logs" / "aevnmt.seed1.log").read_text()
    assert "resumed at step" in log
    assert json.loads((long_one / "results.json").read_text())["step"] == 200
    # The grid has taken the better one, and the table has its scores.
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    points = [runs / "cond" / f"dropout={rate}" / "seed1" for rate in (0.0, 0.2)]
    bleu = [json.loads((p / "results.json").read_text())["best"]["dev_bleu"] for p in points]
    chosen = points[bleu.index(max(bleu))]
    assert results["systems"]["cond"]["chosen"] == {"dropout": float(chosen.parent.name[8:])}
    assert [p for p in points if (p / "tests").exists()] == [chosen]
    # An independent way to the same number.
    reference = (tmp_path / "other" / "dev.de").read_text().splitlines()
    for name, folder in (("cond", chosen), ("aevnmt", long_one)):
        lines = (folder / "tests" / "other.txt").read_text().splitlines()
        expected = metrics.score(lines, reference, names=("bleu",))["bleu"].value
        assert results["systems"][name]["runs"][0]["tests"]["other"]["bleu"] == expected
    assert results["missing"] == [] and "Search for cond" in output
    assert "kl" in results["systems"]["aevnmt"]["runs"][0]["tests"]["dev"]

    before = stats(tmp_path / "out" / "runs")
    code, again, _ = run("--plan", plan)
    assert code == 0 and again == output and stats(tmp_path / "out" / "runs") == before
    code, _, messages = run("--plan", plan, "--learning_rate", "0.1")
    assert code == 2 and "contains a run with other settings (learning_rate" in messages


# Enough to translate every line by some words.
LEARNS = {"num_train_steps": 120, "steps_per_external_eval": 120, "learning_rate": 0.03}


def test_synthetic_text_and_a_crash_that_stops_nobody_else(tmp_path):
    corpus = tiny_run.write_corpus(tmp_path / "crawl", train=30, seed=5)
    plan = write_plan(
        tmp_path,
        synthetic={"crawl": {"model": "back", "mono": corpus["train"], "tag": "<bt>"}},
        systems=[
            {
                "name": "cond",
                "hparams": "settings.json",
                "settings": {"model_type": "cond", "mono_real_ratio": 2},
                "synthetic": "crawl",
            },
            {
                "name": "back",
                "hparams": "settings.json",
                "settings": {"src": "de", "tgt": "en", "model_type": "cond", **LEARNS},
                "in_tables": False,
                "tests": ["dev"],
            },
            {
                "name": "bad",
                "settings": {"src": "en", "tgt": "de", "train_prefix": str(tmp_path / "bad")},
            },
        ],
    )
    for lang, lines in (("en", 3), ("de", 4)):
        (tmp_path / f"bad.{lang}").write_text("a\n" * lines)
    code, output, messages = run("--plan", plan, "--jobs", 2)
    assert code == 1, messages
    assert "bad/seed1: FAILED: aevnmt train: " in messages and "3 lines" in messages
    assert "bad/seed1/tests: not done: it needs bad/seed1" in messages
    assert "| cond |" in output and "| back |" not in output
    folder = tmp_path / "out" / "runs" / "synthetic" / "crawl"
    translation = folder / "train.translation.en"
    made = translation.read_text()
    assert (
        made.count("\n") == 30
        and len(made.split()) > 30
        and (folder / "train.de").read_text().count("\n") == 30
    )
    cond = tmp_path / "out" / "runs" / "cond" / "seed1"
    words = (cond / "text" / "vocab.en").read_text().split("\n")
    assert words[:4] == ["<unk>", "<s>", "</s>", "<bt>"]
    counts = json.loads((cond / "counts.json").read_text())
    assert "crawl" in json.dumps(counts)

    # Killed in the middle of a line, it goes on and comes to the same text.
    translation.unlink()
    lines = made.split("\n")
    half = "\n".join(lines[:11]) + "\n" + lines[11][: len(lines[11]) // 2]
    (folder / ".translation.part").write_text(half)
    before = stats(cond)
    code, _, messages = run("--plan", plan, "--only", "cond")
    assert code == 0, messages
    assert translation.read_text() == made and stats(cond) == before
    assert "19 lines" in (tmp_path / "out" / "logs" / "synthetic.crawl.log").read_text()


def test_text_is_prepared_once_for_all_runs(tmp_path):
    """With Moses, runs of both directions and with synthetic text share vocabularies."""
    crawl = tiny_run.write_corpus(tmp_path / "crawl", train=30, seed=5)
    moses = {"text_pipeline": "moses", "subword_option": "bpe", "vocab_size": 40}
    test = str(tmp_path / "other" / "dev")
    one = {"hparams": "settings.json"}
    plan = write_plan(
        tmp_path,
        settings={**moses, **LEARNS, "model_type": "cond", "test_prefix": test},
        tests={"own": "@test", "dev": "@dev"},
        prepare={**one, "mono": {"de": {"mono": crawl["train"], "num_lines": 20}}},
        synthetic={"crawl": {"model": "back", "mono": crawl["train"], "num_lines": 20}},
        systems=[
            {**one, "name": "cond", "settings": {"mono_real_ratio": 2}, "synthetic": "crawl"},
            {**one, "name": "back", "settings": {"src": "de", "tgt": "en"}},
        ],
    )
    code, output, messages = run("--plan", plan)
    assert code == 0, messages
    runs = tmp_path / "out" / "runs"
    models = runs / "prepared" / "models"
    assert json.loads((models / "manifest.json").read_text())["corpora"]["mono.de"]
    names = sorted(path.name for path in (models / "text").glob("[vm]o*.*"))
    assert "moses.de.codes" in names and "vocab.en" in names
    for name in names:
        for system in ("cond", "back"):
            copy = runs / system / "seed1" / "text" / name
            assert copy.read_bytes() == (models / "text" / name).read_bytes(), name
    # The lines that the models have learnt from are those that were translated.
    (drawn,) = (runs / "mono").glob("*.de")
    assert (runs / "synthetic" / "crawl" / "train.de").read_bytes() == drawn.read_bytes()
    assert not (runs / "cond" / "seed1" / "prepared").exists()
    # Scores are of raw text.
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    reference = Path(f"{test}.de").read_text().splitlines()
    lines = (runs / "cond" / "seed1" / "tests" / "own.txt").read_text().splitlines()
    expected = metrics.score(lines, reference, names=("bleu",))["bleu"].value
    assert found["systems"]["cond"]["runs"][0]["tests"]["own"]["bleu"] == expected
    before = stats(runs)
    code, again, messages = run("--plan", plan)
    assert code == 0 and again == output and stats(runs) == before, messages


def test_the_demo_plan_from_end_to_end_with_few_steps(tmp_path):
    words = ["--plan", ROOT / "hparams" / "plans" / "demo.json", "--out", tmp_path / "out"]
    few = "--seeds 1 --max_steps 4 --steps_per_external_eval 4 --demo_pairs 300 --beam_width 1"
    few += " --tgt_max_len_infer 8 --num_units 16 --iw_samples 1"
    code, output, messages = run(*words, *few.split())
    assert code == 0, messages
    for name in ("COND", "AEVNMT"):
        assert f"| {name} | " in output
    assert (tmp_path / "out" / "plots" / "aevnmt.png").exists()
