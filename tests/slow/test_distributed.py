"""The same run on one device, on two devices and in two processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from aevnmt_tf import translator
from aevnmt_tf.storage import run_directory
from tests import tiny_run

pytestmark = pytest.mark.slow

TWO_DEVICES = """
import sys
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
halves = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(cpu, halves)
from aevnmt_tf import train
sys.exit(train.main(sys.argv[1:]))
"""


# On CPUs, TensorFlow gives a process of several only one device by itself.
AGREEMENT = """
import tensorflow as tf
from tensorflow.python.distribute import collective_all_reduce_strategy as collective

def two_devices(self, resolver, worker):
    return tuple(f"{worker}/device:CPU:{number}" for number in range(2)), "CPU"

collective.CollectiveAllReduceExtended._initialize_local_devices = two_devices
cpu = tf.config.list_physical_devices("CPU")[0]
halves = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(cpu, halves)
from aevnmt_tf.training import distribution

strategy = distribution.choose("multi_worker")
agreement, is_chief = distribution.Agreement(strategy), distribution.is_chief(strategy)
bleu = agreement.from_chief(30.0 if is_chief else 7.0)
print(strategy.num_replicas_in_sync, bleu, agreement.any(not is_chief), agreement.any(False))
"""


def settings(folder, **changes):
    # 5 rows on 2 devices: the last one is a filler.
    return tiny_run.write_settings(folder, **{"batch_size": 5, **changes})


def launch(command, path, *extra, **environment):
    return start(*command, "--hparams", str(path), *extra, **environment)


def start(*command, **environment):
    return subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )


def finish(*processes, code=0):
    said = [process.communicate(timeout=600)[0] for process in processes]
    for process, text in zip(processes, said, strict=True):
        assert process.returncode == code, text
    return said


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def workers(path, *extra, count=2):
    command = ["-m", "aevnmt_tf.train"]
    extra = ("--distribute", "multi_worker", *extra)
    return [launch(command, path, *extra, TF_CONFIG=config) for config in configs(count)]


def configs(count):
    """TF_CONFIG of each process."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(count)]}
    tasks = [{"type": "worker", "index": index} for index in range(count)]
    return [json.dumps({"cluster": cluster, "task": task}) for task in tasks]


def wait_for_checkpoint(folder, processes):
    """Wait until a run has saved; its processes must live."""
    end = time.monotonic() + 300
    while not run_directory.listing(folder / "run" / "checkpoints"):
        assert time.monotonic() < end
        assert all(process.poll() is None for process in processes)
        time.sleep(0.05)


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    finish(launch(["-m", "aevnmt_tf.train"], settings(folder)))
    return folder


