import importlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from aevnmt_tf import hparams

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark(monkeypatch):
    """The module, which is no part of the package."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("benchmarks.train")


COUNTS = {"source_tokens": 7, "target_tokens": 5, "position_pairs": 11}
H, VX, VY = 4, 10, 20
GRU = 6 * H * 2 * H  # a direction, a token
TM = 7 * (2 * GRU + 4 * H * H) + 5 * (6 * H * 4 * H + 2 * H * H) + 11 * 6 * H


@pytest.mark.parametrize(
    ("settings", "forward"),
    [
        ({"model_type": "cond"}, TM + 5 * 2 * 4 * H * VY),
        ({"model_type": "cond", "decoder_style": "tf_nmt"}, TM + 5 * 2 * H * VY),
        ({"model_type": "joint"}, TM + 5 * 2 * 4 * H * VY + 7 * (2 * H * VX + GRU)),
        ({"model_type": "aevnmt"}, TM + 5 * 8 * H * VY + 7 * (2 * H * VX + 3 * GRU)),
        (
            {"model_type": "aevnmt", "z_inference_from": "source_target"},
            TM + 5 * (8 * H * VY + 2 * GRU) + 7 * (2 * H * VX + 5 * GRU),
        ),
    ],
)
def test_useful_flop_by_hand(benchmark, settings, forward):
    hp = hparams.load(None, num_units=H, z_dim=3, **settings)
    assert benchmark.useful_flop(hp, COUNTS, VX, VY) == 3 * forward


@pytest.mark.slow
def test_train_as_json(tmp_path):
    choose = random.Random(1)
    for lang in ("en", "de"):
        lines = [
            " ".join(choose.choices("abcdefgh", k=choose.randint(2, 9))) for _ in range(400)
        ]
        (tmp_path / f"train.{lang}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = {
        "train_prefix": tmp_path / "train",
        "src": "en",
        "tgt": "de",
        "vocab_size": 290,
        "num_units": 8,
        "z_dim": 4,
        "batch_size": 16,
        "num_buckets": 2,
        "steps": 4,
        "warm_up": 1,
    }
    words = [str(word) for name, value in settings.items() for word in (f"--{name}", value)]
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "benchmark.py", "train", "--json", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["steps"] == 4 and found["pairs"] <= 4 * 16
    assert found["pairs_per_second"] == pytest.approx(found["pairs"] / found["seconds"])
    assert 0 <= found["padding"] < 1
    used = found["useful_gflop"] / found["seconds"] / found["gemm_gflops"]
    assert found["utilisation"] == pytest.approx(used, abs=1e-4)
    assert found["Vx"] <= 290 and found["peak_memory_mb"] > 100
