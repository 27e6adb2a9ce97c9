"""Bounds on the log-likelihood of a set of pairs, with a fixed seed."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from aevnmt_tf import data, objective
from aevnmt_tf import model as models
from aevnmt_tf.nets import noise as random_numbers
from aevnmt_tf.training import step as training_step
from aevnmt_tf.training.totals import means


@dataclass
class Bounds:
    """What a pass over pairs without translating gives.

    `values` has means (see totals.means) and iw_log_pxy, the importance-weighted bound on
    log P(x, y) in nats a pair. The rest is about z, by pair or dimension: None without z.
    """

    values: dict
    locs: np.ndarray | None = None  # [N, Z]
    kl_by_dimension: np.ndarray | None = None  # [Z]


class BoundsFunction:
    """Estimates the ELBO and the importance-weighted bound with a fixed seed.

    # DEVIATION: the authors' dev loss draws z anew each time, and uses r's mean where r
    # exists; this is the mean over `samples` draws from q with a fixed seed.

    Args:
        model: a model.Aevnmt.
        samples: how many draws of z for each pair.
        seed: of the draws, which belong to the pair and not to its place in a batch.
    """

    def __init__(self, model, *, samples, seed):
        self._model = model
        self._samples = samples if model.posterior is not None else 1
        self._seed = seed
        self._functions = {}

    def __call__(self, corpora, *, batch_size, interrupted=lambda: False):
        """Return the Bounds of several data.EncodedPairs together.

        None where `interrupted()` became true on the way.
        """
        totals, kl, locs = {}, 0.0, {}
        for number, encoded in enumerate(corpora):
            dataset = data.evaluation_batches(encoded, batch_size=batch_size)
            run = self._function(dataset.element_spec)
            for batch in dataset:
                if interrupted():
                    return None
                sums, kl_sum, loc = run(batch, tf.constant(len(encoded)))
                for name, value in sums.items():
                    totals[name] = totals.get(name, 0.0) + float(value)
                kl = kl + kl_sum.numpy().astype(np.float64)
                rows = [(number, row) for row in batch["row"].numpy().tolist()]
                locs.update(zip(rows, loc.numpy(), strict=True))
        values = means(totals)
        values["iw_log_pxy"] = totals["iw_log_pxy"] / totals["pairs"]
        if self._model.posterior is None:
            return Bounds(values)
        real = sorted(key for key in locs if key[1] >= 0)  # a filler's row is -1
        ordered = np.stack([locs[key] for key in real])  # [N, Z]
        return Bounds(values, locs=ordered, kl_by_dimension=kl / totals["pairs"])

    def _function(self, element_spec):
        key = str(element_spec)
        if key not in self._functions:
            signature = [element_spec, tf.TensorSpec([], tf.int32)]
            self._functions[key] = tf.function(
                self._batch, input_signature=signature, autograph=False
            )
        return self._functions[key]

    def _batch(self, batch, num_pairs):
        """Sums over a batch, the KL's sum by dimension [Z] and the posterior means [B, Z]."""
        model, weight = self._model, batch["weight"]
        q = model.infer(batch)
        if q is None:
            terms = model.loss_terms(batch)
            log_w = -(terms.nll_x + terms.nll_y)[None]
            kl, loc = tf.zeros([0]), tf.zeros([tf.size(weight), 0])
        else:
            terms, log_w = self._sampled_terms(batch, q, num_pairs)
            kl, loc = tf.reduce_sum(weight[:, None] * terms.kl, axis=0), q.mean()
        sums = training_step.sums(batch, terms)
        sums["loss"] = tf.reduce_sum(weight * objective.loss(terms))
        sums["iw_log_pxy"] = tf.reduce_sum(weight * objective.importance_weighted(log_w))
        return sums, kl, loc

    def _sampled_terms(self, batch, q, num_pairs):
        """LossTerms as means over the draws of z, and the log-weights [S, B]."""
        rows = tf.maximum(batch["row"], 0)  # a filler's row is -1

        def one(sample):
            seed = random_numbers.seed_for("dev", seed=self._seed, step=sample)
            epsilon = random_numbers.normal(
                (q.event_shape[0],), seed=seed, rows=rows, num_rows=num_pairs
            )
            z = models.reparameterise(q, epsilon)  # [B, Z]
            terms = self._model.loss_terms(batch, z=z)
            log_w = objective.log_weights(-terms.nll_x - terms.nll_y, z, q)  # [B]
            return terms, log_w

        floats = [tf.float32] * len(objective.LossTerms._fields)
        terms, log_w = tf.map_fn(
            one,
            tf.range(self._samples),
            fn_output_signature=(objective.LossTerms(*floats), tf.float32),
            parallel_iterations=1,
        )
        return tf.nest.map_structure(lambda t: tf.reduce_mean(t, axis=0), terms), log_w
