"""Scores by hand."""

import numpy as np
import pytest

from aevnmt_tf.probing import probe_scores
from tests.tiny_posterior import made_up


def test_class_scores_by_hand():
    features, labels = np.array([[1.0], [-1.0], [2.0], [-2.0]]), np.array([1, 0, 0, 1])
    # Two draws: one finds the first two, one the others.
    posterior = made_up([[[1.0], [0.0]], [[-3.0], [0.0]]])
    measures, shares = probe_scores.class_scores(posterior, features, labels, seed=1)
    assert measures["accuracy"].mean == pytest.approx(0.5)
    sigmoid = 1 / (1 + np.exp(-np.array([[1.0, -1, 2, -2], [-3.0, 3, -6, 6]])))
    np.testing.assert_allclose(shares[:, 1], sigmoid.mean(axis=0))
    right = (sigmoid.mean(axis=0) > 0.5) == labels
    assert measures["accuracy"].averaged == right.mean()
    likelihood = np.where(labels == 1, sigmoid, 1 - sigmoid)
    logs = np.log(likelihood).mean(axis=1)
    found = measures["log_likelihood"]
    assert found.mean == pytest.approx(logs.mean())
    assert (found.low, found.high) == pytest.approx(np.quantile(logs, [0.025, 0.975]))
    assert found.averaged == pytest.approx(np.log(likelihood.mean(axis=0)).mean())


def test_the_interval_for_new_sentences_knows_how_few_were_held_out():
    posterior = made_up([[[1.0], [0.0]]])  # one draw: the weights leave nothing open
    for count in (10, 1000):
        features = np.ones([count, 1])
        labels = np.arange(count) % 2
        measures, _ = probe_scores.class_scores(posterior, features, labels, seed=1)
        found = measures["accuracy"]
        assert (found.low, found.mean, found.high) == (0.5, 0.5, 0.5)
        width = 2 * 1.96 * np.sqrt(0.25 / (count + 3))  # of Beta(1 + n/2, 1 + n/2)
        assert found.new_high - found.new_low == pytest.approx(width, rel=0.15)


def test_many_draws_are_scored_in_parts(monkeypatch):
    dice = np.random.default_rng(4)
    features, labels = dice.normal(size=[7, 2]), np.array([0, 1, 2, 0, 1, 2, 0])
    numbers = dice.normal(size=7)
    classes = made_up(dice.normal(size=[50, 3, 2]))
    line = made_up(dice.normal(size=[50, 3, 1]), log_variance=np.zeros([50, 1]))
    expected = probe_scores.class_scores(classes, features, labels, seed=1)
    expected_line = probe_scores.number_scores(line, features, numbers, seed=1)
    monkeypatch.setattr(probe_scores, "_MOST_NUMBERS", 100)
    measures, shares = probe_scores.class_scores(classes, features, labels, seed=1)
    np.testing.assert_allclose(shares, expected[1])
    assert measures["accuracy"] == expected[0]["accuracy"]
    measures, predicted = probe_scores.number_scores(line, features, numbers, seed=1)
    np.testing.assert_allclose(predicted[0], expected_line[1][0])
    assert measures["r2"].mean == pytest.approx(expected_line[0]["r2"].mean)


def test_number_scores_by_hand():
    numbers = np.array([1.0, 3.0, 5.0])
    posterior = made_up(
        [[[1.0], [0.0]], [[1.0], [1.0]]],
        log_variance=np.log([[4.0], [1.0]]),
        unit=(3.0, 2.0),
    )
    measures, predicted = probe_scores.number_scores(
        posterior, np.array([[-1.0], [0.0], [1.0]]), numbers, seed=1
    )
    # 3 + 2 (x + b): right for b = 0, 2 too much for b = 1.
    np.testing.assert_allclose(predicted[0], numbers + 1)
    assert measures["r2"].mean == pytest.approx((1.0 + (1 - 12 / 8)) / 2)
    assert measures["r2"].averaged == pytest.approx(1 - 3 / 8)
    assert measures["rmse"].mean == pytest.approx((0 + 2) / 2)
    assert measures["rmse"].averaged == pytest.approx(1.0)
    densities = np.array([1 / 4, np.exp(-0.5) / 2]) / np.sqrt(2 * np.pi)
    found = measures["log_likelihood"]
    assert found.mean == pytest.approx(np.log(densities).mean())
    assert found.averaged == pytest.approx(np.log(densities.mean()))


def test_baselines_are_exact():
    measures, shares = probe_scores.majority_scores(
        [0] * 6 + [1] * 3, [0, 0, 0, 1], num_classes=2, seed=1
    )
    assert measures["accuracy"].mean == measures["accuracy"].averaged == 0.75
    np.testing.assert_allclose(shares[0], [7 / 11, 4 / 11])
    expected = (3 * np.log(7 / 11) + np.log(4 / 11)) / 4
    assert measures["log_likelihood"].averaged == pytest.approx(expected)
    measures, predicted = probe_scores.mean_scores([1.0, 3.0], [2.0, 6.0], seed=1)
    assert measures["r2"].averaged == pytest.approx(1 - (0 + 16) / (4 + 4))
    np.testing.assert_allclose(predicted[0], [2.0, 2.0])
    assert measures["rmse"].averaged == pytest.approx(np.sqrt(8))
