"""What is maximised and what is measured: pure functions of distributions and
log-probabilities, in nats.

Every function takes and gives one value a sentence ([B]); nobody divides or averages here.
"""

from typing import NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions


class LossTerms(NamedTuple):
    """The parts of the objective for each sentence pair: in nats, unweighted, unreduced."""

    nll_x: tf.Tensor  # [B]   -log P(x|z)
    nll_y: tf.Tensor  # [B]   -log P(y|x, z)
    kl: tf.Tensor  # [B, Z]   KL(q(z|.) || p(z)) by dimension; Z = 0 without a latent variable
    r_divergence: tf.Tensor  # [B]   D(r, q)
    correct_x: (
        tf.Tensor
    )  # [B]   how many words had the highest probability; no part of the objective
    correct_y: tf.Tensor  # [B]
    smoothing: tf.Tensor  # [B]   what label smoothing adds to nll_y in training


def prior(q):
    """p(z) = N(0, I), in the shape of q."""
    zeros = tf.zeros_like(q.mean())
    return tfd.Independent(tfd.Normal(zeros, tf.ones_like(zeros)), 1)


def kl_to_prior(q):
    """KL(q || N(0, I)) by dimension, the second term of Eq. (ELBO): [B, Z]."""
    return tfd.kl_divergence(q.distribution, prior(q).distribution)


# D(r, q) of Eq. (ELBO-D), by the name of r_train_mode: [B].
# DEVIATION: "JS" is the closed form of the authors' code, KL(q||r) + KL(r||q); the
# Jensen-Shannon divergence of two Gaussians has none.
# DEVIATION: l2 is the squared norm of Eq. (ELBO-L2) for each sentence; the authors' code halves
# it and sums it over the batch.
DIVERGENCES = {
    "KLr": lambda r, q: tfd.kl_divergence(r, q),
    "KLq": lambda r, q: tfd.kl_divergence(q, r),
    "JS": lambda r, q: tfd.kl_divergence(q, r) + tfd.kl_divergence(r, q),
    "l2": lambda r, q: tf.reduce_sum(tf.math.squared_difference(r.mean(), q.mean()), axis=-1),
}


def elbo(terms):
    """Eq. (ELBO) with the expectation replaced by the sample that the terms were computed with:
    [B]."""
    return -terms.nll_x - terms.nll_y - tf.reduce_sum(terms.kl, axis=-1)


def loss(terms, *, kl_weight=1.0, free_bits=0.0, free_bits_for="z"):
    """What training minimises: [B]. With kl_weight 1, no free bits and no label smoothing,
    minus the bound of Eq. (ELBO-D).

    Args:
        terms: LossTerms.
        kl_weight: the annealing weight of the KL.
        free_bits: nats of KL that cost nothing.
        free_bits_for: "z", for the whole of z, or "dimension", for each of its dimensions.
    """
    kl = terms.kl
    if free_bits_for == "z" and kl.shape[-1] != 0:  # without z there is nothing to be free
        kl = tf.reduce_sum(kl, axis=-1, keepdims=True)
    # DEVIATION: neither the paper nor the authors' code has free bits; 0 unless asked for.
    kl = tf.reduce_sum(tf.maximum(kl, free_bits), axis=-1)
    # DEVIATION: the paper does not say that D is annealed; the authors' code does it, and so do
    # we.
    # DEVIATION: neither the paper nor the authors' code smooths labels; 0 unless
    # label_smoothing says otherwise.
    nll_y = terms.nll_y + terms.smoothing
    return terms.nll_x + nll_y + kl_weight * (kl + terms.r_divergence)


def log_weights(log_likelihood, z, proposal):
    """log p(data, z_s) / proposal(z_s): [S, B], for log_likelihood [S, B] and z [S, B, Z] drawn
    from the proposal."""
    return log_likelihood + prior(proposal).log_prob(z) - proposal.log_prob(z)


def importance_weighted(log_w):
    """log 1/S sum_s w_s: [S, B] -> [B]. In expectation a lower bound on the log-evidence,
    tighter with every sample."""
    samples = tf.cast(tf.shape(log_w)[0], log_w.dtype)
    return tf.reduce_logsumexp(log_w, axis=0) - tf.math.log(samples)


def effective_sample_size(log_w):
    """(sum_s w_s)^2 / sum_s w_s^2: [S, B] -> [B], between 1 and S."""
    # The softmax keeps the precision that a difference of log-sums would lose.
    return 1.0 / tf.reduce_sum(tf.square(tf.nn.softmax(log_w, axis=0)), axis=0)
