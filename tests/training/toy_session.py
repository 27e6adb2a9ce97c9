"""One process' part of a run with a toy model, and what it leaves."""

import io
import json
import os

import pytest
import tensorflow as tf

from aevnmt_tf.storage import run_directory
from aevnmt_tf.training.dev_evaluation import DevEvaluation
from aevnmt_tf.training.reporting import Reporter
from aevnmt_tf.training.stopping import StoppingRule
from aevnmt_tf.training.training_loop import TrainingLoop


class Killed(BaseException):
    """Stands for SIGKILL: nothing is done after it."""


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
        return DevEvaluation(
            values={"dev_bleu": bleu, **{f"dev_{name}": 0.5 for name in names}},
            translations=[("source", "reference", "translation")],
        )


class Session:
    """One process' part of a run."""

    def __init__(self, hp, training_data, model, evaluate=None):
        os.makedirs(hp.out_dir, exist_ok=True)
        self.stream = io.StringIO()
        rule = StoppingRule.of(hp, has_dev=evaluate is not None)
        self.model = model
        self.loop = TrainingLoop(
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

    def run_until_killed(self, step):
        """Train until the loop has counted this step, and die there."""
        move = self.loop.reporter.move

        def move_or_die(now):
            if now == step:
                raise Killed
            move(now)

        self.loop.reporter.move = move_or_die
        with pytest.raises(Killed):
            self.run()

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
