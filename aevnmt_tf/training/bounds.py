"""Bounds on the log-likelihood of a set of pairs, with a fixed seed."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from aevnmt_tf import data, objective
from aevnmt_tf import model as models
from aevnmt_tf.nets import noise as random_numbers
from aevnmt_tf.training import step as training_step
from aevnmt_tf.training.totals import means

# Ids of one pass, all draws counted: they bound the memory that the output layers take.
MOST_TOKENS = 16384


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
        ids, lengths = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
        spec = {"x": ids, "x_len": lengths, "y": ids, "y_len": lengths, "row": lengths}
        spec |= {"weight": tf.TensorSpec([None], tf.float32), "corpus": lengths}
        self._draws = tf.function(
            self._draws_in_graph,
            input_signature=[spec, lengths, tf.TensorSpec([], tf.int32)],
            autograph=False,
        )

    def __call__(self, corpora, *, batch_size, interrupted=lambda: False):
        """Return the Bounds of several data.EncodedPairs together.

        None where `interrupted()` became true on the way.
        """
        totals, kl, locs = {}, 0.0, {}
        for number, encoded in enumerate(corpora):
            for batch in data.evaluation_batches(encoded, batch_size=batch_size):
                if interrupted():
                    return None
                sums, kl_sum, loc = self._batch(batch, len(encoded))
                for name, value in sums.items():
                    totals[name] = totals.get(name, 0.0) + float(value)
                kl = kl + kl_sum
                rows = [(number, row) for row in batch["row"].numpy().tolist()]
                locs.update(zip(rows, loc, strict=True))
        values = means(totals)
        values["iw_log_pxy"] = totals["iw_log_pxy"] / totals["pairs"]
        if self._model.posterior is None:
            return Bounds(values)
        real = sorted(key for key in locs if key[1] >= 0)  # a filler's row is -1
        ordered = np.stack([locs[key] for key in real])  # [N, Z]
        return Bounds(values, locs=ordered, kl_by_dimension=kl / totals["pairs"])

    def _batch(self, batch, num_pairs):
        """Sums over a batch, the KL's sum by dimension [Z] and the posterior means [B, Z]."""
        tokens = tf.size(batch["x"]) + tf.size(batch["y"])
        at_once = max(1, int(MOST_TOKENS // tokens))
        passes = []
        for first in range(0, self._samples, at_once):
            samples = tf.range(first, min(first + at_once, self._samples))
            passes.append(self._draws(batch, samples, tf.constant(num_pairs)))
        parts = zip(*passes, strict=True)
        terms, log_w, loc = (tf.nest.map_structure(_joined, *part) for part in parts)
        terms = objective.LossTerms(*(tf.reduce_mean(term, axis=0) for term in terms))
        weight = batch["weight"]
        sums = training_step.sums(batch, terms)
        # The bound itself: labels are smoothed in training alone.
        exact = terms._replace(smoothing=tf.zeros_like(terms.nll_y))
        sums["loss"] = tf.reduce_sum(weight * objective.loss(exact))
        sums["iw_log_pxy"] = tf.reduce_sum(weight * objective.importance_weighted(log_w))
        kl = tf.reduce_sum(weight[:, None] * terms.kl, axis=0)
        return sums, kl.numpy().astype(np.float64), loc[0].numpy()

    def _draws_in_graph(self, batch, samples, num_pairs):
        """The terms [S, B, ...] and log-weights [S, B] of some draws, and loc [1, B, Z].

        Draws are rows of one large batch: ten times the rows take much less than ten times
        the time.
        """
        q = self._model.infer(batch)
        if q is None:
            terms = self._model.loss_terms(batch)
            terms = objective.LossTerms(*(term[None] for term in terms))
            return terms, -(terms.nll_x + terms.nll_y), tf.zeros([1, tf.size(batch["row"]), 0])
        rows = tf.maximum(batch["row"], 0)  # a filler's row is -1

        def epsilon(sample):
            seed = random_numbers.seed_for("dev", seed=self._seed, step=sample)
            size = (q.event_shape[0],)
            return random_numbers.normal(size, seed=seed, rows=rows, num_rows=num_pairs)

        epsilons = tf.map_fn(epsilon, samples, fn_output_signature=tf.float32)
        z = models.reparameterise(q, epsilons)  # [S, B, Z]
        count, size = tf.size(samples), tf.size(rows)
        tiled = {
            name: tf.tile(batch[name], [count] + [1] * (batch[name].shape.rank - 1))
            for name in ("x", "x_len", "y", "y_len")
        }
        terms = self._model.loss_terms(tiled, z=tf.reshape(z, [count * size, z.shape[-1]]))
        terms = objective.LossTerms(
            *(tf.reshape(t, tf.concat([[count, size], tf.shape(t)[1:]], 0)) for t in terms)
        )
        log_w = objective.log_weights(-terms.nll_x - terms.nll_y, z, q)  # [S, B]
        return terms, log_w, q.mean()[None]


def _joined(*parts):
    return tf.concat(parts, axis=0)
