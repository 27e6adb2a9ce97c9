import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*words):
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "benchmark.py", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    """Settings for 3000 made-up pairs."""
    folder = tmp_path_factory.mktemp("data")
    choose = random.Random(1)
    words = ["".join(choose.choices("abcdefghij", k=choose.randint(2, 7))) for _ in range(300)]
    for lang in ("en", "de"):
        lines = [" ".join(choose.choices(words, k=choose.randint(3, 15))) for _ in range(3000)]
        (folder / f"train.{lang}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = dict(train_prefix=folder / "train", src="en", tgt="de", vocab_size=400)
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


@pytest.mark.slow
def test_data_as_json(flags, tmp_path):
    done = run("data", "--json", *flags, "--num_buckets", 4, "--batch_size", 32)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert results["pairs"] == results["counts"][0]["kept"] > 2000
    assert results["counts"][0]["read"] == 3000
    assert 1 <= results["num_shapes"] == len(results["shapes"]) <= 4
    assert results["batch_size"] == 32
    assert (
        -(-results["pairs"] // 32) <= results["batches_per_epoch"] < results["pairs"] / 32 + 5
    )
    assert 0 < results["padding_share"] < 1
    # A machine that does not reach these is not slow but broken.
    assert results["pairs_per_second_from_text"] > 100
    assert results["pairs_per_cpu_second_from_text"] > 100
    assert results["tokenised_lines_per_second"] > 200
    assert results["epoch_pairs_per_second"] > 100
    assert results["start_up_seconds"] >= results["load_seconds"] > 0
    assert results["peak_memory_mb"] >= results["peak_memory_mb_before"] > 50
    assert results["machine"]["gemm_gflops"] > 0.1
    assert results["machine"]["cores"] >= 1


@pytest.mark.slow
def test_data_as_table(flags):
    done = run("data", *flags, "--max_train", 200)
    assert done.returncode == 0, done.stderr
    lines = dict(line.split("  ", 1) for line in done.stdout.splitlines())
    assert float(lines["padding share"].strip()) < 1
    assert "machine: gemm gflops" in lines
    assert done.stderr == ""


@pytest.mark.slow
def test_a_missing_file_is_one_sentence():
    done = run("data", "--train_prefix", "nowhere/train", "--src", "en", "--tgt", "de")
    assert done.returncode == 2
    assert "nowhere/train.en" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [["dta"], []])
def test_an_unknown_benchmark_is_one_sentence(words):
    done = run(*words)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "data" in done.stderr


def test_help_lists_the_benchmarks():
    done = run("--help")
    assert done.returncode == 0
    assert "data" in done.stdout and "Raw text to training batches" in done.stdout
