"""Checkpoints: complete, newest whole one first, and sentences where the disk says no."""

import errno
import json
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import run_directory
from aevnmt_tf.training import checkpoints


def small_model(seed=0):
    model = keras.Sequential(
        [keras.layers.Dense(3, kernel_initializer=keras.initializers.GlorotUniform(seed=seed))]
    )
    model.build((None, 2))
    return model


class Run:
    """A model, an optimizer and a counter that move together."""

    def __init__(self, out_dir, *, seed=0, keep=3, optimizer=keras.optimizers.Adam, **options):
        self.model = small_model(seed)
        self.optimizer = optimizer(0.1)
        self.optimizer.build(self.model.trainable_variables)
        self.updates = tf.Variable(0, dtype=tf.int64)
        self.checkpoints = checkpoints.Checkpoints(
            out_dir,
            model=self.model,
            trackables={"optimizer": self.optimizer, "updates": self.updates},
            keep=keep,
            **options,
        )

    def step(self):
        gradients = [tf.ones_like(v) * 0.5 for v in self.model.trainable_variables]
        self.optimizer.apply_gradients(
            zip(gradients, self.model.trainable_variables, strict=True)
        )
        self.updates.assign_add(1)

    def values(self):
        tensors = [*self.model.variables, *self.optimizer.variables]
        return [np.array(v) for v in tensors] + [self.updates.numpy()]


def assert_equal(first, second):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def steps(folder):
    return [run_directory.step_of(path) for path in run_directory.listing(folder)]


def test_restored_state_is_complete(tmp_path):
    run = Run(tmp_path)
    for _ in range(4):
        run.step()
    run.checkpoints.save(4, {"best": {"bleu": 12.5}, "position": 4})
    expected = run.values()
    run.step()

    other = Run(tmp_path, seed=9)
    state = other.checkpoints.restore()
    assert state == {"step": 4, "best": {"bleu": 12.5}, "position": 4}
    assert_equal(other.values(), expected)
    other.step()
    assert_equal(other.values(), run.values())


def test_nothing_to_restore(tmp_path):
    assert Run(tmp_path).checkpoints.restore() is None


def test_only_the_last_ones_stay(tmp_path):
    run = Run(tmp_path, keep=2)
    for step in (1, 2, 3, 10):
        run.checkpoints.save(step, {})
    assert steps(tmp_path / "checkpoints") == [3, 10]


def damage_data(folder):
    path = folder / run_directory.WEIGHTS
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def truncate(folder):
    path = folder / run_directory.WEIGHTS
    path.write_bytes(path.read_bytes()[:100])


def lose_manifest(folder):
    (folder / run_directory.MANIFEST).unlink()


def lose_optimizer(folder):
    (folder / "training.index").unlink()


@pytest.mark.parametrize("harm", [damage_data, truncate, lose_manifest, lose_optimizer])
def test_damaged_newest_falls_back_and_says_so(tmp_path, harm):
    run = Run(tmp_path)
    run.step()
    run.checkpoints.save(1, {})
    expected = run.values()
    run.step()
    harm(run.checkpoints.save(2, {}))

    said = []
    other = Run(tmp_path, seed=9)
    assert other.checkpoints.restore(report=said.append)["step"] == 1
    assert_equal(other.values(), expected)
    assert len(said) == 1 and "step-000000002 is damaged" in said[0]
    # It is out of the way: the step can be saved again and is the newest.
    other.step()
    other.checkpoints.save(2, {"again": True})
    assert Run(tmp_path).checkpoints.restore(report=said.append)["again"] is True
    assert len(said) == 1


def test_all_damaged_is_an_error(tmp_path):
    run = Run(tmp_path)
    truncate(run.checkpoints.save(1, {}))
    words = f"every checkpoint .*another out_dir, or remove {tmp_path} to start"
    with pytest.raises(UserError, match=words):
        Run(tmp_path).checkpoints.restore(report=lambda _: None)


def test_another_optimizer_is_a_sentence(tmp_path):
    Run(tmp_path, optimizer=keras.optimizers.SGD).checkpoints.save(1, {})
    with pytest.raises(UserError, match="does not fit the settings: .* optimizer") as error:
        Run(tmp_path).checkpoints.restore()
    assert len(str(error.value)) < 400


def test_best_holds_one_snapshot_whatever_its_step(tmp_path):
    run = Run(tmp_path)
    run.checkpoints.save_best(5, {"bleu": 1.0})
    run.step()
    run.checkpoints.save_best(3, {"bleu": 2.0})
    assert steps(tmp_path / "best") == [3]
    folder = run_directory.find_weights(tmp_path)
    assert json.loads((folder / "state.json").read_text())["bleu"] == 2.0
    other = Run(tmp_path, seed=9)
    (best,) = run_directory.listing(other.checkpoints.best_folder)
    assert run_directory.step_of(best) == 3
    run_directory.load_weights(other.model, best)
    assert_equal(other.model.get_weights(), run.model.get_weights())


