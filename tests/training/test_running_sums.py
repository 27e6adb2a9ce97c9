"""The running sums of a report."""

import math
import types

import pytest
import tensorflow as tf

from aevnmt_tf.training import report_keys
from aevnmt_tf.training.running_sums import LATEST, SUMMED, SUMMED_IF_THERE, RunningSums, means


def result(**changes):
    values = (
        dict.fromkeys((*SUMMED, *SUMMED_IF_THERE), 0.0)
        | dict.fromkeys(LATEST, 0.0)
        | {"skipped": 0.0}
    )
    return {name: tf.constant(value) for name, value in (values | changes).items()}


def test_means_are_weighted_by_pairs_and_tokens():
    totals = RunningSums()
    totals.add(
        result(loss=8.0, nll_x=2.0, nll_y=4.0, kl=2.0, pairs=2.0, x_tokens=4.0, y_tokens=8.0)
        | result_part(correct_y=2.0, gradient_norm=1.0, kl_weight=0.1, learning_rate=0.5)
    )
    totals.add(
        result(loss=1.0, nll_x=1.0, nll_y=2.0, kl=4.0, pairs=4.0, x_tokens=2.0, y_tokens=4.0)
        | result_part(correct_y=4.0, gradient_norm=3.0, kl_weight=0.2, learning_rate=0.25)
    )
    report = totals.report()
    assert report["loss"] == pytest.approx(1.5)
    assert (report["nll_x"], report["nll_y"], report["kl"]) == pytest.approx((0.5, 1.0, 1.0))
    assert report["elbo"] == pytest.approx(-2.5)
    assert report["nll_y_per_token"] == pytest.approx(0.5)
    assert report["perplexity_x"] == pytest.approx(math.exp(0.5))
    assert report["accuracy_y"] == pytest.approx(0.5)
    assert report["gradient_norm"] == pytest.approx(2.0)
    assert report["kl_weight"] == pytest.approx(0.2)
    assert report["learning_rate"] == pytest.approx(0.25)
    assert report["pairs"] == 6.0


def result_part(**values):
    return {name: tf.constant(value) for name, value in values.items()}


def test_a_skipped_step_is_counted_and_adds_nothing():
    totals = RunningSums()
    totals.add(result(loss=4.0, nll_y=4.0, pairs=2.0, gradient_norm=1.0))
    nan = float("nan")
    totals.add(result(loss=nan, nll_y=nan, pairs=2.0, gradient_norm=nan, skipped=1.0))
    report = totals.report()
    assert (report["loss"], report["gradient_norm"], report["skipped"]) == (2.0, 1.0, 1)


def test_bad_steps_in_a_row_survive_a_report():
    totals = RunningSums()
    for skipped in (1.0, 1.0, 0.0, 1.0):
        totals.add(result(skipped=skipped))
    assert (int(totals.bad_in_a_row), int(totals.most_bad_in_a_row)) == (1, 2)
    totals.reset()
    assert (int(totals.bad_in_a_row), int(totals.most_bad_in_a_row)) == (1, 1)
    totals.add(result(skipped=1.0))
    assert int(totals.most_bad_in_a_row) == 2
    assert totals.report()["skipped"] == 1


def test_an_update_is_bad_where_its_last_batch_is():
    totals = RunningSums()
    for skipped, completes in ((1.0, False), (1.0, True), (1.0, False), (1.0, True)):
        totals.add(result(skipped=skipped), completes=completes)
    assert (int(totals.bad_in_a_row), totals.report()["skipped"]) == (2, 4)
    totals.add(result(skipped=0.0), completes=False)
    assert int(totals.bad_in_a_row) == 2
    totals.add(result(skipped=0.0), completes=True)
    assert (int(totals.bad_in_a_row), int(totals.most_bad_in_a_row)) == (0, 2)


def test_a_report_of_skipped_steps_alone_is_nan_not_an_error():
    totals = RunningSums()
    totals.add(result(skipped=1.0))
    assert math.isnan(totals.report()["loss"])


def test_a_system_without_a_source_model_reports_no_source_tokens():
    cond = types.SimpleNamespace(source_lm=None, posterior=None, prediction=None, decoder=1)
    report = means({name: 1.0 for name in SUMMED}, report_keys.names_for(cond))
    assert set(report) == {"loss", "nll_y", "nll_y_per_token", "perplexity_y", "accuracy_y"}


def test_sums_are_part_of_a_checkpoint(tmp_path):
    totals = RunningSums()
    totals.add(result(loss=1.25, pairs=1.0, kl_weight=0.5))
    tf.train.Checkpoint(totals=totals).write(str(tmp_path / "state"))
    other = RunningSums()
    tf.train.Checkpoint(totals=other).read(str(tmp_path / "state")).assert_consumed()
    assert other.report()["loss"] == 1.25
    assert other.report()["kl_weight"] == 0.5
