"""The benchmark of translating, in this process, with a tiny model."""

import functools
import json

import pytest

from tests.tiny_translator import LINES, WORDS, save_run

SEARCHES = ["greedy_natural", "beam_3_natural", "greedy_forced_6", "beam_3_forced_6"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return save_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def command(benchmark_command):
    return functools.partial(benchmark_command, "decode")


@pytest.mark.slow
def test_every_search_is_measured(command, run, tmp_path):
    (tmp_path / "x").write_text("".join(f"{line}\n" for line in LINES))
    flags = "--beam_width 3 --force_length 6 --batch_size 4 --repeats 2 --single 3".split()
    code, output, messages = command(
        "--model", run, "--src", tmp_path / "x", "--sentences", 5, "--json", *flags
    )
    assert code == 0, messages
    results = json.loads(output)
    assert results["sentences"] == 5 and results["batch_size"] == 4
    assert results["Vy"] == len(WORDS)
    for name in SEARCHES:
        found = results[name]
        assert len(found["seconds"]) == 2
        middle = sum(found["seconds"]) / 2
        assert found["sentences_per_second"] == pytest.approx(5 / middle, rel=0.05)
        assert found["tokens_per_second"] == pytest.approx(found["tokens"] / middle, rel=0.05)
    assert results["greedy_forced_6"]["tokens"] == results["beam_3_forced_6"]["tokens"] == 30
    latency = results["latency_beam_3"]
    assert latency["sentences"] == 3
    assert 0 < latency["median_ms"] <= latency["p90_ms"] <= latency["worst_ms"]
    assert results["gemm_gflops"] == results["machine"]["gemm_gflops"] == 123.0


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--model", "nowhere", "--src", "{tmp}/x"], "nowhere is not a training run"),
        (["--model", "nowhere", "--src", "{tmp}/none"], "cannot read {tmp}/none"),
        (["--model", "nowhere", "--src", "{tmp}/empty"], "empty has no sentence"),
        (["--model", "nowhere", "--src", "{tmp}/bad"], "bad, line 2: byte 0xff"),
        (["--model", "nowhere", "--src", "{tmp}/x", "--repeats", "0"], "must be 1 or more"),
    ],
)
def test_mistakes_are_one_sentence(command, tmp_path, words, sentence):
    (tmp_path / "x").write_text("a\n")
    (tmp_path / "empty").write_text("\n  \n")
    (tmp_path / "bad").write_bytes(b"a\n\xff\n")
    code, output, messages = command(*(word.format(tmp=tmp_path) for word in words))
    assert code == 2 and output == ""
    assert sentence.format(tmp=tmp_path) in messages and messages.count("\n") == 1
