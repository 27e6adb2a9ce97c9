"""The paper's stopping rule, step by step."""

import dataclasses

import pytest

from aevnmt_tf.training.stopping import Convergence, StoppingRule


def rule(**changes):
    settings = {
        "num_train_steps": 100,
        "check_convergence_every": 5,
        "patience": 3,
        "steps_per_external_eval": 40,
    }
    return StoppingRule(**{**settings, **changes})


def run(rule, bleu_of, *, limit=1000):
    """Return the last step, the reason, the evaluated steps and the progress of a run."""
    progress, evaluated = Convergence(), []
    for step in range(1, limit):
        if rule.is_evaluation(step):
            evaluated.append(step)
            rule.record(progress, step=step, bleu=bleu_of(step))
        reason = rule.reason_to_stop(progress, step=step, seconds=step)
        if reason:
            return step, reason, evaluated, progress
    return None, None, evaluated, progress


def test_twenty_checks_of_the_paper():
    paper = StoppingRule(
        num_train_steps=140000, check_convergence_every=500, patience=20, has_dev=True
    )
    step, reason, evaluated, _ = run(paper, lambda _: 30.0, limit=200000)
    # The first check, at T, is a gain over nothing; 20 more bring none.
    assert step == 140000 + 20 * 500
    assert reason == "dev BLEU did not rise in 20 checks"
    assert evaluated == list(range(140000, 150001, 500))


def test_a_gain_starts_the_count_again():
    step, _, evaluated, progress = run(rule(), lambda step: 20.0 if step < 110 else 21.0)
    # 40 and 80 are no checks; 100 and 105 are checks without a gain; 110 gains.
    assert evaluated == [40, 80, 100, 105, 110, 115, 120, 125]
    assert step == 125
    assert (progress.best_bleu, progress.best_step) == (21.0, 110)


def test_a_gain_between_two_checks_starts_the_count_again():
    step, _, evaluated, progress = run(
        rule(steps_per_external_eval=9), lambda step: 20.0 if step < 108 else 21.0
    )
    # 100 and 105 are checks without a gain; 108 is no check, and gains.
    assert evaluated[-6:] == [105, 108, 110, 115, 117, 120]
    assert (step, progress.best_step, progress.checks_without_gain) == (120, 108, 3)


def test_evaluations_before_the_first_check_do_not_count():
    step, _, _, progress = run(rule(), lambda step: 100.0 - step)
    assert (progress.best_step, step) == (40, 110)


def test_an_equal_score_is_no_gain():
    assert run(rule(), lambda _: 5.0)[0] == 110


@pytest.mark.parametrize("changes", [{"check_convergence_every": 0}, {"has_dev": False}])
def test_without_checks_it_ends_at_num_train_steps(changes):
    step, reason, _, _ = run(rule(**changes), lambda _: 1.0)
    assert (step, reason) == (100, "num_train_steps (100) is reached")


def test_no_development_set_means_no_evaluation():
    assert run(rule(has_dev=False), lambda _: pytest.fail())[2] == []


def test_budgets():
    assert run(rule(max_steps=7), lambda _: 1.0)[:2] == (7, "max_steps (7) is reached")
    step, reason, _, _ = run(rule(max_minutes=0.5), lambda _: 1.0)  # one second a step
    assert (step, reason) == (30, "max_minutes (0.5) have passed")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 100),
        ({"max_steps": 50}, 50),
        ({"max_steps": 300}, 300),
        ({"max_steps": 300, "has_dev": False}, 100),
    ],
)
def test_last_step(changes, expected):
    assert rule(**changes).last_step() == expected


def test_progress_survives_a_checkpoint():
    progress = Convergence()
    rule().record(progress, step=100, bleu=3.5)
    rule().record(progress, step=105, bleu=3.0)
    assert dataclasses.asdict(progress) == {
        "best_bleu": 3.5,
        "best_step": 100,
        "checks_without_gain": 1,
    }
