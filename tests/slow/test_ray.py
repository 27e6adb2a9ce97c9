"""A corpus on Ray: two workers, one of which is killed; the output is that of one process."""

import os
import signal
import subprocess
import sys
import time

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import ray_engine
from tests import tiny_export
from tests.tiny_translator import LINES, save_run

pytest.importorskip("ray")
PATIENCE = 900  # seconds, on a machine that does much else


def aevnmt(*words, **options):
    command = [sys.executable, "-m", *map(str, words)]
    environment = {**os.environ, "RAY_TMPDIR": "/tmp", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, **options)


def finished(process):
    _, messages = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, messages.decode()
    return messages.decode()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return save_run(tmp_path_factory.mktemp("ray") / "run", infer_batch_size=2)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "source"
    path.write_text("".join(f"{line}\n" for line in LINES * 60))  # empty ones among them
    return path


def workers_of(process):
    """The Ray workers of a command that are at a shard, by their command lines."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                is_worker = file.read().startswith(b"ray::ShardWorker.run")
            if is_worker and process.pid in ancestors(int(name)):
                found.append(int(name))
        except OSError:  # it has ended
            continue
    return found


def ancestors(pid):
    while pid > 1:
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
        yield pid


@pytest.mark.slow
def test_a_killed_worker_is_replaced(run, corpus, tmp_path):
    flags = ("aevnmt_tf.translate", "--model", run, "--input", corpus, "--format", "jsonl")
    flags += ("--search", "sample", "--n_best", 2, "--seed", 3)
    finished(aevnmt(*flags, "--output", tmp_path / "one"))
    process = aevnmt(
        *flags, "--output", tmp_path / "many", "--engine", "ray", "--num_workers", 2
    )
    killed, deadline = None, time.monotonic() + PATIENCE
    while killed is None and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
        if workers := workers_of(process):
            killed = workers[0]
            os.kill(killed, signal.SIGKILL)
    messages = finished(process)
    assert killed is not None, messages
    assert (tmp_path / "many").read_bytes() == (tmp_path / "one").read_bytes()
    assert not (tmp_path / "many.parts").exists()
    assert f"{60 * len(LINES)} lines in" in messages


@pytest.mark.slow
def test_score_goes_on_where_it_was_stopped(run, corpus, tmp_path):
    flags = ("aevnmt_tf.score", "--model", run, "--src", corpus, "--tgt", corpus)
    messages = finished(aevnmt(*flags, "--output", tmp_path / "one"))
    many = (*flags, "--output", tmp_path / "many", "--engine", "ray", "--num_workers", 2)
    process = aevnmt(*many)
    deadline = time.monotonic() + PATIENCE
    while not list(tmp_path.glob("many.parts/0*.json")) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1].decode()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert list(tmp_path.glob("many.parts/0*.json")) and not (tmp_path / "many").exists()
    other = aevnmt(*many, "--seed", 2)
    assert b"parts of another output" in other.communicate(timeout=PATIENCE)[1]
    totals = finished(aevnmt(*many))
    assert (tmp_path / "many").read_bytes() == (tmp_path / "one").read_bytes()
    totals = totals.replace("aevnmt score: ", "")
    table = messages[messages.index(f"{60 * len(LINES)} pairs, ") :]
    assert table.split() == totals[totals.index(f"{60 * len(LINES)} pairs, ") :].split()


@pytest.mark.slow
def test_workers_load_an_export(tmp_path_factory, corpus, tmp_path):
    export = tiny_export.shared(tmp_path_factory).export_dir
    ray = ("--engine", "ray", "--num_workers", 2)
    commands = {
        "translate": ("--input", corpus, "--n_best", 2),
        "score": ("--src", corpus, "--tgt", corpus),
    }
    for verb, flags in commands.items():
        flags = (f"aevnmt_tf.{verb}", "--model", export, *flags)
        finished(aevnmt(*flags, "--output", tmp_path / "one"))
        finished(aevnmt(*flags, "--output", tmp_path / "many", *ray))
        assert (tmp_path / "many").read_bytes() == (tmp_path / "one").read_bytes()
        assert len((tmp_path / "one").read_text().splitlines()) >= 60 * len(LINES)


@pytest.mark.slow
def test_mistakes_come_back_as_one_sentence(run, corpus, tmp_path):
    flags = ("aevnmt_tf.translate", "--model", run, "--input", corpus, "--search", "refine")
    process = aevnmt(*flags, "--output", tmp_path / "y", "--engine", "ray", "--num_workers", 1)
    messages = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == 2 and "refine search needs q" in messages
    assert "Traceback" not in messages and not (tmp_path / "y").exists()


def test_more_workers_than_cpus_are_refused(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 1.0})
    with pytest.raises(UserError, match="has 1 CPUs"):
        list(ray_engine._finished(None, iter([]), num_workers=2, address="h:1"))
