"""The running sums of a report, kept in TensorFlow so that no step waits for Python."""

import math
from collections.abc import Collection, Mapping

import tensorflow as tf

from aevnmt_tf.model import Batch
from aevnmt_tf.model.objective import LossTerms
from aevnmt_tf.training import report_keys

Sums = dict[str, tf.Tensor]

# In the order of a checkpoint's vector. Terms that only some models have follow the others.
TERMS = ("loss", "nll_x", "nll_y", "kl", "r_divergence")
SUMMED = TERMS + ("pairs", "x_tokens", "y_tokens", "correct_x", "correct_y", "gradient_norm")
SUMMED_IF_THERE = ("bow_x", "bow_y", "consistency")
LATEST = ("kl_weight", "learning_rate")


class RunningSums(tf.Module):
    """Sums over the batches since the last report; every variable is part of a checkpoint.

    `names` are the report keys that the model has.
    """

    def __init__(self, names: Collection[str] = frozenset(report_keys.KEYS)):
        super().__init__(name="totals")
        self._names = frozenset(names)
        self._summed = (*SUMMED, *(name for name in SUMMED_IF_THERE if name in self._names))
        self.sums = tf.Variable(tf.zeros(len(self._summed), tf.float64), trainable=False)
        self.latest = tf.Variable(tf.zeros(len(LATEST), tf.float64), trainable=False)
        self.good, self.skipped, self.bad_in_a_row, self.most_bad_in_a_row = (
            tf.Variable(0, dtype=tf.int64, trainable=False) for _ in range(4)
        )

    def add(
        self, results: Mapping[str, tf.Tensor], *, completes: bool | tf.Tensor = True
    ) -> None:
        """Add the results of one batch; a skipped batch is only counted.

        Args:
            results: what TrainableAevnmt.train_on returns.
            completes: whether the batch completes an update, which is left out if this batch is
                skipped; bad_in_a_row counts such updates.
        """
        skipped = results["skipped"] > 0.5
        bad, good = tf.cast(skipped, tf.int64), tf.cast(~skipped, tf.int64)
        values = tf.stack([tf.cast(results[name], tf.float64) for name in self._summed])
        # A skipped batch's values are NaN, and NaN x 0 is NaN.
        self.sums.assign_add(tf.where(skipped, tf.zeros_like(values), values))
        self.latest.assign(tf.stack([tf.cast(results[name], tf.float64) for name in LATEST]))
        self.good.assign_add(good)
        self.skipped.assign_add(bad)
        in_a_row = (self.bad_in_a_row + 1) * bad
        self.bad_in_a_row.assign(tf.where(completes, in_a_row, self.bad_in_a_row))
        self.most_bad_in_a_row.assign(tf.maximum(self.most_bad_in_a_row, self.bad_in_a_row))

    def report(self) -> dict[str, float]:
        """Return the means since the last reset by report key, and the number of pairs."""
        sums = dict(zip(self._summed, self.sums.numpy().tolist(), strict=True))
        latest = dict(zip(LATEST, self.latest.numpy().tolist(), strict=True))
        latest["gradient_norm"] = sums["gradient_norm"] / (int(self.good) or math.nan)
        latest["skipped"] = int(self.skipped)
        latest = {name: value for name, value in latest.items() if name in self._names}
        return {**means(sums, self._names), **latest, "pairs": sums["pairs"]}

    def reset(self) -> None:
        """Start the next report; the count of bad updates in a row continues."""
        self.sums.assign(tf.zeros_like(self.sums))
        self.good.assign(0)
        self.skipped.assign(0)
        self.most_bad_in_a_row.assign(self.bad_in_a_row)


def means(sums: Mapping[str, float], names: Collection[str]) -> dict[str, float]:
    """Return the report keys that follow from sums over pairs."""
    pairs = sums["pairs"] or math.nan
    terms = (*TERMS, *SUMMED_IF_THERE, "iw_log_pxy")
    report = {name: sums[name] / pairs for name in terms if name in sums}
    report["elbo"] = -(report["nll_x"] + report["nll_y"] + report["kl"])
    for side in ("x", "y"):
        tokens = sums[f"{side}_tokens"] or math.nan
        per_token = sums[f"nll_{side}"] / tokens
        report[f"nll_{side}_per_token"] = per_token
        report[f"perplexity_{side}"] = math.exp(min(per_token, 700.0))
        report[f"accuracy_{side}"] = sums[f"correct_{side}"] / tokens
    return {name: value for name, value in report.items() if name in names}


def sums_of(batch: Batch, terms: LossTerms, loss: tf.Tensor) -> Sums:
    """Return weighted sums over a batch: nats of each term, pairs, tokens, correct words."""
    weight = batch["weight"]
    same = ("nll_x", "nll_y", "r_divergence", "bow_x", "bow_y", "consistency")
    values = {name: getattr(terms, name) for name in (*same, "correct_x", "correct_y")} | {
        "loss": loss,
        "kl": tf.reduce_sum(terms.kl, axis=-1),
        "x_tokens": tf.cast(batch["x_len"], tf.float32),
        "y_tokens": tf.cast(batch["y_len"], tf.float32),
        "pairs": tf.ones_like(weight),
    }
    return {name: tf.reduce_sum(weight * value) for name, value in values.items()}
