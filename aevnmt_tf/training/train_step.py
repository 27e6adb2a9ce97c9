"""The one training step.

    noise -> loss terms -> objective -> gradients of the SUM over the batch (XLA may compile
    this part) -> sum over replicas -> division by the global count and clipping by global
    norm, in one factor -> update

The loop runs `strategy.run(model.train_on)`, which returns sums; `model.fit(dataset)` runs the
same method and shows Keras' means of these sums.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf import model as models
from aevnmt_tf.data.batches import without_targets
from aevnmt_tf.data.corpora import prefixes
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.model import importance, objective
from aevnmt_tf.model.objective import LossTerms
from aevnmt_tf.nets import noise as random_numbers
from aevnmt_tf.nets.mean_normalisation import sum_over_replicas
from aevnmt_tf.training import report_keys, schedules
from aevnmt_tf.training.optimizer import ACCUMULATE, APPLY, OPTIMIZERS, SKIP, clip_scale
from aevnmt_tf.training.running_sums import SUMMED_IF_THERE, Sums, sums_of

Batch = models.Batch
# What `fit` shows, and the count that each number is a mean over.
FIT_MEANS = dict.fromkeys(("loss", "elbo", "nll_x", "nll_y", "kl", "r_divergence"), "pairs")
FIT_MEANS |= dict.fromkeys(SUMMED_IF_THERE, "pairs")
FIT_MEANS |= {"accuracy_x": "x_tokens", "accuracy_y": "y_tokens"}
COUNTERS = ("batches", "updates", "pending_pairs", "mdr_weight")


@keras.saving.register_keras_serializable("aevnmt_tf")
class TrainableAevnmt(models.Aevnmt):
    """An Aevnmt that can train itself. Call `prepare_training` before the first step."""

    takes_several_draws = False
    mono_corpus: int | None = None  # the corpus of sentences without a translation
    mdr_weight: tf.Variable | None = None  # the Lagrange multiplier of mdr_rate
    consistency_weight: float | None = None  # None: one pass per update

    def prepare_training(self, hp: Hparams, *, jit_compile: bool) -> None:
        """Set the objective and create every variable that training needs.

        With `jit_compile`, XLA compiles loss and gradients.
        """
        self.hp, self.uses_xla = hp, jit_compile
        self.objective = objective_of(hp)
        self.consistency_weight = hp.consistency_weight or None
        several = hp.num_train_samples > 1 or hp.objective == "iwae"
        self.takes_several_draws = several and self.posterior is not None
        # Sentences without a translation are the corpus after those of train_prefix.
        num_translated = max(1, len(prefixes(hp.train_prefix)))
        self.mono_corpus = None if hp.mono_prefix is None else num_translated
        self.gradients: Callable[..., Any] = self.loss_and_gradients
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        # TensorFlow cannot sum bn_scale's statistics over replicas inside a nested function.
        if replicas == 1 or not self._statistics():
            compiled = tf.function(jit_compile=jit_compile, autograph=False)
            self.gradients = compiled(self.loss_and_gradients)
        self.batches = _scalar("batches", tf.int64)  # seen: the position in data and noise
        self.updates = _scalar("updates", tf.int64)  # done; a skipped one counts as well
        self.pending_pairs = _scalar("pending_pairs", tf.float32)
        if hp.mdr_rate and self.posterior is not None:
            self.mdr_weight = _scalar("mdr_weight", tf.float32)
        names = report_keys.names_for(self)
        fit_means = [keras.metrics.Mean(name=name) for name in FIT_MEANS if name in names]
        # Keras tracks no new state in a model that is built, and would save these as weights.
        object.__setattr__(self, "fit_means", fit_means)
        # DEVIATION: the paper and the authors' code evaluate the weights themselves, as we do
        # unless ema_decay says otherwise.
        average = {"use_ema": True, "ema_momentum": hp.ema_decay} if hp.ema_decay else {}
        optimizer = OPTIMIZERS[hp.optimizer](
            hp.learning_rate, accumulates=hp.gradient_accumulation_steps > 1, **average
        )
        # XLA compiles only the part that gains from it, which is `gradients`.
        self.compile(optimizer=optimizer, jit_compile=False)
        optimizer.build(self.trainable_variables)

    def counters(self) -> dict[str, tf.Variable]:
        """Return what training has counted and learned besides the weights, by name."""
        found = {name: getattr(self, name) for name in COUNTERS}
        return {name: variable for name, variable in found.items() if variable is not None}

    def _statistics(self) -> list[keras.Variable]:
        """Return the moving statistics of bn_scale, which the forward pass updates."""
        return [] if self.posterior is None else self.posterior.non_trainable_variables

    def get_compile_config(self) -> dict[str, Any]:
        """Return what a .keras file needs to continue training."""
        if not self.compiled:
            return {}
        counted = {name: variable.numpy().item() for name, variable in self.counters().items()}
        return {"hparams": self.hp.to_dict(), "jit_compile": self.uses_xla, **counted}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Prepare training as it was when the file was written."""
        self.prepare_training(Hparams(config["hparams"]), jit_compile=config["jit_compile"])
        for name, variable in self.counters().items():
            variable.assign(config[name])

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The means that `fit` and `evaluate` show; Keras resets them."""
        return list(getattr(self, "fit_means", ()))

    def train_step(self, batch: Batch) -> Sums:
        """Train on a batch; return means over the batches of the epoch so far, for `fit`."""
        return self._shown(self.train_on(batch))

    def test_step(self, batch: Batch) -> Sums:
        """Measure a batch; return means over the batches so far, for `fit` and `evaluate`."""
        return self._shown(self.measure(batch))

    def _shown(self, totals: Sums) -> Sums:
        totals = totals | {
            "elbo": -(totals["nll_x"] + totals["nll_y"] + totals["kl"]),
            "accuracy_x": totals["correct_x"],
            "accuracy_y": totals["correct_y"],
        }
        for mean in self.fit_means:
            count = totals[FIT_MEANS[mean.name]]
            value = tf.math.divide_no_nan(totals[mean.name], count)
            mean.update_state(value, sample_weight=count)
        return self.get_metrics_result()

    def loss_and_gradients(
        self, batch: Batch, noise: Batch, kl_weight: tf.Tensor
    ) -> tuple[Sums, list[tf.Tensor]]:
        """Return sums over the batch for a report, and the gradients of the summed loss."""
        with tf.GradientTape() as tape:
            terms, loss = self.terms_and_loss(batch, noise, kl_weight)
            if self.mdr_weight is not None:
                rate, multiplier = self.hp.mdr_rate, self.mdr_weight.read_value()
                loss += objective.rate_penalty(terms, multiplier=multiplier, rate=rate)
            totals = sums_of(batch, terms, loss)
        return totals, tape.gradient(totals["loss"], self.trainable_variables)

    def terms_and_loss(
        self, batch: Batch, noise: Batch, kl_weight: tf.Tensor
    ) -> tuple[LossTerms, tf.Tensor]:
        """Return the terms of the objective, averaged over the draws of z, and the loss [B]."""
        if self.takes_several_draws:
            epsilon = noise["epsilon"]
            draws = importance.weigh(self, batch, epsilon, own_proposal=False, noise=noise)
            terms = LossTerms(*(tf.reduce_mean(term, axis=0) for term in draws.terms))
            if self.hp.objective == "iwae":
                weights = extra_weights(self.hp)
                return terms, importance.iwae_loss(draws, kl_weight=kl_weight, **weights)
        else:
            terms = self.loss_terms(batch, noise, twins=self.consistency_weight is not None)
        return terms, self.objective(terms, kl_weight=kl_weight, weight=batch["weight"])

    def noise(self, batch: Batch, step: tf.Tensor | int) -> Batch:
        """Return the random numbers of a step; epsilon is [K, B, N] for several draws of z."""
        noise = dict(super().noise(batch, step))
        if self.takes_several_draws:
            draws = (self.hp.num_train_samples,)
            epsilon = self._epsilon(batch["row"], "epsilon", step=step, draws=draws)
            noise["epsilon"] = tf.transpose(epsilon, [1, 0, 2])
        return noise

    def _epsilon(
        self,
        rows: tf.Tensor,
        stream: str,
        *,
        step: tf.Tensor | int,
        draws: tuple[int, ...] = (),
    ) -> tf.Tensor:
        """Return the standard normal numbers [B, *draws, N] for z of rows of a global batch."""
        return random_numbers.normal(
            (*draws, self.posterior.noise_size),  # type: ignore[union-attr]  # there is a z
            seed=random_numbers.seed_for(stream, seed=self.seed, step=step),
            rows=rows,
            num_rows=self.num_rows,
        )

    def _kl_weight(self) -> tf.Tensor:
        return schedules.kl_weight(
            self.updates.read_value(), self.hp.KL_annealing_steps, self.hp.KL_annealing_cycles
        )

    def train_on(self, batch: Batch) -> Sums:
        """Train on one batch: an update, or a part of one if gradients are accumulated.

        Returns:
            Sums over the global batch (see `sums_of`), gradient_norm, kl_weight, learning_rate
            and `skipped`, which is 1 if the loss or the gradient was not finite. A skipped
            batch changes nothing but the counts of batches and updates.
        """
        if self.mono_corpus is not None:
            batch = without_targets(batch, corpus=self.mono_corpus)
        if self.consistency_weight is not None:
            batch = with_twins(batch, num_rows=self.num_rows // 2)
        hp, kl_weight = self.hp, self._kl_weight()
        learning_rate = schedules.learning_rate(
            self.updates.read_value(),
            base=hp.learning_rate,
            warmup_steps=hp.warmup_steps,
            decay_scheme=hp.decay_scheme,
            num_train_steps=hp.num_train_steps,
        )
        statistics_before = [tf.identity(variable) for variable in self._statistics()]
        totals, gradients = self.gradients(batch, self.noise(batch, self.batches), kl_weight)
        totals, gradients = sum_over_replicas((totals, gradients))
        gradients = self.optimizer.totals(gradients)
        pairs = self.pending_pairs + totals["pairs"]
        norm = tf.linalg.global_norm(gradients) / pairs
        finite = tf.math.is_finite(norm) & tf.math.is_finite(totals["loss"])
        for variable, before in zip(self._statistics(), statistics_before, strict=True):
            variable.assign(tf.where(finite, variable, before))
        complete = (self.batches + 1) % hp.gradient_accumulation_steps == 0
        action = tf.where(finite, tf.where(complete, APPLY, ACCUMULATE), SKIP)
        self.optimizer.update(
            gradients,
            self.trainable_variables,
            scale=clip_scale(norm, hp.max_gradient_norm) / pairs,
            action=action,
            learning_rate=learning_rate,
        )
        self._count(totals, pairs=pairs, action=action, complete=complete)
        return {
            **{name: tf.where(finite, total, 0.0) for name, total in totals.items()},
            "gradient_norm": tf.where(finite, norm, 0.0),
            "kl_weight": kl_weight,
            "learning_rate": learning_rate,
            "skipped": 1.0 - tf.cast(finite, tf.float32),
        }

    def _count(
        self, totals: Sums, *, pairs: tf.Tensor, action: tf.Tensor, complete: tf.Tensor
    ) -> None:
        """Update the counters after a batch."""
        if self.mdr_weight is not None:
            # Gradient ascent on the Lagrangian; a multiplier is never negative.
            missing = self.hp.mdr_rate - totals["kl"] / totals["pairs"]
            moved = tf.maximum(0.0, self.mdr_weight + self.hp.mdr_step * missing)
            self.mdr_weight.assign(tf.where(action == APPLY, moved, self.mdr_weight))
        if self.hp.gradient_accumulation_steps > 1:
            kept = tf.where(action == SKIP, self.pending_pairs, pairs)
            self.pending_pairs.assign(tf.where(action == APPLY, 0.0, kept))
        # Only after the batch: where `fit` runs out of data, TensorFlow would count one more.
        with tf.control_dependencies([action]):
            self.batches.assign_add(1)
            self.updates.assign_add(tf.cast(complete, tf.int64))

    def measure(self, batch: Batch) -> Sums:
        """Return sums over the global batch, at one draw of z with a fixed seed, no dropout."""
        noise = {}
        if self.posterior is not None:
            # An evaluation batch has rows of the whole set, and -1 for its fillers.
            rows = batch["row"] % self.num_rows
            noise["epsilon"] = self._epsilon(rows, "test_step", step=0)
        terms = self.loss_terms(batch, noise)
        loss = self.objective(terms, kl_weight=self._kl_weight(), weight=batch["weight"])
        return sum_over_replicas(sums_of(batch, terms, loss))


def objective_of(hp: Hparams) -> Callable[..., tf.Tensor]:
    """Return the loss that training minimises: called with LossTerms, kl_weight and weight."""
    options = {"free_bits": hp.free_bits, "free_bits_for": hp.free_bits_for}
    return functools.partial(objective.loss, **options, **extra_weights(hp))


def extra_weights(hp: Hparams) -> dict[str, Any]:
    """Return the weights of the terms besides the bound, as objective.extras calls them."""
    return {
        "bow_x_weight": hp.bow_source_weight,
        "bow_y_weight": hp.bow_target_weight,
        "consistency_weight": hp.consistency_weight,
    }


def with_twins(batch: Batch, *, num_rows: int) -> Batch:
    """Return every pair of a batch twice, as two halves of 2 B rows, each with half its weight.

    The copies have rows of their own in a global batch of 2 num_rows, so their noise differs.
    """
    copy = {**batch, "row": batch["row"] + num_rows}
    twins = {name: tf.concat([batch[name], copy[name]], axis=0) for name in batch}
    return {**twins, "weight": 0.5 * twins["weight"]}


def _scalar(name: str, dtype: tf.DType) -> tf.Variable:
    """Return a variable of value 0 that is the same on all replicas."""
    return tf.Variable(
        0,
        dtype=dtype,
        trainable=False,
        name=name,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def resolve_jit(setting: str) -> bool:
    """Return whether to compile with XLA: `auto` compiles on a GPU and not on a CPU.

    On a CPU, a compiled step took 7 % longer, and compilation a minute.
    """
    if setting == "auto":
        return bool(tf.config.list_logical_devices("GPU"))
    return setting == "true"


def build(hp: Hparams, x_vocab_size: int, y_vocab_size: int) -> TrainableAevnmt:
    """Return a model ready to train; call it inside the strategy's scope."""
    keras.utils.set_random_seed(hp.random_seed)
    keras.config.set_dtype_policy(hp.precision)
    jit = resolve_jit(hp.jit_compile)
    model = models.build(hp, x_vocab_size, y_vocab_size, packed=not jit, cls=TrainableAevnmt)
    model.prepare_training(hp, jit_compile=jit)
    return model
