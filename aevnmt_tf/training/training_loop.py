"""The one training loop, for every strategy.

    batch -> strategy.run(model.train_on) -> running sums
    every steps_per_stats steps a report, every steps_per_external_eval steps an evaluation,
    every steps_per_checkpoint steps a checkpoint, in this order

A step is one update; with gradient accumulation it takes several batches. What comes next
depends only on the number of batches and on the state in checkpoints.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from aevnmt_tf import model as models
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data.training_data import TrainingData
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage import run_directory
from aevnmt_tf.training import distribution, report_keys
from aevnmt_tf.training.checkpoints import Checkpoints
from aevnmt_tf.training.dev_evaluation import DevEvaluation
from aevnmt_tf.training.optimizer import averaged_weights
from aevnmt_tf.training.reporting import Reporter
from aevnmt_tf.training.running_sums import RunningSums
from aevnmt_tf.training.stopping import Convergence, Interruption, StoppingRule
from aevnmt_tf.training.throughput import Stopwatch
from aevnmt_tf.training.train_step import TrainableAevnmt

# A reason to stop begins with the name of its setting.
USED_UP_ELSEWHERE = "max_minutes is used up in another process"


@dataclass
class TrainingOutcome:
    """How a run ended: the step, the reason, and whether it was a signal."""

    step: int
    reason: str
    interrupted: bool = False


Evaluate = Callable[[int, Callable[[], bool]], DevEvaluation | None]


class TrainingLoop:
    """Trains a model that was built under `strategy`, reports, evaluates and saves checkpoints.

    `evaluate` is called with (step, interrupted) and returns a DevEvaluation, or None if
    `interrupted()` became true. Without a development set it is None.
    """

    def __init__(
        self,
        hp: Hparams,
        *,
        strategy: tf.distribute.Strategy,
        model: TrainableAevnmt,
        data: TrainingData,
        reporter: Reporter,
        evaluate: Evaluate | None = None,
    ) -> None:
        self.hp = hp
        self.rule = StoppingRule.of(hp, has_dev=evaluate is not None)
        self.progress = Convergence()
        self.totals = RunningSums(report_keys.names_for(model))
        self.is_chief = distribution.is_chief(strategy)
        self.num_replicas = strategy.num_replicas_in_sync
        self.reporter = reporter
        self._saves_every = hp.steps_per_checkpoint or 10 * hp.steps_per_stats
        self.checkpoints = Checkpoints(
            Path(hp.out_dir),
            model=model,
            trackables={"optimizer": model.optimizer, "totals": self.totals} | model.counters(),
            keep=hp.num_keep_ckpts,
            every=self._saves_every,
        )
        self._strategy, self._model, self._data = strategy, model, data
        self._evaluate = evaluate
        self._agreement = distribution.Agreement(strategy)
        self._watch = Stopwatch()
        self._interruption = Interruption()
        self._batches = 0  # seen so far: the position in the data
        self._saved_batches: int | None = None  # those of the newest checkpoint
        self._evaluated: int | None = None  # the step of the last evaluation

    @property
    def step(self) -> int:
        """The number of updates so far."""
        return self._batches // self.hp.gradient_accumulation_steps

    def seconds(self) -> float:
        """Return the seconds of the whole run, restarts included."""
        return self._watch.total()

    def build_model(self) -> models.Aevnmt:
        """Return a new model like the one in training, outside of the strategy."""
        return models.Aevnmt.from_config(self._model.get_config())

    def resume(self) -> bool:
        """Continue from the newest intact checkpoint; return whether there was one."""
        if self.is_chief:
            self.checkpoints.tidy()
        # Before restoring, in which all processes take part as well.
        steps = map(run_directory.step_of, run_directory.listing(self.checkpoints.folder))
        self._agreement.refuse_different_starts(max((step or 0 for step in steps), default=0))
        self._agreement.refuse_different_text(self._data.digests.values())
        with self._strategy.scope():
            state = self.checkpoints.restore(report=self.reporter.say, set_aside=self.is_chief)
        restored = [*self._model.variables, *self._model.optimizer.variables]
        position = 0 if state is None else state["data_position"]
        self._agreement.refuse_different_starts(position, restored)
        if state is None:
            self.reporter.cut_back(0)
            return False
        self._batches = self._saved_batches = position
        self._evaluated = state["last_evaluation"]
        self.progress = Convergence(**state["progress"])
        self._watch.restore(state["clock"])
        self.reporter.cut_back(self.step, evaluated=self._evaluated == self.step)
        self.reporter.say(f"resumed at step {self.step}")
        # Older checkpoints do not have training_text, and a path may be spelt differently now.
        before = state.get("training_text", {}).values()
        for (name, digest), old in zip(self._data.digests.items(), before, strict=False):
            if old != digest:
                self.reporter.say(
                    f"{name} has changed since the last checkpoint; training goes on with the"
                    " text as it is now"
                )
        return True

    def run(self) -> TrainingOutcome:
        """Train until early stopping, the budget or a signal ends the run."""
        lost = distribution.lost_workers_explained(self._strategy)
        with self._interruption, self.reporter.bar(self.step), lost:
            outcome = self._train()
            if not outcome.interrupted and self._final_evaluation_is_missing():
                self._run_evaluation()
                outcome.interrupted = self._final_evaluation_is_missing()
            if self._saved_batches != self._batches:
                self._save()
            # No process ends before the chief has saved: Slurm ends a job with its first one.
            self._agreement.any(False)
        return outcome

    def _train(self) -> TrainingOutcome:
        iterator: Any = None
        train: Any = None
        if self.rule.is_evaluation(self.step) and self._evaluated != self.step:
            self._run_evaluation()  # the run was stopped during this evaluation
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
                    self.totals.good.numpy()  # waits for the step
            self._batches += 1
            if self._batches % self.hp.gradient_accumulation_steps == 0:
                self.reporter.move(self.step)
                self._after_update()

    def _train_function(self, element_spec: Any) -> Callable[[Any], None]:
        """Return a graph of one step and its running sums, for batches of any length."""
        strategy, model, totals = self._strategy, self._model, self.totals
        accumulation = self.hp.gradient_accumulation_steps

        @tf.function(input_signature=[element_spec], autograph=False)
        def train(batch: Any) -> None:
            results = strategy.run(model.train_on, args=(batch,))
            # The sums are the same on each replica, because they are reduced already.
            local = strategy.experimental_local_results
            totals.add(
                {name: local(value)[0] for name, value in results.items()},
                completes=model.batches % accumulation == 0 if accumulation > 1 else True,
            )

        return train

    def _after_update(self) -> None:
        step = self.step
        if step % self.hp.max_bad_steps == 0 or step % self.hp.steps_per_stats == 0:
            self._refuse_bad_updates()
        if step % self.hp.steps_per_stats == 0:
            self._report()
        if self.rule.is_evaluation(step):
            self._run_evaluation()
        if step % self._saves_every == 0 and not self._interruption.requested:
            if self._saved_batches != self._batches:
                self._save()

    def _end(self) -> TrainingOutcome | None:
        """Return the outcome if the run ends here, None if it continues."""
        # Time and signals differ between processes, so they decide together, every few steps.
        together = not self._agreement.several or self.step % 10 == 0
        if together and self._agreement.any(self._interruption.requested):
            return TrainingOutcome(self.step, "interrupted", interrupted=True)
        known: dict[str, Any] = {"progress": self.progress, "step": self.step}
        reason = self.rule.reason_to_stop(**known, seconds=0.0)
        if reason is None and together:
            timed = self.rule.reason_to_stop(**known, seconds=self._watch.total())
            if self._agreement.any(timed is not None):
                reason = timed or USED_UP_ELSEWHERE
        return None if reason is None else TrainingOutcome(self.step, reason)

    def _refuse_bad_updates(self) -> None:
        bad = int(self.totals.most_bad_in_a_row)
        if bad < self.hp.max_bad_steps:
            return
        folders = run_directory.listing(self.checkpoints.folder)
        last = f"the last good checkpoint is {folders[-1]}" if folders else "nothing was saved"
        raise UserError(
            f"the loss or its gradient was not finite in {bad} updates in a row (max_bad_steps)"
            f" before step {self.step}; {last}; a lower learning_rate or max_gradient_norm may"
            " help."
        )

    def _report(self) -> None:
        values = self.totals.report()
        counters = self._model.counters()
        if "mdr_weight" in counters:
            values["mdr_weight"] = float(counters["mdr_weight"])
        values["pairs_per_second"] = self._watch.rate(values.pop("pairs"))
        last_batch = self.rule.last_step() * self.hp.gradient_accumulation_steps
        batches_left = last_batch - self._batches
        seconds_left = self._watch.left(batches_left, max_minutes=self.hp.max_minutes)
        epoch = self._batches / self._data.batches_per_epoch
        self.reporter.report(self.step, values, epoch=epoch, seconds_left=seconds_left)
        self.totals.reset()
        self._watch.lap()

    def _run_evaluation(self) -> None:
        if self._saved_batches is None:
            self._save()  # so that best/ never exists without a checkpoint
        averaged = averaged_weights(
            self._model.optimizer, self._model.trainable_variables, strategy=self._strategy
        )
        with self._watch.pause(), averaged:
            evaluation = None
            if self.is_chief and self._evaluate is not None:
                evaluation = self._evaluate(self.step, lambda: self._interruption.requested)
            if self._agreement.any(self.is_chief and evaluation is None):
                return
            score = evaluation.values["dev_bleu"] if evaluation else 0.0
            bleu = self._agreement.from_chief(score)
            self._evaluated = self.step
            improved = self.rule.record(self.progress, step=self.step, bleu=bleu)
            if evaluation is not None:
                self.reporter.evaluation(self.step, evaluation, improved=improved)
                if improved:
                    self.checkpoints.save_best(self.step, evaluation.values)
        if self._saved_batches == self._batches:
            self._save()  # again, because the checkpoint of this step lacks the evaluation

    def _final_evaluation_is_missing(self) -> bool:
        """Return whether the last step, which is always evaluated, was not evaluated yet."""
        return bool(self._evaluate is not None and self.step and self._evaluated != self.step)

    def _save(self) -> None:
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
                    "progress": asdict(self.progress),
                    "clock": self._watch.state(),
                    "training_text": self._data.digests,
                },
            )


def _shape(batch: Any) -> tuple[tuple[int | None, ...], ...]:
    """Return the padded shapes of a batch, which differ between buckets."""
    x, y = (tf.nest.flatten(batch[side], expand_composites=True)[0] for side in "xy")
    return tuple(x.shape), tuple(y.shape)
