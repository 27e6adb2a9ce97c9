"""The objective: pure functions of distributions and log-probabilities, in nats.

All functions take and return one value per sentence ([B]); nothing is averaged here.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
from tensorflow_probability import distributions as tfd


class LossTerms(NamedTuple):
    """The terms of the objective per sentence pair: in nats, unweighted, unreduced."""

    nll_x: tf.Tensor  # [B]   -log P(x|z)
    nll_y: tf.Tensor  # [B]   -log P(y|x, z)
    # KL(q(z|.) || p(z)) by dimension: [B, Z]. [B, 1] if the prior only gives the KL of all of
    # z, [B, 0] without z.
    kl: tf.Tensor
    r_divergence: tf.Tensor  # [B]   D(r, q)
    # How many words had the highest probability; not part of the objective.
    correct_x: tf.Tensor  # [B]
    correct_y: tf.Tensor  # [B]
    smoothing: tf.Tensor  # [B]   what label smoothing adds to nll_y in training
    bow_x: tf.Tensor  # [B]   -log P(words of x|z); not part of the bound
    bow_y: tf.Tensor  # [B]   -log P(words of y|z); not part of the bound
    # The divergence between the predictions of two passes with different noise: the mean of
    # both KLs, summed over y. 0 unless the pair is twice in the batch.
    consistency: tf.Tensor  # [B]


# D(r, q) of Eq. (ELBO-D), by the name of r_train_mode: [B].
# DEVIATION: "JS" is the closed form of the authors' code, KL(q||r) + KL(r||q); the
# Jensen-Shannon divergence of two Gaussians has none.
# DEVIATION: l2 is the squared norm of Eq. (ELBO-L2) for each sentence; the authors' code halves
# it and sums it over the batch.
DIVERGENCES: dict[str, Callable[[tfd.Distribution, tfd.Distribution], tf.Tensor]] = {
    "KLr": lambda r, q: tfd.kl_divergence(r, q),
    "KLq": lambda r, q: tfd.kl_divergence(q, r),
    "JS": lambda r, q: tfd.kl_divergence(q, r) + tfd.kl_divergence(r, q),
    "l2": lambda r, q: tf.reduce_sum(tf.math.squared_difference(r.mean(), q.mean()), axis=-1),
}


def held(q: tfd.Distribution) -> tfd.Distribution:
    """Return a copy of a Gaussian q through which D(r, q) has no gradient."""
    loc, scale = tf.stop_gradient(q.mean()), tf.stop_gradient(q.stddev())
    return tfd.Independent(tfd.Normal(loc, scale), 1)


def elbo(terms: LossTerms) -> tf.Tensor:
    """Return Eq. (ELBO), its expectation estimated with the z of the terms: [B]."""
    return -terms.nll_x - terms.nll_y - tf.reduce_sum(terms.kl, axis=-1)


def rate_penalty(terms: LossTerms, *, multiplier: tf.Tensor, rate: float) -> tf.Tensor:
    """Return multiplier * (rate - KL), which demands a KL of at least `rate` nats: [B].

    Minimum desired rate (Pelsmaeker and Aziz, 2020): the model minimises the Lagrangian, and
    the multiplier maximises it.
    """
    return multiplier * (rate - tf.reduce_sum(terms.kl, axis=-1))


def extras(
    terms: LossTerms,
    *,
    kl_weight: tf.Tensor | float = 1.0,
    bow_x_weight: float = 0.0,
    bow_y_weight: float = 0.0,
    consistency_weight: float = 0.0,
) -> tf.Tensor:
    """Return what training minimises in addition to the bound: [B], or [S, B] for draws."""
    # DEVIATION: the paper does not say that D is annealed; the authors' code does it, and so do
    # we.
    # DEVIATION: neither the paper nor the authors' code smooths labels, predicts bags of words
    # or compares two passes (R-Drop, Liang et al., 2021); 0 unless label_smoothing and the
    # weights say otherwise.
    bags = bow_x_weight * terms.bow_x + bow_y_weight * terms.bow_y
    twins = consistency_weight * terms.consistency
    return terms.smoothing + bags + twins + kl_weight * terms.r_divergence


def loss(
    terms: LossTerms,
    *,
    kl_weight: tf.Tensor | float = 1.0,
    free_bits: float = 0.0,
    free_bits_for: str = "z",
    weight: tf.Tensor | None = None,
    **weights: float,
) -> tf.Tensor:
    """Return what training minimises: [B].

    With kl_weight 1, no free bits, no label smoothing and no `extras`, it is minus the bound of
    Eq. (ELBO-D).

    Args:
        terms: LossTerms.
        kl_weight: the annealing weight of the KL.
        free_bits: nats of KL that cost nothing.
        free_bits_for: "z" for all of z, or "dimension" for each column of terms.kl. With the
            prefix "batch", the mean over the batch is compared with free_bits.
        weight: [B], the weight of each sentence in this mean; equal weights if None.
        **weights: of the other terms; see `extras`.
    """
    kl = terms.kl
    if not free_bits_for.endswith("dimension") and kl.shape[-1] != 0:  # 0: there is no z
        kl = tf.reduce_sum(kl, axis=-1, keepdims=True)
    # DEVIATION: neither the paper nor the authors' code has free bits; 0 unless asked for.
    if free_bits_for.startswith("batch"):
        # The sum over the batch is max(mean KL, free bits) per sentence (Kingma et al., 2016).
        # What a sentence contributes depends on the batch.
        weight = tf.ones_like(terms.nll_y) if weight is None else weight
        total = tf.reduce_sum(weight[:, None] * kl, axis=0)
        costs = tf.math.divide_no_nan(total, tf.reduce_sum(weight)) > free_bits
        kl = tf.where(costs, kl, free_bits)
    elif free_bits > 0.0:  # without free bits, a negative estimate counts as it is
        kl = tf.maximum(kl, free_bits)
    kl = tf.reduce_sum(kl, axis=-1)
    others = extras(terms, kl_weight=kl_weight, **weights)
    return terms.nll_x + terms.nll_y + kl_weight * kl + others
