"""The one training loop, for every strategy.

    batch -> strategy.run(model.train_step) -> running sums
    every steps_per_stats steps a report, every steps_per_external_eval steps an evaluation,
    every steps_per_checkpoint steps a checkpoint, in this order

A step is one update; with gradient accumulation it takes several batches. All that decides
what comes next is a function of the number of batches and of what a checkpoint holds.
"""

from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from aevnmt_tf import model as models
from aevnmt_tf import run_directory
from aevnmt_tf.errors import UserError
from aevnmt_tf.training import distribution
from aevnmt_tf.training.checkpoints import Checkpoints
from aevnmt_tf.training.reporting import Reporter
from aevnmt_tf.training.signals import Interruption
from aevnmt_tf.training.stopping import Progress, StoppingRule
from aevnmt_tf.training.throughput import Stopwatch
from aevnmt_tf.training.totals import Totals

# A reason to stop begins with the name of the setting that it is about.
USED_UP_ELSEWHERE = "max_minutes is used up in another process"


@dataclass
class Outcome:
    """How a run ended: the step, the reason, and whether a signal ended it."""

    step: int
    reason: str
    interrupted: bool = False


class Loop:
    """Trains a model and keeps its run.

    Args:
        hp: the settings.
        strategy: the tf.distribute strategy that the model was built under.
        model: a training.step.TrainableAevnmt.
        data: a data.TrainingData.
        evaluate: called with (step, interrupted), returns an evaluation.Evaluation, or None
            where `interrupted()` became true; None without a development set.
        reporter: a reporting.Reporter; made here for the run's directory where it is None.
    """

    def __init__(self, hp, *, strategy, model, data, evaluate=None, reporter=None):
        self.hp = hp
        self.out_dir = Path(hp.out_dir)
        self.rule = StoppingRule.of(hp, has_dev=evaluate is not None)
        self.progress = Progress()
        self.totals = Totals()
        self.is_chief = distribution.is_chief(strategy)
        self.reporter = reporter or Reporter(hp, rule=self.rule, is_chief=self.is_chief)
        self._saves_every = hp.steps_per_checkpoint or 10 * hp.steps_per_stats
        self.checkpoints = Checkpoints(
            self.out_dir,
            model=model,
            trackables={
                "optimizer": model.optimizer,
                "batches": model.batches,
                "updates": model.updates,
                "pending_pairs": model.pending_pairs,
                "totals": self.totals,
            },
            keep=hp.num_keep_ckpts,
            every=self._saves_every,
        )
        self._strategy, self._model, self._data = strategy, model, data
        self._evaluate = evaluate
        self._agreement = distribution.Agreement(strategy)
        self._watch = Stopwatch()
        self._interruption = Interruption()
        self._batches = 0  # seen so far: the position in the data
        self._saved_batches = None  # those of the newest checkpoint
        self._evaluated = None  # the step of the last evaluation

    @property
    def step(self):
        """The number of updates so far."""
        return self._batches // self.hp.gradient_accumulation_steps

    @property
    def num_replicas(self):
        """The number of devices that share a batch."""
        return self._strategy.num_replicas_in_sync

    def seconds(self):
        """Return the seconds of the whole run, restarts included."""
        return self._watch.total()

    def build_model(self):
        """Return a new model like the one in training, outside of any strategy."""
        return models.Aevnmt.from_config(self._model.get_config())

    def resume(self):
        """Continue from the newest checkpoint that is whole; return whether there was one."""
        if self.is_chief:
            self.checkpoints.tidy()
        with self._strategy.scope():
            state = self.checkpoints.restore(report=self.reporter.say, set_aside=self.is_chief)
        if state is None:
            self.reporter.cut_back(0)
            return False
        self._batches = self._saved_batches = state["data_position"]
        self._evaluated = state["last_evaluation"]
        self.progress = Progress(**state["progress"])
        self._watch.restore(state["clock"])
        self.reporter.cut_back(self.step, evaluated=self._evaluated == self.step)
        self.reporter.say(f"resumed at step {self.step}")
        return True

    def run(self):
        """Train until the stopping rule, the budget or a signal says so."""
        lost = distribution.sentences(self._strategy)
        with self._interruption, self.reporter.bar(self.step), lost:
            outcome = self._train()
            if not outcome.interrupted and self._final_evaluation_is_missing():
                self._run_evaluation()
                outcome.interrupted = self._final_evaluation_is_missing()
            if self._saved_batches != self._batches:
                self._save()
        return outcome

    def _train(self):
        iterator = train = None
        if self._evaluation_is_missing():
            self._run_evaluation()
        while True:
            outcome = self._end()
            if outcome is not None:
                return outcome
            if iterator is None:
                dataset = distribution.batches(
                    self._strategy, self._data, first_step=self._batches
                )
                iterator, train = iter(dataset), self._train_function(dataset.element_spec)
                self._watch.start()
            batch = next(iterator)
            with self._watch.step(_shape(batch)) as first_of_its_shape:
                train(batch)
                if first_of_its_shape:
                    self._totals_are_ready()
            self._batches += 1
            if self._batches % self.hp.gradient_accumulation_steps == 0:
                self.reporter.move(self.step)
                self._after_update()

    def _train_function(self, element_spec):
        """Compile one step and its sums into one graph, for batches of any length."""
        strategy, model, totals = self._strategy, self._model, self.totals
        accumulation = self.hp.gradient_accumulation_steps

        @tf.function(input_signature=[element_spec], autograph=False)
        def train(batch):
            results = strategy.run(model.train_step, args=(batch,))
            # Each replica holds the same sums, as they are reduced already.
            local = strategy.experimental_local_results
            totals.add(
                {name: local(value)[0] for name, value in results.items()},
                completes=model.batches % accumulation == 0 if accumulation > 1 else True,
            )

        return train

    def _totals_are_ready(self):
        self.totals.good.numpy()

    def _after_update(self):
        step = self.step
        if step % self.hp.max_bad_steps == 0 or step % self.hp.steps_per_stats == 0:
            self._stop_where_steps_are_bad()
        if step % self.hp.steps_per_stats == 0:
            self._report()
        if self.rule.is_evaluation(step):
            self._run_evaluation()
        if step % self._saves_every == 0 and not self._interruption.requested:
            if self._saved_batches != self._batches:
                self._save()

    def _end(self):
        """Return the Outcome where the run ends here, None where it goes on."""
        # Time and signals differ between processes: they decide together, now and then.
        together = not self._agreement.several or self.step % 10 == 0
        if together and self._agreement.any(self._interruption.requested):
            return Outcome(self.step, "interrupted", interrupted=True)
        known = {"progress": self.progress, "step": self.step}
        reason = self.rule.reason_to_stop(**known, seconds=0.0)
        if reason is None and together:
            timed = self.rule.reason_to_stop(**known, seconds=self._watch.total())
            if self._agreement.any(timed is not None):
                reason = timed or USED_UP_ELSEWHERE
        return None if reason is None else Outcome(self.step, reason)

    def _stop_where_steps_are_bad(self):
        if int(self.totals.most_bad_in_a_row) < self.hp.max_bad_steps:
            return
        folders = run_directory.listing(self.checkpoints.folder)
        last = f"the last good checkpoint is {folders[-1]}" if folders else "nothing was saved"
        raise UserError(
            f"the loss or its gradient was not finite in {int(self.totals.most_bad_in_a_row)}"
            f" updates in a row (max_bad_steps) before step {self.step}; {last}; a lower"
            " learning_rate or max_gradient_norm may help"
        )

    def _report(self):
        values = self.totals.report()
        values["pairs_per_second"] = self._watch.rate(values.pop("pairs"))
        batches_left = (
            self.rule.last_step() * self.hp.gradient_accumulation_steps - self._batches
        )
        seconds_left = self._watch.left(batches_left, max_minutes=self.hp.max_minutes)
        epoch = self._batches / self._data.batches_per_epoch
        self.reporter.report(self.step, values, epoch=epoch, seconds_left=seconds_left)
        self.totals.reset()
        self._watch.lap()

    def _evaluation_is_missing(self):
        """A run that was told to stop during an evaluation has it still to do."""
        return self.rule.is_evaluation(self.step) and self._evaluated != self.step

    def _run_evaluation(self):
        if self._saved_batches is None:
            self._save()  # so that best/ is never there without a checkpoint
        bleu = 0.0
        with self._watch.pause():
            evaluation = None
            if self.is_chief:
                evaluation = self._evaluate(self.step, lambda: self._interruption.requested)
            if self._agreement.any(self.is_chief and evaluation is None):
                return
            bleu = self._agreement.from_chief(evaluation.bleu if evaluation else 0.0)
            self._evaluated = self.step
            gained = self.rule.record(self.progress, step=self.step, bleu=bleu)
            if self.is_chief:
                self.reporter.evaluation(self.step, evaluation, gained=gained)
                if gained:
                    self.checkpoints.save_best(self.step, evaluation.values)
        if self._saved_batches == self._batches:
            self._save()  # the checkpoint of this step knows nothing of the evaluation

    def _final_evaluation_is_missing(self):
        """The end of a run is always evaluated."""
        return bool(self._evaluate is not None and self.step and self._evaluated != self.step)

    def _save(self):
        self._saved_batches = self._batches
        if not self.is_chief:
            return
        with self._watch.pause():
            self.checkpoints.save(
                self.step,
                {
                    "data_position": self._batches,
                    "random_state": {"seed": self.hp.random_seed, "batches": self._batches},
                    "last_evaluation": self._evaluated,
                    "progress": self.progress.to_dict(),
                    "clock": self._watch.state(),
                },
            )


def _shape(batch):
    """Return what distinguishes the batches of one bucket from those of another."""
    x = tf.nest.flatten(batch["x"], expand_composites=True)[0]
    y = tf.nest.flatten(batch["y"], expand_composites=True)[0]
    return tuple(x.shape), tuple(y.shape)
