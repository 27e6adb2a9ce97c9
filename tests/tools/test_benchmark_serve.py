"""The benchmark of serving, with a toy model."""

import contextlib
import functools
import json
import os
from pathlib import Path

import pytest

from tests.serving import toy_model
from tests.serving.running import running_server


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    toy_model.save(folder, 1)
    return folder


@pytest.fixture
def in_thread(monkeypatch, command):
    """The server is a thread of this process, which starts at once."""
    from benchmarks import serve

    @contextlib.contextmanager
    def server(export_dir, *flags):
        options = dict(zip(flags[::2], map(int, flags[1::2]), strict=True))
        options = {name.removeprefix("--"): value for name, value in options.items()}
        with running_server(Path(export_dir), **options) as running:
            url = f"{running.server.url}{running.model}:predict"
            address = f"127.0.0.1:{running.server.grpc_port}"
            yield {"REST": url, "gRPC": address, "pid": str(os.getpid())}

    monkeypatch.setattr(serve, "server", server)


@pytest.fixture
def command(benchmark_command):
    return functools.partial(benchmark_command, "serve")


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_all_is_measured(command, in_thread, export, tmp_path, protocol):
    (tmp_path / "x").write_text("one\n\ntwo three\nfour\n")
    flags = "--clients 5 --requests 40 --single 10 --sentences 3 --json".split()
    code, output, messages = command(
        "--export_dir", export, "--src", tmp_path / "x", "--protocol", protocol, *flags
    )
    assert code == 0, messages
    results = json.loads(output)
    assert (results["protocol"], results["clients"], results["requests"]) == (protocol, 5, 40)
    assert results["errors"] == 0 and results["sentences"] == 3
    for name, requests in (("batched", 40), ("one_at_a_time", 10)):
        found = results[name]
        assert found["requests"] == requests
        assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["worst_ms"]
        rate = requests / found["seconds"]
        assert found["requests_per_second"] == pytest.approx(rate, rel=0.05)
    rates = [results[name]["requests_per_second"] for name in ("batched", "one_at_a_time")]
    ratio = results["batched_over_one_at_a_time"]
    assert ratio == pytest.approx(rates[0] / rates[1], rel=0.05)
    assert results["gemm_gflops"] == results["machine"]["gemm_gflops"] == 123.0


def test_failed_requests_are_counted(command, in_thread, export):
    """The server refuses more than one that waits."""
    flags = "--clients 8 --requests 40 --single 2 --json".split()
    slow = ["--", "--max_queue", 1, "--batch_timeout_ms", 20]
    code, output, messages = command("--export_dir", export, *flags, *slow)
    results = json.loads(output)
    assert code == 2 and results["errors"] > 0 and "429" in results["error"]
    assert results["batched"]["requests"] + results["errors"] == 40
    assert f"{results['errors']} requests failed" in messages


def test_soak(benchmark_command, in_thread, export):
    flags = "--minutes 0.05 --clients 6 --exchange 1 --malformed 0.5 --json".split()
    code, output, messages = benchmark_command("soak", "--export_dir", export, *flags)
    assert code == 0, messages
    results = json.loads(output)
    assert results["errors"] == 0 and results["versions"]["published"] == 3
    assert 1 <= results["versions"]["answered"] <= 3
    assert results["requests"] > 0 and set(results["refused"]) <= {"400", "413"}
    assert [line["minute"] for line in results["by_minute"]] == [1]
    assert results["memory_mb_first_third"] == results["by_minute"][0]["memory_mb"] > 0


@pytest.mark.slow
def test_the_server_is_a_process(command, export):
    flags = "--clients 8 --requests 40 --single 5 --json".split()
    code, output, messages = command("--export_dir", export, *flags)
    assert code == 0, messages
    assert json.loads(output)["batched"]["requests"] == 40


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--export_dir", "{tmp}"], "{tmp} has no version of a model"),
        (["--export_dir", "{tmp}", "--src", "{tmp}/none"], "cannot read {tmp}/none"),
        (["--export_dir", "{tmp}", "--clients", "0"], "must be 1 or more"),
    ],
)
def test_mistakes_are_one_sentence(command, tmp_path, words, sentence):
    code, output, messages = command(*(word.format(tmp=tmp_path) for word in words))
    assert code == 2 and output == ""
    assert sentence.format(tmp=tmp_path) in messages and messages.count("\n") == 1
