"""The registers of the demo corpus can be read off the z of a model that was trained on it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def run(verb, *words):
    done = subprocess.run(
        [sys.executable, "-m", f"aevnmt_tf.{verb}", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Probes of a small model after a short training."""
    out_dir = tmp_path_factory.mktemp("probe") / "run"
    settings = {"num_units": 64, "z_dim": 16, "num_train_steps": 400, "KL_annealing_steps": 200}
    settings |= {"steps_per_external_eval": 400, "demo_pairs": 10000, "beam_width": 1}
    words = [word for pair in settings.items() for word in (f"--{pair[0]}", pair[1])]
    run("train", "--hparams", ROOT / "hparams" / "demo.json", "--out_dir", out_dir, *words)
    sets = [out_dir / "demo" / name for name in ("dev", "test")]
    words = [word for s in sets for word in ("--data", s, "--labels", f"{s}.register")]
    return json.loads(run("probe", "--model", out_dir, *words, "--json"))


def test_registers_are_separable_from_z_and_not_from_random_numbers(found):
    assert (found["sentences"], found["held_out"]) == (2000, 400)
    found = {result["features"]: result["accuracy"] for result in found["results"]}
    mean, draw, random = (found[name] for name in ("z mean", "z sample", "random"))
    assert mean["mean"] > 0.9 and mean["averaged"] > 0.9
    assert draw["mean"] > 0.9 and draw["averaged"] > 0.9
    assert draw["mean"] < mean["mean"]
    majority = found["majority class"]["mean"]
    assert random["new_low"] < majority < random["new_high"]


def test_the_chains_agree(found):
    assert found["warnings"] == []
    sampled = [result for result in found["results"] if "r_hat" in result]
    assert len(sampled) == 3
    assert all(result["r_hat"] < 1.05 and result["ess"] > 200 for result in sampled)
