"""The loop with a toy model: resuming, signals, bad steps, budgets, order of events."""

import io
import json
import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import run_directory
from aevnmt_tf.errors import UserError
from aevnmt_tf.training.evaluation import Evaluation
from aevnmt_tf.training.loop import Loop
from aevnmt_tf.training.reporting import Reporter
from aevnmt_tf.training.stopping import StoppingRule


class Dev:
    """Gives a score for each step and remembers when it was asked."""

    def __init__(self, scores=None):
        self.scores = scores or {}
        self.steps = []

    def __call__(self, step, interrupted):
        if interrupted():
            return None
        self.steps.append(step)
        bleu = float(self.scores.get(step, 1.0))
        names = ("chrf", "elbo", "nll_x", "nll_y", "kl")
        return Evaluation(
            values={"dev_bleu": bleu, **{f"dev_{name}": 0.5 for name in names}},
            bleu=bleu,
            translations=[("source", "reference", "translation")],
        )


class Session:
    """One process' part of a run."""

    def __init__(self, hp, training_data, model, evaluate=None):
        os.makedirs(hp.out_dir, exist_ok=True)
        self.stream = io.StringIO()
        rule = StoppingRule.of(hp, has_dev=evaluate is not None)
        self.model = model
        self.loop = Loop(
            hp,
            strategy=tf.distribute.get_strategy(),
            model=model,
            data=training_data(hp),
            evaluate=evaluate,
            reporter=Reporter(hp, rule=rule, stream=self.stream),
        )
        self.resumed = self.loop.resume()

    def run(self):
        self.outcome = self.loop.run()
        return self

    @property
    def text(self):
        return self.stream.getvalue()


def metrics(hp):
    with open(f"{hp.out_dir}/metrics.jsonl") as file:
        lines = [json.loads(line) for line in file]
    return [
        {key: value for key, value in line.items() if key != "pairs_per_second"}
        for line in lines
    ]


def saved_steps(hp, folder="checkpoints"):
    return [
        run_directory.step_of(path) for path in run_directory.listing(f"{hp.out_dir}/{folder}")
    ]


def test_a_run_from_start_to_end(settings, training_data, toy_model):
    hp, dev = settings(), Dev({10: 3.0, 20: 2.0})
    session = Session(hp, training_data, toy_model(), dev).run()
    assert not session.resumed
    assert (session.outcome.step, session.outcome.interrupted) == (20, False)
    assert dev.steps == [10, 20]
    assert [line["step"] for line in metrics(hp)] == [5, 10, 10, 15, 20, 20]
    assert saved_steps(hp) == [10, 20]
    assert saved_steps(hp, "best") == [10]
    assert "dev BLEU 3.00" in session.text and "(best so far)" in session.text
    assert "translation" in session.text


@pytest.mark.parametrize("stop", [3, 7, 10, 14])
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

    class Killed(BaseException):
        pass

    def kill(number):
        if number == 17:
            killed.append(number)

    killed = []
    parts = settings(out_dir=str(tmp_path / "parts"))
    session = Session(parts, training_data, toy_model(on_batch=kill), Dev())
    move = session.loop.reporter.move

    def move_or_die(step):
        if killed:
            raise Killed
        move(step)

    session.loop.reporter.move = move_or_die
    with pytest.raises(Killed):
        session.run()
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


def test_signal_handlers_are_put_back(settings, training_data, toy_model):
    before = signal.getsignal(signal.SIGTERM)
    Session(settings(), training_data, toy_model()).run()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_few_bad_steps_are_skipped_and_counted(settings, training_data, toy_model):
    hp = settings(max_bad_steps=3)
    session = Session(hp, training_data, toy_model(bad=[1, 2, 7])).run()
    assert session.outcome.step == 20
    assert [line["skipped"] for line in metrics(hp)] == [2, 1, 0, 0]
    assert all(np.isfinite(line["loss"]) for line in metrics(hp))
    assert "2 steps skipped" in session.text


def test_many_bad_steps_in_a_row_end_the_run(settings, training_data, toy_model):
    hp = settings(max_bad_steps=3)
    session = Session(hp, training_data, toy_model(bad=range(11, 100)))
    with pytest.raises(UserError) as error:
        session.run()
    assert "was not finite" in str(error.value)
    assert "step-000000010" in str(error.value)
    assert session.loop.step <= 11 + 2 * 3
    assert saved_steps(hp) == [10]


def test_bad_steps_in_a_row_are_counted_across_reports_and_restarts(
    settings, training_data, toy_model
):
    hp = settings(max_bad_steps=4, max_steps=10, steps_per_stats=10)
    Session(hp, training_data, toy_model(bad=[8, 9, 10, 11])).run()
    second = Session(hp.replace(max_steps=20), training_data, toy_model(bad=[8, 9, 10, 11]))
    with pytest.raises(UserError, match="was not finite in 4 updates in a row"):
        second.run()


def test_max_steps_and_going_on_with_more(settings, training_data, toy_model):
    hp, dev = settings(max_steps=7), Dev()
    first = Session(hp, training_data, toy_model(), dev).run()
    assert first.outcome.reason == "max_steps (7) is reached"
    assert dev.steps == [7]  # the end is always evaluated
    assert saved_steps(hp) == [7]
    again = Session(hp, training_data, toy_model(), dev).run()
    assert again.resumed and again.outcome.step == 7 and dev.steps == [7]
    more = Session(hp.replace(max_steps=None), training_data, toy_model(), dev).run()
    assert more.outcome.step == 20 and dev.steps == [7, 10, 20]


def test_max_minutes(settings, training_data, toy_model):
    hp = settings(max_minutes=1e-9)
    session = Session(hp, training_data, toy_model()).run()
    assert session.outcome.reason.startswith("max_minutes")
    assert session.outcome.step == 0


def test_the_stopping_rule_survives_a_restart(settings, training_data, toy_model):
    hp = settings(num_train_steps=4, check_convergence_every=2, patience=4, max_steps=9)
    dev = Dev({4: 9.0})
    Session(hp, training_data, toy_model(), dev).run()
    last = Session(hp.replace(max_steps=None), training_data, toy_model(), dev).run()
    # 4 gains; 6, 8, 10 and 12 do not. 9 is the end of the first part and no check.
    assert dev.steps == [4, 6, 8, 9, 10, 12]
    assert last.outcome.reason == "dev BLEU did not rise in 4 checks"
    assert saved_steps(hp, "best") == [4]


def test_accumulated_batches_are_one_step(settings, training_data, toy_model):
    hp = settings(gradient_accumulation_steps=3, max_steps=6, steps_per_stats=2)
    session = Session(hp, training_data, toy_model()).run()
    assert int(session.model.batches) == 18
    assert [line["step"] for line in metrics(hp)] == [2, 4, 6]
    assert saved_steps(hp) == [6]


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


def test_a_checkpoint_holds_what_the_documentation_promises(settings, training_data, toy_model):
    hp = settings()
    Session(hp, training_data, toy_model(), Dev()).run()
    folder = run_directory.listing(f"{hp.out_dir}/checkpoints")[-1]
    state = json.loads((folder / "state.json").read_text())
    assert state["step"] == state["data_position"] == 20
    assert state["random_state"] == {"seed": 1, "batches": 20}
    assert state["progress"]["best_bleu"] == 1.0
    stored = dict(tf.train.list_variables(str(folder / "training")))
    names = " ".join(stored)
    for part in ("optimizer", "batches", "updates", "pending_pairs", "totals/sums"):
        assert part in names


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
