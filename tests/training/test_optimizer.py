"""The moving average of the weights: what it is, who sees it, and how it survives a kill."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.storage import run_directory
from aevnmt_tf.training import train_step
from tests import tiny
from tests.training.conftest import VOCABULARY
from tests.training.toy_session import Dev, Session, saved_steps

DECAY = 0.7


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_average_is_that_of_the_weights_after_each_update(optimizer):
    hp = tiny.settings("cond", ema_decay=DECAY, optimizer=optimizer, learning_rate=0.1)
    model = train_step.build(hp, tiny.VOCAB_X, tiny.VOCAB_Y)
    train, expected = tf.function(model.train_on), None
    for step in range(4):
        batch = tiny.batch()
        if step == 2:  # not finite: nothing changes, the average neither
            batch["weight"] = tf.fill([len(tiny.PAIRS)], np.float32("nan"))
        train(batch)
        now = model.emb_x.embeddings.numpy().astype(np.float64)
        if expected is None:
            expected = now
        elif step != 2:
            expected = DECAY * expected + (1 - DECAY) * now
    places = [v is model.emb_x.embeddings for v in model.trainable_variables]
    found = model.optimizer.averages[places.index(True)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert np.abs(now - expected).max() > 1e-3


class Watching(Dev):
    """Remembers the weights that each evaluation saw."""

    def __init__(self, scores=None):
        super().__init__(scores)
        self.model, self.seen = None, []

    def __call__(self, step, interrupted):
        self.seen.append([v.numpy() for v in self.model.trainable_variables])
        return super().__call__(step, interrupted)


@pytest.fixture
def session(settings, training_data):
    def make(out_dir, **changes):
        steps = {"num_train_steps": 6, "steps_per_checkpoint": 2, "steps_per_external_eval": 3}
        hp = settings(out_dir=str(out_dir), **steps, **changes)
        model = train_step.build(hp, VOCABULARY, VOCABULARY)
        dev = Watching({3: 1.0, 6: 2.0})
        dev.model = model
        return hp, dev, Session(hp, training_data, model, dev)

    return make


def test_evaluation_and_best_have_the_average_and_training_goes_on_without(session, tmp_path):
    hp, dev, run = session(tmp_path / "average", ema_decay=DECAY)
    run.run()
    _, _, plain = session(tmp_path / "plain")
    plain.run()
    for one, other in zip(
        run.model.trainable_variables, plain.model.trainable_variables, strict=True
    ):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    averages = [v.numpy() for v in run.model.optimizer.averages]
    for one, other in zip(dev.seen[-1], averages, strict=True):
        np.testing.assert_array_equal(one, other)
    assert dev.steps == [3, 6] and saved_steps(hp, "best") == [6]
    best = run.loop.build_model()
    run_directory.load_weights(best, run_directory.listing(f"{hp.out_dir}/best")[-1])
    for variable, average in zip(best.trainable_variables, averages, strict=True):
        np.testing.assert_array_equal(variable.numpy(), average)


def test_kill_and_resume(session, tmp_path):
    _, _, whole = session(tmp_path / "whole", ema_decay=DECAY)
    whole.run()
    _, _, first = session(tmp_path / "parts", ema_decay=DECAY)
    first.run_until_killed(5)
    _, _, second = session(tmp_path / "parts", ema_decay=DECAY)
    assert "resumed at step 4" in second.text
    second.run()
    for one, other in zip(
        second.model.optimizer.averages, whole.model.optimizer.averages, strict=True
    ):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
