"""The loop with a toy model: signals and kills, and how a run goes on after them."""

import os
import signal

import numpy as np
import pytest

from tests.training.toy_session import Dev, Killed, Session, metrics, saved_steps


def kill_at(session, name):
    """Let the session die when it calls this method of its checkpoints."""

    def die(*_, **__):
        raise Killed

    setattr(session.loop.checkpoints, name, die)


@pytest.mark.parametrize(
    "stop", [3, *(pytest.param(s, marks=pytest.mark.slow) for s in (7, 10, 14))]
)
def test_a_run_in_two_parts_equals_one_in_one(
    settings, training_data, toy_model, tmp_path, stop
):
    """A stop at any step, in the middle of a report too, leaves no trace in the numbers."""
    whole = settings(out_dir=str(tmp_path / "whole"))
    expected = Session(whole, training_data, toy_model(), Dev()).run()

    parts = settings(out_dir=str(tmp_path / "parts"))
    signalled = toy_model(
        on_batch=lambda n: os.kill(os.getpid(), signal.SIGTERM) if n == stop - 1 else None
    )
    first = Session(parts, training_data, signalled, Dev()).run()
    assert first.outcome.interrupted and first.outcome.step == stop
    second = Session(parts, training_data, toy_model(), Dev())
    assert second.resumed and f"resumed at step {stop}" in second.text
    second.run()
    assert metrics(parts) == metrics(whole)
    np.testing.assert_array_equal(second.model.kernel, expected.model.kernel)
    assert second.loop.progress == expected.loop.progress


def test_without_a_polite_stop_the_last_checkpoint_counts(
    settings, training_data, toy_model, tmp_path
):
    whole = settings(out_dir=str(tmp_path / "whole"))
    Session(whole, training_data, toy_model(), Dev()).run()

    parts = settings(out_dir=str(tmp_path / "parts"))
    Session(parts, training_data, toy_model(), Dev()).run_until_killed(18)
    assert [line["step"] for line in metrics(parts)] == [5, 10, 10, 15]
    second = Session(parts, training_data, toy_model(), Dev())
    assert "resumed at step 10" in second.text
    assert [line["step"] for line in metrics(parts)] == [5, 10, 10]
    second.run()
    assert metrics(parts) == metrics(whole)


def test_a_signal_during_an_evaluation_leaves_it_for_the_next_start(
    settings, training_data, toy_model
):
    hp = settings()

    def interrupted_dev(step, interrupted):
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted()
        return None

    session = Session(hp, training_data, toy_model(), interrupted_dev).run()
    assert session.outcome.interrupted and session.outcome.step == 10
    assert saved_steps(hp) == [10]
    dev = Dev()
    Session(hp, training_data, toy_model(), dev).run()
    assert dev.steps == [10, 20]
    assert [line["step"] for line in metrics(hp)] == [5, 10, 10, 15, 20, 20]


def test_resume_in_the_middle_of_accumulation(settings, training_data, toy_model, tmp_path):
    def make(name):
        return settings(
            gradient_accumulation_steps=3,
            max_steps=6,
            steps_per_stats=2,
            out_dir=str(tmp_path / name),
        )

    whole = Session(make("whole"), training_data, toy_model()).run()
    signalled = toy_model(
        on_batch=lambda n: os.kill(os.getpid(), signal.SIGTERM) if n == 9 else None
    )
    Session(make("parts"), training_data, signalled).run()
    second = Session(make("parts"), training_data, toy_model()).run()
    assert metrics(make("parts")) == metrics(make("whole"))
    np.testing.assert_array_equal(second.model.kernel, whole.model.kernel)


def test_a_signal_during_the_last_evaluation_is_no_end(settings, training_data, toy_model):
    hp = settings(max_steps=7)

    def interrupted_dev(step, interrupted):
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupted()
        return None

    session = Session(hp, training_data, toy_model(), interrupted_dev).run()
    assert session.outcome.interrupted and saved_steps(hp) == [7]
    dev = Dev()
    second = Session(hp, training_data, toy_model(), dev).run()
    assert not second.outcome.interrupted and dev.steps == [7]
    Session(hp, training_data, toy_model(), dev).run()
    assert dev.steps == [7]


def test_an_evaluation_that_was_made_up_for_is_not_made_again(
    settings, training_data, toy_model
):
    hp = settings()

    def interrupted_dev(step, interrupted):
        os.kill(os.getpid(), signal.SIGINT)
        return None

    Session(hp, training_data, toy_model(), interrupted_dev).run()
    dev = Dev()
    killed = Session(hp, training_data, toy_model(), dev)
    killed.run_until_killed(11)
    assert dev.steps == [10]
    Session(hp, training_data, toy_model(), dev).run()
    assert dev.steps == [10, 20]
    assert [line["step"] for line in metrics(hp)] == [5, 10, 10, 15, 20, 20]


@pytest.mark.parametrize("moment", ["save_best", "save"])
def test_a_kill_after_an_evaluation_leaves_no_line_twice(
    settings, training_data, toy_model, moment
):
    hp = settings()

    def interrupted_dev(step, interrupted):
        os.kill(os.getpid(), signal.SIGINT)
        return None

    Session(hp, training_data, toy_model(), interrupted_dev).run()
    killed = Session(hp, training_data, toy_model(), Dev())
    kill_at(killed, moment)
    with pytest.raises(Killed):
        killed.run()
    assert [line["step"] for line in metrics(hp)] == [5, 10, 10]
    Session(hp, training_data, toy_model(), Dev()).run()
    assert [line["step"] for line in metrics(hp)] == [5, 10, 10, 15, 20, 20]


def test_there_is_a_checkpoint_before_there_is_a_best(settings, training_data, toy_model):
    """A run that is killed right after its first evaluation is no run without checkpoints."""
    hp = settings(steps_per_external_eval=4)
    killed = Session(hp, training_data, toy_model(), Dev())
    killed.run_until_killed(5)
    assert saved_steps(hp, "best") == [4] == saved_steps(hp)
    dev = Dev()
    second = Session(hp, training_data, toy_model(), dev)
    assert "resumed at step 4" in second.text
    second.run()
    assert dev.steps == [8, 12, 16, 20]
    assert [line["step"] for line in metrics(hp) if "dev_bleu" in line] == [4, 8, 12, 16, 20]


def test_changed_training_text_is_named_and_older_checkpoints_load(
    settings, training_data, toy_model, tmp_path
):
    hp = settings(out_dir=str(tmp_path / "run"), num_train_steps=8)

    def session(**digests):
        def data(hp):
            made = training_data(hp)
            made.digests = digests
            return made

        return Session(hp, data, toy_model())

    session().run()  # as before there were digests
    assert "has changed" not in session(**{"train.en": "1", "train.de": "1"}).text
    hp = hp.replace(num_train_steps=9)
    session(**{"train.en": "1", "train.de": "1"}).run()
    found = session(**{"train.en": "2", "train.de": "1"})
    assert found.resumed and "train.en has changed since the last checkpoint" in found.text
    found = session(**{"/data/train.en": "2", "/data/train.de": "1"})  # spelt in another way
    assert "/data/train.en has changed since the last checkpoint" in found.text
    assert "train.de" not in found.text