def test_a_second_snapshot_of_a_step_is_the_newer_one(tmp_path):
    run = Run(tmp_path)
    run.checkpoints.save(4, {})
    for turn in (1, 2, 3):
        run.checkpoints.save(5, {"turn": turn})
        assert run.checkpoints.restore()["turn"] == turn
        assert steps(tmp_path / "checkpoints") == [4, 5]  # it takes nobody's place


def test_a_stop_changes_neither_what_is_kept_nor_what_is_averaged(tmp_path):
    run = Run(tmp_path, keep=3, every=10)
    for step in (10, 20, 28):  # stopped at 28
        run.checkpoints.save(step, {})
    assert steps(run.checkpoints.folder) == [10, 20, 28]
    average = run.checkpoints.save_average(3, build=small_model)
    assert average["averaged_steps"] == [10, 20, 28]
    run.checkpoints.save(30, {})
    assert steps(run.checkpoints.folder) == [10, 20, 30]
    run.checkpoints.save(35, {})  # the last step
    average = run.checkpoints.save_average(3, build=small_model)
    assert average["averaged_steps"] == [20, 30, 35]


def test_average_is_the_mean_of_the_last(tmp_path):
    run = Run(tmp_path, keep=4)
    weights = []
    for step in range(1, 5):
        run.step()
        run.checkpoints.save(step, {})
        weights.append(run.model.get_weights())
    last = run.values()
    evaluated = []

    def evaluate(model):
        evaluated.append(model.get_weights())
        return {"dev_bleu": 7.0}

    options = {"build": small_model, "evaluate": evaluate}
    state = run.checkpoints.save_average(3, **options)
    assert state == {"step": 4, "averaged_steps": [2, 3, 4], "dev_bleu": 7.0}
    assert_equal(run.values(), last)
    assert run.checkpoints.save_average(3, **options) == state
    assert len(evaluated) == 1  # what is there is not made again
    averaged = small_model()
    run_directory.load_weights(
        averaged, run_directory.find_weights(tmp_path, checkpoint="average")
    )
    for index, weight in enumerate(averaged.get_weights()):
        np.testing.assert_allclose(weight, np.mean([w[index] for w in weights[1:]], 0), 1e-6)
        np.testing.assert_array_equal(weight, evaluated[0][index])
    run.step()
    run.checkpoints.save(5, {})
    assert run.checkpoints.save_average(3, **options)["averaged_steps"] == [3, 4, 5]
    assert len(evaluated) == 2


def fail_with(code):
    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSPC, "disk is full"), (errno.EACCES, "no permission")]
)
@pytest.mark.parametrize("where", ["os.fsync", "os.rename", "pathlib.Path.replace"])
def test_disk_troubles_are_sentences(tmp_path, monkeypatch, code, words, where):
    run = Run(tmp_path)
    run.step()
    run.checkpoints.save(1, {})
    expected = run.values()
    run.step()
    with monkeypatch.context() as patch:
        patch.setattr(where, fail_with(code))
        with pytest.raises(UserError, match=words):
            run.checkpoints.save(2, {})
    assert steps(tmp_path / "checkpoints") == [1]
    assert not list((tmp_path / "checkpoints").glob(".writing-*"))
    other = Run(tmp_path, seed=9)
    assert other.checkpoints.restore()["step"] == 1
    assert_equal(other.values(), expected)


def test_full_disk_inside_tensorflow_is_a_sentence(tmp_path, monkeypatch):
    run = Run(tmp_path)

    def fail(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "x; No space left on device")

    monkeypatch.setattr(tf.train.Checkpoint, "write", fail)
    with pytest.raises(UserError, match="disk is full"):
        run.checkpoints.save(2, {})


def test_half_written_snapshots_are_ignored_and_removed(tmp_path):
    run = Run(tmp_path)
    run.checkpoints.save(1, {})
    (tmp_path / "checkpoints" / ".writing-step-000000002").mkdir()
    (tmp_path / "checkpoints" / ".removing-step-000000000").mkdir()
    assert run.checkpoints.restore()["step"] == 1
    run.checkpoints.tidy()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000000001"]


def test_a_kill_at_any_operation_leaves_a_whole_checkpoint(tmp_path, monkeypatch):
    """Stop dead at each file-system operation of a save in turn, without any clean-up."""

    class Killed(BaseException):
        pass

    run = Run(tmp_path, keep=1)
    run.checkpoints.save(1, {})
    moments = 0
    for moment in range(100):
        count = 0

        def counted(original):
            def call(*args, **kwargs):
                nonlocal count
                if count >= moment:  # noqa: B023
                    raise Killed
                count += 1
                return original(*args, **kwargs)

            return call

        with monkeypatch.context() as patch:
            for name in ("rename", "fsync", "mkdir", "rmdir", "unlink", "open"):
                patch.setattr(os, name, counted(getattr(os, name)))
            try:
                run.checkpoints.save(2 + moment, {})
                finished = True
            except Killed:
                finished = False
        state = Run(tmp_path).checkpoints.restore(report=pytest.fail)
        assert state["step"] in range(1, 3 + moment)
        moments += 1
        if finished:
            break
    assert finished and moments > 8
