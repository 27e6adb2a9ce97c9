"""The README's first command, as a new user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aevnmt_tf import translator
from aevnmt_tf.evaluation import metrics

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def run(verb, *words):
    done = subprocess.run(
        [sys.executable, "-m", f"aevnmt_tf.{verb}", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """(out_dir, what was printed) of the demo."""
    out_dir = tmp_path_factory.mktemp("demo") / "run"
    done = run("train", "--hparams", ROOT / "hparams" / "demo.json", "--out_dir", out_dir)
    assert done.stderr == ""  # TensorFlow's own messages included
    return out_dir, done.stdout


def test_it_learns_to_translate_and_uses_z(demo):
    out_dir, printed = demo
    best = json.loads((out_dir / "results.json").read_text())["best"]
    assert best["dev_bleu"] > 60
    assert best["dev_kl"] > 5
    reports = [json.loads(line) for line in (out_dir / "metrics.jsonl").open()]
    assert [r for r in reports if "kl_weight" in r][-1]["kl_weight"] == 1.0
    assert "translate --model" in printed and "tensorboard --logdir" in printed


def test_dev_bleu_is_what_the_best_weights_translate(demo):
    out_dir, _ = demo
    lines = {lang: (out_dir / "demo" / f"dev.{lang}") for lang in ("en", "de")}
    source, reference = (lines[lang].read_text().splitlines() for lang in ("en", "de"))
    best = json.loads((out_dir / "results.json").read_text())["best"]
    score = metrics.score(translator.load(out_dir).translate(source), reference)
    assert score["bleu"].value == pytest.approx(best["dev_bleu"])
    assert score["chrf"].value == pytest.approx(best["dev_chrf"])


def test_evaluate_finds_the_test_set_and_that_z_is_in_use(demo):
    out_dir, _ = demo
    words = ["--metrics", "bleu", "--latent", "--samples", "2", "--json"]
    found = json.loads(run("evaluate", "--model", out_dir, *words).stdout)
    (system,) = found["systems"]
    assert system["sets"]["test"]["source"] == str(out_dir / "demo" / "test.en")
    assert system["all"]["scores"]["bleu"]["score"] > 60
    latent = found["latent"]
    assert latent["verdict"] in ("in use", "source only"), latent["sentence"]
    assert latent["mutual_information"] > 2
    assert latent["elbo"] < latent["iw_log_pxy"]
    z = latent["z"]
    assert z["mean"]["log_px"] > z["zero"]["log_px"] > z["other"]["log_px"]
    assert z["mean"]["log_py"] > z["other"]["log_py"] + 0.05  # the translation needs it, too


def test_registers_can_be_read_off_z_and_not_off_random_numbers(demo):
    out_dir, _ = demo
    sets = [out_dir / "demo" / name for name in ("dev", "test")]
    words = [word for s in sets for word in ("--data", s, "--labels", f"{s}.register")]
    probed = json.loads(run("probe", "--model", out_dir, *words, "--json").stdout)
    assert (probed["sentences"], probed["held_out"]) == (2000, 400)
    found = {result["features"]: result["accuracy"] for result in probed["results"]}
    mean, draw, random = (found[name] for name in ("z mean", "z sample", "random"))
    assert mean["mean"] > 0.9 and mean["averaged"] > 0.9
    assert draw["mean"] > 0.9 and draw["averaged"] > 0.9
    assert draw["mean"] < mean["mean"]
    majority = found["majority class"]["mean"]
    assert random["new_low"] < majority < random["new_high"]
    assert probed["warnings"] == []  # the chains agree
    sampled = [result for result in probed["results"] if "r_hat" in result]
    assert len(sampled) == 3
    assert all(result["r_hat"] < 1.05 and result["ess"] > 200 for result in sampled)
