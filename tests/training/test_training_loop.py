"""The loop with a toy model: bad steps, budgets, order of events."""

import json
import signal

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import run_directory
from tests.training.toy_session import Dev, Session, metrics, saved_steps


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


def test_a_process_that_trains_alone_saves_whatever_tf_config_says(
    settings, training_data, toy_model, monkeypatch
):
    cluster = {"worker": ["127.0.0.1:9000", "127.0.0.1:9001"]}
    config = {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    hp = settings()
    Session(hp, training_data, toy_model(), Dev({10: 3.0})).run()
    assert saved_steps(hp) == [10, 20] and saved_steps(hp, "best") == [10]


def test_no_process_ends_before_the_chief_has_saved(
    settings, training_data, toy_model, monkeypatch
):
    session = Session(settings(num_train_steps=7), training_data, toy_model())
    loop, done = session.loop, []
    save, any_of = loop.checkpoints.save, loop._agreement.any
    monkeypatch.setattr(loop.checkpoints, "save", lambda *a: done.append("save") or save(*a))
    monkeypatch.setattr(loop._agreement, "any", lambda f: done.append("meet") or any_of(f))
    session.run()
    assert done[-2:] == ["save", "meet"]


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
    assert "2 batches skipped" in session.text


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


def test_bad_updates_are_counted_not_their_batches(
    settings, training_data, toy_model, tmp_path
):
    hp = settings(gradient_accumulation_steps=2, max_bad_steps=3, steps_per_stats=1)
    # The second update is left out; the third one has a good batch, the last one.
    session = Session(hp, training_data, toy_model(bad=[2, 3, 4])).run()
    assert session.outcome.step == 20
    hp = hp.replace(out_dir=str(tmp_path / "bad"))
    session = Session(hp, training_data, toy_model(bad=range(2, 8)))
    with pytest.raises(UserError, match="in 3 updates in a row .* before step 4"):
        session.run()


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


def test_a_collapsed_z_is_warned_of_once(settings, training_data, toy_model):
    class Collapsed(Dev):
        def __call__(self, step, interrupted):
            found = super().__call__(step, interrupted)
            found.values |= {"dev_kl": 4.0, "dev_information": 0.01, "dev_active_units": 0}
            found.values["dev_collapsed"] = True
            return found

    hp = settings()
    session = Session(hp, training_data, toy_model(), Collapsed()).run()
    assert session.text.count("z has collapsed") == 1
    assert [line["dev_collapsed"] for line in metrics(hp) if "dev_bleu" in line] == [True, True]


@pytest.mark.parametrize(
    "place", ["metrics_file.MetricsFile.append", "tensorboard.TensorBoard"]
)
def test_a_report_that_the_disk_does_not_take_is_no_end(
    settings, training_data, toy_model, monkeypatch, place
):
    def full(*_, **__):
        raise UserError("cannot write metrics.jsonl: the disk is full.")

    hp = settings(num_train_steps=8)
    monkeypatch.setattr(f"aevnmt_tf.training.{place}", full)
    session = Session(hp, training_data, toy_model(), evaluate=Dev()).run()
    assert session.outcome.step == 8 and saved_steps(hp)[-1] == 8
    assert "the disk is full; training goes on" in session.text
