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


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """(out_dir, what was printed) of the demo."""
    out_dir = tmp_path_factory.mktemp("demo") / "run"
    done = subprocess.run(
        [sys.executable, "-m", "aevnmt_tf.train", "--hparams", ROOT / "hparams" / "demo.json"]
        + ["--out_dir", out_dir],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # TensorFlow's own messages included
    return out_dir, done.stdout


def test_it_learns_to_translate_and_uses_z(demo):
    out_dir, printed = demo
    best = json.loads((out_dir / "results.json").read_text())["best"]
    assert best["dev_bleu"] > 60
    assert best["dev_kl"] > 5
    reports = [json.loads(line) for line in (out_dir / "metrics.jsonl").open()]
    assert [r for r in reports if "kl_weight" in r][-1]["kl_weight"] == 1.0
    assert "aevnmt_tf.translate" in printed and "tensorboard --logdir" in printed


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
    words = ["--model", str(out_dir), "--metrics", "bleu", "--latent", "--samples", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "aevnmt_tf.evaluate", *words, "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
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
