"""Training that is killed at random moments loses nothing, in processes of its own."""

import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from aevnmt_tf import translator
from aevnmt_tf.storage import run_directory
from tests import tiny_run

pytestmark = pytest.mark.slow
STEPS = 100
KILLS = 6


def settings(folder, **changes):
    """Write settings of a run that saves all the time, so that kills hit saves, too."""
    values = {
        "num_train_steps": STEPS,
        "steps_per_stats": 4,
        "steps_per_checkpoint": 3,
        "steps_per_external_eval": 30,
        "num_keep_ckpts": 1,
    }
    return tiny_run.write_settings(folder, **{**values, **changes})


def start(path):
    return subprocess.Popen(
        [sys.executable, "-m", "aevnmt_tf.train", "--hparams", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def newest(folder):
    """Return the step of the newest checkpoint, 0 without one."""
    found = run_directory.listing(folder / "run" / "checkpoints")
    return run_directory.step_of(found[-1]) if found else 0


def wait_for_step(process, folder, step, *, seconds=300):
    """Wait until a checkpoint of at least this step is there; False where the run has ended."""
    end = time.monotonic() + seconds
    while newest(folder) < step:
        if process.poll() is not None:
            return False
        assert time.monotonic() < end, "the run does not get on"
        time.sleep(0.002)
    return True


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    process = start(settings(folder))
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return folder


def assert_same_run(first, second):
    expected, found = (tiny_run.read_metrics(folder / "run") for folder in (first, second))
    assert [line["step"] for line in found] == [line["step"] for line in expected]
    for a, b in zip(expected, found, strict=True):
        assert a.keys() == b.keys()
        for name, value in a.items():
            assert b[name] == pytest.approx(value, rel=1e-5), (a["step"], name)
    loaded = [translator.load(folder / "run", checkpoint="last") for folder in (first, second)]
    for a, b in zip(*(run.model.get_weights() for run in loaded), strict=True):
        # Threads add up in any order, so that two runs of one program differ in the last bits.
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    best = [
        run_directory.step_of(run_directory.find_weights(folder / "run", checkpoint="best"))
        for folder in (first, second)
    ]
    assert best[0] == best[1]


def test_sigkill_at_random_moments(uninterrupted, tmp_path):
    path = settings(tmp_path)
    dice = random.Random(11)
    kills, resumed = 0, []
    while True:
        process = start(path)
        if kills < KILLS:
            # Somewhere in the next steps, at any point of a step, a report or a save.
            target = newest(tmp_path) + dice.randint(1, 2 * STEPS // KILLS - 6)
            if wait_for_step(process, tmp_path, target):
                time.sleep(dice.uniform(0.0, 0.1))
                process.send_signal(signal.SIGKILL)
                kills += 1
        said, _ = process.communicate(timeout=600)
        resumed += [int(step) for step in re.findall(r"resumed at step (\d+)", said)]
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, said
    assert kills >= 5
    assert len(resumed) >= 5 and resumed == sorted(resumed) and resumed[0] > 0
    assert_same_run(uninterrupted, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_signal_saves_and_says_how_to_go_on(uninterrupted, tmp_path, number):
    path = settings(tmp_path, steps_per_checkpoint=STEPS)
    process = start(path)
    metrics = tmp_path / "run" / "metrics.jsonl"
    end = time.monotonic() + 300
    while not metrics.exists() or metrics.read_text().count("\n") < 3:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(number)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 130, said
    step = newest(tmp_path)
    assert step >= 12
    assert f"stopped at step {step} and saved" in said
    process = start(path)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0 and f"resumed at step {step}" in said
    assert_same_run(uninterrupted, tmp_path)
