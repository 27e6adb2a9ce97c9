"""The one training step.

    noise -> loss terms -> objective -> gradients of the SUM over the batch (XLA may compile
    this part) -> all-reduce -> division by the global count and clipping by global norm, one
    factor -> update

The loop runs `strategy.run(model.train_step)`; `model.fit(dataset)` runs the same method.
"""

import functools

import keras
import tensorflow as tf

from aevnmt_tf import model as models
from aevnmt_tf import objective
from aevnmt_tf.nets import noise as random_numbers
from aevnmt_tf.training import schedules
from aevnmt_tf.training.optimizer import ACCUMULATE, APPLY, OPTIMIZERS, SKIP


class TrainableAevnmt(models.Aevnmt):
    """An Aevnmt that can train itself. Call `prepare_training` before the first step."""

    def prepare_training(self, hp, *, jit_compile):
        """Sets the objective and the schedules, and creates every variable that training needs.

        Args:
            hp: Hparams.
            jit_compile: whether XLA compiles loss and gradients.
        """
        self.max_gradient_norm = hp.max_gradient_norm
        self.accumulation = hp.gradient_accumulation_steps
        self.kl_weight = functools.partial(
            schedules.kl_weight, annealing_steps=hp.KL_annealing_steps
        )
        self.learning_rate = functools.partial(
            schedules.learning_rate,
            base=hp.learning_rate,
            warmup_steps=hp.warmup_steps,
            warmup_scheme=hp.warmup_scheme,
            decay_scheme=hp.decay_scheme,
            num_train_steps=hp.num_train_steps,
        )
        self.objective = functools.partial(
            objective.loss, free_bits=hp.free_bits, free_bits_for=hp.free_bits_for
        )
        self.gradients = tf.function(
            self.loss_and_gradients, jit_compile=jit_compile, autograph=False
        )
        self.batches = _counter("batches")  # seen, the position in the data and in the noise
        self.updates = _counter("updates")  # done; one left out (not finite) counts
        self.pending_pairs = tf.Variable(0.0, trainable=False, name="pending_pairs")
        optimizer = OPTIMIZERS[hp.optimizer](
            hp.learning_rate, accumulates=self.accumulation > 1
        )
        # XLA: only the part that gains from it is compiled, in `gradients`.
        self.compile(optimizer=optimizer, jit_compile=False)
        optimizer.build(self.trainable_variables)

    def loss_and_gradients(self, batch, noise, kl_weight):
        """Sums over the batch of what a report needs, and gradients of the summed loss."""
        with tf.GradientTape() as tape:
            terms = self.loss_terms(batch, noise)
            loss = batch["weight"] * self.objective(terms, kl_weight=kl_weight)
            loss = tf.reduce_sum(loss)
        gradients = tape.gradient(loss, self.trainable_variables)
        return {"loss": loss, **sums(batch, terms)}, gradients

    def train_step(self, batch):
        """One batch: an update, or a part of one where gradients are accumulated.

        Returns:
            Sums over the global batch (see `sums`), and gradient_norm, kl_weight, learning_rate
            and `skipped`: 1 where loss or gradient was not finite and nothing was changed.
        """
        kl_weight = self.kl_weight(self.updates.read_value())
        learning_rate = self.learning_rate(self.updates.read_value())
        noise = self.noise(batch, self.batches)
        totals, gradients = self.gradients(batch, noise, kl_weight)
        totals, gradients = all_reduce((totals, gradients))
        gradients = self.optimizer.totals(gradients)
        pairs = self.pending_pairs + totals["pairs"]
        norm = tf.linalg.global_norm(gradients) / pairs
        finite = tf.math.is_finite(norm) & tf.math.is_finite(totals["loss"])
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
        if self.accumulation > 1:
            kept = tf.where(finite, pairs, self.pending_pairs)
            self.pending_pairs.assign(tf.where(action == APPLY, 0.0, kept))
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

    def test_step(self, batch):
        """Sums over the global batch, at one draw of z with a fixed seed, without dropout."""
        noise = {}
        if self.posterior is not None:
            seed = random_numbers.seed_for("test_step", seed=self.seed, step=0)
            noise["epsilon"] = random_numbers.normal(
                (self.posterior.z_size,),
                seed=seed,
                # An evaluation batch has rows of the whole set, and -1 for its fillers.
                rows=batch["row"] % self.num_rows,
                num_rows=self.num_rows,
            )
        terms = self.loss_terms(batch, noise)
        terms = terms._replace(smoothing=tf.zeros_like(terms.nll_y))
        loss = tf.reduce_sum(batch["weight"] * self.objective(terms))
        return all_reduce({"loss": loss, **sums(batch, terms)})


def _counter(name):
    return tf.Variable(
        0,
        dtype=tf.int64,
        trainable=False,
        name=name,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def sums(batch, terms):
    """Weighted sums over a batch: nats of each term, pairs, tokens, words predicted right."""
    weight = batch["weight"]
    values = {
        "nll_x": terms.nll_x,
        "nll_y": terms.nll_y,
        "kl": tf.reduce_sum(terms.kl, axis=-1),
        "r_divergence": terms.r_divergence,
        "correct_x": terms.correct_x,
        "correct_y": terms.correct_y,
        "x_tokens": tf.cast(batch["x_len"], tf.float32),
        "y_tokens": tf.cast(batch["y_len"], tf.float32),
        "pairs": tf.ones_like(weight),
    }
    return {name: tf.reduce_sum(weight * value) for name, value in values.items()}


def all_reduce(tensors):
    """The sum of a nest of tensors over all replicas."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return tensors
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)


def clip_scale(norm, limit):
    """The factor that brings gradients of this global norm to at most `limit`; None is no
    limit."""
    return tf.constant(1.0) if not limit else tf.minimum(1.0, limit / tf.maximum(norm, 1e-30))


def resolve_jit(setting):
    """Whether to compile with XLA: `auto` compiles on a GPU and not on a CPU.

    On a CPU a compiled step was measured to take 7 % longer, and its compilation a minute.
    """
    if setting in ("auto", None):
        return bool(tf.config.list_logical_devices("GPU"))
    return setting in (True, "true")


def build(hp, x_vocab_size, y_vocab_size):
    """A model ready to train, with all its variables. Call it inside the strategy's scope."""
    keras.utils.set_random_seed(hp.random_seed)
    keras.config.set_dtype_policy(hp.precision)
    jit = resolve_jit(hp.jit_compile)
    model = models.build(hp, x_vocab_size, y_vocab_size, packed=not jit, cls=TrainableAevnmt)
    model.prepare_training(hp, jit_compile=jit)
    return model
