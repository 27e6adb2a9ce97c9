"""The running sums of a report, kept in TensorFlow so that a step never waits for Python."""

import math

import tensorflow as tf

SUMMED = (
    "loss",
    "nll_x",
    "nll_y",
    "kl",
    "r_divergence",
    "pairs",
    "x_tokens",
    "y_tokens",
    "correct_x",
    "correct_y",
    "gradient_norm",
)
LATEST = ("kl_weight", "learning_rate")


class Totals(tf.Module):
    """Sums over the batches since the last report; every variable is part of a checkpoint."""

    def __init__(self):
        """Start at zero."""
        super().__init__(name="totals")
        self.sums = tf.Variable(tf.zeros(len(SUMMED), tf.float64), trainable=False)
        self.latest = tf.Variable(tf.zeros(len(LATEST), tf.float64), trainable=False)
        self.good = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.skipped = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.bad_in_a_row = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.most_bad_in_a_row = tf.Variable(0, dtype=tf.int64, trainable=False)

    def add(self, results, *, completes=True):
        """Add the result of one train_step; a batch that was skipped adds to nothing else.

        Args:
            results: what train_step returns.
            completes: whether the batch completes an update. Where that batch is skipped, the
                update is left out: bad_in_a_row counts these.
        """
        skipped = results["skipped"] > 0.5
        bad, good = tf.cast(skipped, tf.int64), tf.cast(~skipped, tf.int64)
        values = tf.stack([tf.cast(results[name], tf.float64) for name in SUMMED])
        # A skipped batch's values are NaN, and NaN x 0 is NaN.
        self.sums.assign_add(tf.where(skipped, tf.zeros_like(values), values))
        self.latest.assign(tf.stack([tf.cast(results[name], tf.float64) for name in LATEST]))
        self.good.assign_add(good)
        self.skipped.assign_add(bad)
        in_a_row = (self.bad_in_a_row + 1) * bad
        self.bad_in_a_row.assign(tf.where(completes, in_a_row, self.bad_in_a_row))
        self.most_bad_in_a_row.assign(tf.maximum(self.most_bad_in_a_row, self.bad_in_a_row))

    def report(self):
        """Return the means since the last reset as Python numbers."""
        sums = dict(zip(SUMMED, self.sums.numpy().tolist(), strict=True))
        latest = dict(zip(LATEST, self.latest.numpy().tolist(), strict=True))
        good = int(self.good)
        report = means(sums)
        report["gradient_norm"] = sums["gradient_norm"] / good if good else math.nan
        return {**report, **latest, "skipped": int(self.skipped), "pairs": sums["pairs"]}

    def reset(self):
        """Forget the report; the count of bad updates in a row goes on."""
        self.sums.assign(tf.zeros_like(self.sums))
        self.good.assign(0)
        self.skipped.assign(0)
        self.most_bad_in_a_row.assign(self.bad_in_a_row)


def means(sums):
    """Return what people read from sums over pairs.

    loss, nll_x, nll_y, kl, r_divergence and elbo are nats a sentence pair; nll_*_per_token
    and perplexity_* are for a token, </s> included; accuracy_* is the share of tokens.
    """
    pairs = sums["pairs"] or math.nan
    report = {
        name: sums[name] / pairs for name in ("loss", "nll_x", "nll_y", "kl", "r_divergence")
    }
    report["elbo"] = -(report["nll_x"] + report["nll_y"] + report["kl"])
    for side in ("x", "y"):
        if sums[f"nll_{side}"] == 0.0:
            continue  # cond has no model of the source
        tokens = sums[f"{side}_tokens"] or math.nan
        per_token = sums[f"nll_{side}"] / tokens
        report[f"nll_{side}_per_token"] = per_token
        report[f"perplexity_{side}"] = math.exp(min(per_token, 700.0))
        report[f"accuracy_{side}"] = sums[f"correct_{side}"] / tokens
    return report
