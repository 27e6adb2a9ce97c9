"""Bounds on the log-likelihood of a set of pairs, with a fixed seed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf import model as models
from aevnmt_tf.data.batches import evaluation_batches
from aevnmt_tf.data.pair_encoding import EncodedPairs
from aevnmt_tf.model import Batch, importance, objective
from aevnmt_tf.nets import noise as random_numbers
from aevnmt_tf.training import report_keys, running_sums
from aevnmt_tf.training.running_sums import Sums


@dataclass
class Bounds:
    """Bounds by report key, and about z, by pair or dimension; None without z."""

    values: dict[str, float]
    locs: np.ndarray | None = None  # [N, Z]
    scales: np.ndarray | None = None  # [N, Z]
    kl_by_dimension: np.ndarray | None = None  # [Z]


class BoundsFunction:
    """The ELBO and the importance-weighted bound, estimated with a fixed seed.

    # DEVIATION: the authors' dev loss draws z anew each time, and uses r's mean where r
    # exists; this is the mean over `samples` draws from q with a fixed seed.

    Args:
        model: a model.Aevnmt.
        samples: the number of draws of z per pair.
        seed: of the draws, which depend on the pair and not on its place in a batch.
        loss: what training minimises [B]; called with LossTerms, kl_weight and weight.
    """

    def __init__(
        self, model: models.Aevnmt, *, samples: int, seed: int, loss: Callable[..., tf.Tensor]
    ) -> None:
        self._model, self._loss = model, loss
        self._samples = samples if model.posterior is not None else 1
        self._seed = seed
        ids, lengths = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
        spec = {"x": ids, "x_len": lengths, "y": ids, "y_len": lengths, "row": lengths}
        spec |= {"weight": tf.TensorSpec([None], tf.float32), "corpus": lengths}
        self._draws = tf.function(
            self._draws_in_graph,
            input_signature=[spec, tf.TensorSpec([], tf.int32)],
            autograph=False,
        )

    def __call__(
        self,
        corpora: Sequence[EncodedPairs],
        *,
        batch_size: int,
        kl_weight: float = 1.0,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> Bounds | None:
        """Return the Bounds of several sets together, None if `interrupted()` became true."""
        totals: dict[str, float] = {}
        kl: Any = 0.0
        posteriors: dict[tuple[int, int], np.ndarray] = {}
        for number, encoded in enumerate(corpora):
            size = self._rows_in_memory(encoded, batch_size)
            for batch in evaluation_batches(encoded, batch_size=size):
                if interrupted():
                    return None
                sums, kl_sum, posterior = self._batch(batch, len(encoded), kl_weight)
                for name, value in sums.items():
                    totals[name] = totals.get(name, 0.0) + float(value)
                kl = kl + kl_sum
                rows = [(number, row) for row in batch["row"].numpy().tolist()]
                posteriors.update(zip(rows, posterior, strict=True))
        names = report_keys.names_for(self._model) - {"consistency"}  # there is one pass
        values = running_sums.means(totals, names)
        if self._model.posterior is None:
            return Bounds(values)
        real = sorted(key for key in posteriors if key[1] >= 0)  # a filler's row is -1
        locs, scales = np.split(np.stack([posteriors[key] for key in real]), 2, axis=-1)
        return Bounds(values, locs=locs, scales=scales, kl_by_dimension=kl / totals["pairs"])

    def _rows_in_memory(self, encoded: EncodedPairs, batch_size: int) -> int:
        """Return the batch size, or fewer pairs if the logits of one draw take too much."""
        if not len(encoded):
            return batch_size
        logits_x = int(encoded.x.lengths.max()) * self._model.emb_x.vocab_size
        logits_y = 0
        if self._model.decoder is not None:
            logits_y = int(encoded.y.lengths.max()) * self._model.decoder.vocab_size
        return max(1, min(batch_size, importance.MOST_LOGITS // max(logits_x, logits_y)))

    def _batch(
        self, batch: Batch, num_pairs: int, kl_weight: float
    ) -> tuple[Sums, np.ndarray, np.ndarray]:
        """Return sums over a batch, the KL per dimension [Z], and loc and scale [B, 2 Z]."""
        draws, posterior = self._draws(batch, tf.constant(num_pairs))
        terms = objective.LossTerms(*(tf.reduce_mean(term, axis=0) for term in draws.terms))
        weight = batch["weight"]
        loss = self._loss(terms, kl_weight=kl_weight, weight=weight)
        sums = running_sums.sums_of(batch, terms, loss)
        log_pxy = importance.importance_weighted(draws.log_w_xy)
        sums["iw_log_pxy"] = tf.reduce_sum(weight * log_pxy)
        kl = tf.reduce_sum(weight[:, None] * terms.kl, axis=0)
        return sums, kl.numpy().astype(np.float64), posterior.numpy()

    def _draws_in_graph(
        self, batch: Batch, num_pairs: tf.Tensor
    ) -> tuple[importance.WeighedDraws, tf.Tensor]:
        """Return the draws of a batch, and loc and scale of q [B, 2 Z]."""
        model, rows = self._model, tf.maximum(batch["row"], 0)  # a filler's row is -1

        def noise(sample: tf.Tensor) -> tf.Tensor:
            seed = random_numbers.seed_for("dev", seed=self._seed, step=sample)
            size = (model.posterior.noise_size,)  # type: ignore[union-attr]  # there is one
            return random_numbers.normal(size, seed=seed, rows=rows, num_rows=num_pairs)

        draws = importance.sample(model, batch, noise, self._samples, own_proposal=False)
        q = model.infer(batch)
        if q is None:
            return draws, tf.zeros([tf.size(rows), 0])
        return draws, tf.concat([q.mean(), q.stddev()], axis=-1)
