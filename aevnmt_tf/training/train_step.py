"""The one training step.

    noise -> loss terms -> objective -> gradients of the SUM over the batch (XLA may compile
    this part) -> all-reduce -> division by the global count and clipping by global norm, one
    factor -> update

The loop runs `strategy.run(model.train_on)`, which returns sums; `model.fit(dataset)` runs the
same method and shows Keras' means of these sums.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf import hparams
from aevnmt_tf import model as models
from aevnmt_tf.data.monolingual import without_targets
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.model import importance, objective
from aevnmt_tf.model.objective import LossTerms
from aevnmt_tf.nets import noise as random_numbers
from aevnmt_tf.nets.mean_normalisation import sum_over_replicas
from aevnmt_tf.training import report_keys, schedules
from aevnmt_tf.training.optimizer import ACCUMULATE, APPLY, OPTIMIZERS, SKIP
from aevnmt_tf.training.running_sums import SUMMED_IF_THERE, Sums, sums_of

Batch = models.Batch
# What `fit` shows, and what each number is a mean over.
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
        """Set the objective and the schedules; create every variable that training needs.

        Args:
            hp: the settings.
            jit_compile: whether XLA compiles loss and gradients.
        """
        self._settings = {"hparams": hp.to_dict(), "jit_compile": jit_compile}
        self.max_gradient_norm = hp.max_gradient_norm
        self.accumulation = hp.gradient_accumulation_steps
        self.kl_weight = functools.partial(
            schedules.kl_weight,
            annealing_steps=hp.KL_annealing_steps,
            cycles=hp.KL_annealing_cycles,
        )
        self.learning_rate = functools.partial(
            schedules.learning_rate,
            base=hp.learning_rate,
            warmup_steps=hp.warmup_steps,
            warmup_scheme=hp.warmup_scheme,
            decay_scheme=hp.decay_scheme,
            num_train_steps=hp.num_train_steps,
        )
        self.objective = objective_of(hp)
        self.num_train_samples = hp.num_train_samples
        self.is_importance_weighted = hp.objective == "iwae"
        self.iwae_loss: Callable[..., tf.Tensor] = functools.partial(
            importance.iwae_loss, **extra_weights(hp)
        )
        self.consistency_weight = hp.consistency_weight or None
        several = self.num_train_samples > 1 or self.is_importance_weighted
        self.takes_several_draws = several and self.posterior is not None
        self.gradients: Callable[..., Any] = self.loss_and_gradients
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        # TensorFlow cannot sum bn_scale's statistics over replicas inside a nested function.
        if replicas == 1 or not self._statistics():
            self.gradients = tf.function(
                self.loss_and_gradients, jit_compile=jit_compile, autograph=False
            )
        self.batches = _counter("batches")  # seen, the position in the data and in the noise
        self.updates = _counter("updates")  # done; one left out (not finite) counts
        self.pending_pairs = tf.Variable(0.0, trainable=False, name="pending_pairs")
        if hp.mdr_rate and self.posterior is not None:
            self.mdr_rate, self.mdr_step = hp.mdr_rate, hp.mdr_step
            self.mdr_weight = tf.Variable(
                0.0,
                trainable=False,
                name="mdr_weight",
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )
        # Corpora are numbered; sentences without a translation follow the training pairs.
        num_gold = len(hp.train_prefix) if isinstance(hp.train_prefix, tuple) else 1
        self.mono_corpus = None if hp.mono_prefix is None else num_gold
        names = report_keys.names_for(self)
        fit_means = [keras.metrics.Mean(name=name) for name in FIT_MEANS if name in names]
        # Keras tracks no new state in a model that is built, and would save these as weights.
        object.__setattr__(self, "fit_means", fit_means)
        # DEVIATION: the paper and the authors' code evaluate the weights themselves, as we do
        # unless ema_decay says otherwise.
        average = {"use_ema": True, "ema_momentum": hp.ema_decay} if hp.ema_decay else {}
        optimizer = OPTIMIZERS[hp.optimizer](
            hp.learning_rate, accumulates=self.accumulation > 1, **average
        )
        # XLA: only the part that gains from it is compiled, in `gradients`.
        self.compile(optimizer=optimizer, jit_compile=False)
        optimizer.build(self.trainable_variables)

    def _statistics(self) -> list[keras.Variable]:
        """Return the moving statistics of bn_scale, which the forward pass updates."""
        return [] if self.posterior is None else self.posterior.non_trainable_variables

    def counters(self) -> dict[str, tf.Variable]:
        """Return what training has counted and learned besides the weights, by name."""
        found = {name: getattr(self, name) for name in COUNTERS}
        return {name: variable for name, variable in found.items() if variable is not None}

    def get_compile_config(self) -> dict[str, Any]:
        """Return what a .keras file needs to go on with training."""
        if not self.compiled:
            return {}
        return self._settings | {
            name: variable.numpy().item() for name, variable in self.counters().items()
        }

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Prepare training as it was when the file was written."""
        hp = hparams.Hparams(config["hparams"])
        self.prepare_training(hp, jit_compile=config["jit_compile"])
        for name, variable in self.counters().items():
            variable.assign(config[name])

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The means that `fit` and `evaluate` show; Keras resets them."""
        return list(getattr(self, "fit_means", ()))

    def train_step(self, batch: Batch) -> Sums:
        """Train on a batch; return means over all batches of the epoch, for `fit`."""
        return self._shown(self.train_on(batch))

    def test_step(self, batch: Batch) -> Sums:
        """Measure a batch; return means over all batches so far, for `fit` and `evaluate`."""
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
        """Return sums over the batch of what a report needs, and gradients of the loss' sum."""
        with tf.GradientTape() as tape:
            terms, loss = self.terms_and_loss(batch, noise, kl_weight)
            if self.mdr_weight is not None:
                multiplier = self.mdr_weight.read_value()
                loss += objective.rate_penalty(terms, multiplier=multiplier, rate=self.mdr_rate)
            totals = sums_of(batch, terms, loss)
        return totals, tape.gradient(totals["loss"], self.trainable_variables)

    def terms_and_loss(
        self, batch: Batch, noise: Batch, kl_weight: tf.Tensor
    ) -> tuple[LossTerms, tf.Tensor]:
        """Return the terms of the objective, means over the draws of z, and the loss [B]."""
        if not self.takes_several_draws:
            terms = self.loss_terms(batch, noise, twins=self.consistency_weight is not None)
            return terms, self.objective(terms, kl_weight=kl_weight, weight=batch["weight"])
        draws = importance.weigh(self, batch, noise["epsilon"], own_proposal=False, noise=noise)
        terms = LossTerms(*(tf.reduce_mean(term, axis=0) for term in draws.terms))
        if self.is_importance_weighted:
            return terms, self.iwae_loss(draws, kl_weight=kl_weight)
        return terms, self.objective(terms, kl_weight=kl_weight, weight=batch["weight"])

    def noise(self, batch: Batch, step: tf.Tensor | int) -> Batch:
        """Return the random numbers of a step; epsilon is [K, B, N] for several draws of z."""
        noise = dict(super().noise(batch, step))
        if self.takes_several_draws:
            noise["epsilon"] = tf.transpose(
                random_numbers.normal(
                    (self.num_train_samples, self.posterior.noise_size),  # type: ignore[union-attr]
                    seed=random_numbers.seed_for("epsilon", seed=self.seed, step=step),
                    rows=batch["row"],
                    num_rows=self.num_rows,
                ),
                [1, 0, 2],
            )
        return noise

    def train_on(self, batch: Batch) -> Sums:
        """Train on one batch: an update, or a part of one where gradients are accumulated.

        Returns:
            Sums over the global batch (see `sums_of`), and gradient_norm, kl_weight,
            learning_rate and `skipped`: 1 where loss or gradient was not finite and nothing
            was changed.
        """
        if self.mono_corpus is not None:
            batch = without_targets(batch, corpus=self.mono_corpus)
        if self.consistency_weight is not None:
            batch = with_twins(batch, num_rows=self.num_rows // 2)
        kl_weight = self.kl_weight(self.updates.read_value())
        learning_rate = self.learning_rate(self.updates.read_value())
        noise = self.noise(batch, self.batches)
        statistics_before = [tf.identity(variable) for variable in self._statistics()]
        totals, gradients = self.gradients(batch, noise, kl_weight)
        totals, gradients = sum_over_replicas((totals, gradients))
        gradients = self.optimizer.totals(gradients)
        pairs = self.pending_pairs + totals["pairs"]
        norm = tf.linalg.global_norm(gradients) / pairs
        finite = tf.math.is_finite(norm) & tf.math.is_finite(totals["loss"])
        for variable, before in zip(self._statistics(), statistics_before, strict=True):
            variable.assign(tf.where(finite, variable, before))
        complete = (self.batches + 1) % self.accumulation == 0
        action = tf.where(complete, APPLY, ACCUMULATE)
        action = tf.where(finite, action, SKIP)
        self.optimizer.update(
            gradients,
            self.trainable_variables,
            scale=clip_scale(norm, self.max_gradient_norm) / pairs,
            action=action,
            learning_rate=learning_rate,
        )
        if self.mdr_weight is not None:
            # Gradient ascent on the Lagrangian; a multiplier is never negative.
            missing = self.mdr_rate - totals["kl"] / totals["pairs"]
            moved = tf.maximum(0.0, self.mdr_weight + self.mdr_step * missing)
            self.mdr_weight.assign(tf.where(action == APPLY, moved, self.mdr_weight))
        if self.accumulation > 1:
            kept = tf.where(finite, pairs, self.pending_pairs)
            self.pending_pairs.assign(tf.where(action == APPLY, 0.0, kept))
        # Only after the batch: where `fit` runs out of data, TensorFlow would count one more.
        with tf.control_dependencies([finite]):
            self.batches.assign_add(1)
            self.updates.assign_add(tf.cast(complete, tf.int64))
        skipped = 1.0 - tf.cast(finite, tf.float32)
        finite_totals = tf.nest.map_structure(lambda t: tf.where(finite, t, 0.0), totals)
        return {
            **finite_totals,
            "gradient_norm": tf.where(finite, norm, 0.0),
            "kl_weight": kl_weight,
            "learning_rate": learning_rate,
            "skipped": skipped,
        }

    def measure(self, batch: Batch) -> Sums:
        """Return sums over the global batch, at one draw of z with a fixed seed, no dropout."""
        noise = {}
        if self.posterior is not None:
            seed = random_numbers.seed_for("test_step", seed=self.seed, step=0)
            noise["epsilon"] = random_numbers.normal(
                (self.posterior.noise_size,),
                seed=seed,
                # An evaluation batch has rows of the whole set, and -1 for its fillers.
                rows=batch["row"] % self.num_rows,
                num_rows=self.num_rows,
            )
        terms = self.loss_terms(batch, noise)
        kl_weight = self.kl_weight(self.updates.read_value())
        loss = self.objective(terms, kl_weight=kl_weight, weight=batch["weight"])
        return sum_over_replicas(sums_of(batch, terms, loss))


def objective_of(hp: Hparams) -> Callable[..., tf.Tensor]:
    """Return `loss`, what training minimises: called with LossTerms, kl_weight and weight."""
    return functools.partial(
        objective.loss,
        free_bits=hp.free_bits,
        free_bits_for=hp.free_bits_for,
        **extra_weights(hp),
    )


def extra_weights(hp: Hparams) -> dict[str, Any]:
    """Return the weights of terms besides the bound, as objective.extras calls them."""
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


def _counter(name: str) -> tf.Variable:
    return tf.Variable(
        0,
        dtype=tf.int64,
        trainable=False,
        name=name,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def clip_scale(norm: tf.Tensor, limit: float | None) -> tf.Tensor:
    """Return the factor that brings gradients of this global norm to at most `limit`."""
    return tf.constant(1.0) if not limit else tf.minimum(1.0, limit / tf.maximum(norm, 1e-30))


def resolve_jit(setting: str | bool | None) -> bool:
    """Return whether to compile with XLA: `auto` compiles on a GPU and not on a CPU.

    On a CPU a compiled step was measured to take 7 % longer, and its compilation a minute.
    """
    if setting in ("auto", None):
        return bool(tf.config.list_logical_devices("GPU"))
    return setting in (True, "true")


def build(hp: Hparams, x_vocab_size: int, y_vocab_size: int) -> TrainableAevnmt:
    """Return a model ready to train; to be called inside the strategy's scope."""
    keras.utils.set_random_seed(hp.random_seed)
    keras.config.set_dtype_policy(hp.precision)
    jit = resolve_jit(hp.jit_compile)
    model = models.build(hp, x_vocab_size, y_vocab_size, packed=not jit, cls=TrainableAevnmt)
    model.prepare_training(hp, jit_compile=jit)
    return model