def assert_same_run(first, second):
    expected, found = (tiny_run.read_metrics(folder / "run") for folder in (first, second))
    assert [line["step"] for line in found] == [line["step"] for line in expected]
    for a, b in zip(expected, found, strict=True):
        for name, value in a.items():
            assert b[name] == pytest.approx(value, rel=1e-4, abs=1e-6), (a["step"], name)
    loaded = [translator.load(folder / "run", checkpoint="last") for folder in (first, second)]
    for a, b in zip(*(run.model.get_weights() for run in loaded), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_two_devices(one_device, tmp_path):
    process = launch(["-c", TWO_DEVICES], settings(tmp_path), "--distribute", "mirrored")
    (said,) = finish(process)
    assert "2 devices" in said
    assert_same_run(one_device, tmp_path)


def test_a_run_moves_from_one_device_to_two(one_device, tmp_path):
    path = settings(tmp_path)
    finish(launch(["-m", "aevnmt_tf.train"], path, "--max_steps", "10"))
    (said,) = finish(launch(["-c", TWO_DEVICES], path, "--distribute", "mirrored"))
    assert "resumed at step 10" in said
    assert_same_run(one_device, tmp_path)


def test_two_processes(one_device, tmp_path):
    chief, other = finish(*workers(settings(tmp_path)))
    assert "2 devices" in chief and "finished at step 20" in chief
    assert other == ""  # only the chief speaks and writes
    assert_same_run(one_device, tmp_path)


def test_two_processes_normalise_over_the_global_batch(tmp_path):
    changes = {"bn_scale": 0.6, "optimizer": "sgd", "learning_rate": 0.5, "num_train_steps": 5}
    one, two = tmp_path / "one", tmp_path / "two"
    finish(launch(["-m", "aevnmt_tf.train"], settings(one, **changes)))
    finish(*workers(settings(two, **changes)))
    assert_same_run(one, two)


def test_two_processes_with_two_devices_each_agree_on_the_chief_s_score():
    said = finish(*(start("-c", AGREEMENT, TF_CONFIG=config) for config in configs(2)))
    assert [text.splitlines()[-1] for text in said] == ["4 30.0 True False"] * 2


@pytest.mark.parametrize(
    ("optimizer", "learning_rate", "accumulation", "tolerance"),
    [("sgd", 0.5, 1, 1e-5), ("sgd", 0.5, 2, 1e-5), ("adam", 0.01, 1, 1e-4)],
)
def test_one_process_and_two_make_the_same_update(
    tmp_path, optimizer, learning_rate, accumulation, tolerance
):
    """A few updates from the same start, with uneven batches and all gradients clipped."""
    limit = 1.0
    changes = {
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "gradient_accumulation_steps": accumulation,
        "max_gradient_norm": limit,
        "num_train_steps": 3,
        "steps_per_stats": 1,
        "dev_prefix": None,
    }
    one, two = tmp_path / "one", tmp_path / "two"
    finish(launch(["-m", "aevnmt_tf.train"], settings(one, **changes)))
    finish(*workers(settings(two, **changes)))
    expected, found = (tiny_run.read_metrics(folder / "run") for folder in (one, two))
    assert [line["step"] for line in found] == [1, 2, 3]
    for a, b in zip(expected, found, strict=True):
        assert a["gradient_norm"] > limit and b["gradient_norm"] > limit
        for name, value in a.items():
            assert b[name] == pytest.approx(value, rel=1e-5, abs=1e-6), (a["step"], name)
    loaded = [translator.load(folder / "run", checkpoint="last").model for folder in (one, two)]
    for a, b in zip(*(model.trainable_variables for model in loaded), strict=True):
        difference = np.abs(a.numpy() - b.numpy()).max()
        assert difference <= tolerance * np.abs(a.numpy()).max(), a.path


def test_a_signal_to_one_process_stops_both_and_both_resume(one_device, tmp_path):
    path = settings(tmp_path, num_train_steps=400, steps_per_external_eval=1000)
    processes = workers(path)
    metrics = tmp_path / "run" / "metrics.jsonl"
    end = time.monotonic() + 300
    while not metrics.exists() or not metrics.read_text():
        assert time.monotonic() < end
        assert all(process.poll() is None for process in processes)
        time.sleep(0.05)
    processes[1].send_signal(signal.SIGTERM)
    chief, _ = finish(*processes, code=130)
    (folder,) = run_directory.listing(tmp_path / "run" / "checkpoints")[-1:]
    step = run_directory.step_of(folder)
    assert 0 < step < 400 and f"stopped at step {step} and saved" in chief
    chief, _ = finish(*workers(path, "--max_steps", str(step + 10)))
    assert f"resumed at step {step}" in chief
    assert f"finished at step {step + 10}" in chief


@pytest.mark.parametrize(
    ("count", "victim", "number"),
    [
        (3, 1, signal.SIGKILL),
        (2, 0, signal.SIGKILL),
        (3, 2, signal.SIGSTOP),
        (2, 0, signal.SIGSTOP),  # its coordination service does not answer
    ],
)
def test_a_lost_worker_is_named_and_all_together_go_on_from_the_checkpoint(
    tmp_path, count, victim, number
):
    """The others end by themselves; started again, the run is that of one device."""
    whole, lost = tmp_path / "whole", tmp_path / "lost"
    changes = {"num_train_steps": 600, "steps_per_external_eval": 600}
    path = settings(lost, **changes)
    processes = workers(path, count=count)
    wait_for_checkpoint(lost, processes)
    processes[victim].send_signal(number)
    others = [process for process in processes if process is not processes[victim]]
    said = finish(*others, code=2)
    processes[victim].kill()
    processes[victim].communicate()
    for text in said:
        assert f"worker {victim} (127.0.0.1:" in text and "does not answer" in text
        assert "Traceback" not in text.partition("aevnmt train:")[0]
    newest = run_directory.listing(lost / "run" / "checkpoints")[-1]
    assert run_directory.damage(newest) is None
    step = run_directory.step_of(newest)
    end = ("--max_steps", str(step + 20))
    chief, *_ = finish(*workers(path, *end, count=count))
    assert f"resumed at step {step}" in chief
    finish(launch(["-m", "aevnmt_tf.train"], settings(whole, **changes), *end))
    assert_same_run(whole, lost)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_all_processes_saves_once(tmp_path, number):
    path = settings(tmp_path, num_train_steps=4000, steps_per_external_eval=5000)
    processes = workers(path)
    wait_for_checkpoint(tmp_path, processes)
    for process in processes:
        process.send_signal(number)
    chief, other = finish(*processes, code=130)
    assert chief.count("and saved; ") == 1 and not other
    newest = run_directory.listing(tmp_path / "run" / "checkpoints")[-1]
    assert run_directory.damage(newest) is None
    assert f"stopped at step {run_directory.step_of(newest)} " in chief


def test_workers_with_disks_of_their_own_do_not_resume(tmp_path):
    """The second one sees none of the chief's checkpoints."""
    path = settings(tmp_path, num_train_steps=10)
    finish(launch(["-m", "aevnmt_tf.train"], path))
    command = ["-m", "aevnmt_tf.train"]
    places = [(), ("--out_dir", str(tmp_path / "elsewhere"))]
    processes = [
        launch(command, path, "--distribute", "multi_worker", *place, TF_CONFIG=config)
        for place, config in zip(places, configs(2), strict=True)
    ]
    for text in finish(*processes, code=2):
        assert "do not start from the same checkpoint: worker 0 step 10" in text
        assert "worker 1 step 0" in text
