"""Importance sampling: bounds on log P(x, y) and log P(x) from draws of z.

    log P(x, y) >= E log 1/S sum_s w_s,  w_s = p(x, y, z_s) / q(z_s),  z_s ~ q

More draws make the bound tighter (Burda et al., 2016).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from aevnmt_tf import nets
from aevnmt_tf.model.aevnmt import Aevnmt, Batch
from aevnmt_tf.model.objective import LossTerms, extras

# Limits of one pass over all its draws: ids, and logits of an output layer.
MOST_TOKENS = 16384
MOST_LOGITS = 1 << 26


class WeighedDraws(NamedTuple):
    """The terms and log-weights of S draws of z for each pair; without z, S is 1."""

    terms: LossTerms  # [S, B, ...], with z ~ q
    log_w_xy: tf.Tensor  # [S, B]  log p(x, y, z_s) / q(z_s)
    log_w_x: tf.Tensor  # [S, B]  log p(x, z_s) / proposal(z_s)


def sample(
    model: Aevnmt,
    batch: Batch,
    noise: Callable[[tf.Tensor], tf.Tensor],
    samples: tf.Tensor | int,
    *,
    own_proposal: bool = True,
) -> WeighedDraws:
    """Return draws of z for each pair, in as many passes as memory requires.

    Args:
        model: a model.Aevnmt.
        batch: a Batch.
        noise: maps the number of a draw to standard normal numbers [B, model.noise_size].
        samples: how many draws.
        own_proposal: whether x gets draws of its own if q has seen y. Without them log_w_x is
            cheaper and has more variance.
    """
    if model.posterior is None:
        return weigh(model, batch, None)
    at_once = tf.clip_by_value(_draws_in_memory(model, batch), 1, samples)
    fields = (*LossTerms._fields, "log_w_xy", "log_w_x")

    def body(first: tf.Tensor, arrays: list[tf.TensorArray]) -> tuple:
        numbers = tf.range(first, tf.minimum(first + at_once, samples))
        epsilon = tf.map_fn(noise, numbers, fn_output_signature=tf.float32)  # [s, B, N]
        found = weigh(model, batch, epsilon, own_proposal=own_proposal)
        place, values = first // at_once, [*found.terms, *found[1:]]
        return first + at_once, [a.write(place, v) for a, v in zip(arrays, values, strict=True)]

    def array(field: str) -> tf.TensorArray:
        size, shape = -(-samples // at_once), [None] * (3 if field == "kl" else 2)
        return tf.TensorArray(tf.float32, size, infer_shape=False, element_shape=shape)

    _, arrays = tf.while_loop(
        lambda first, _: first < samples,
        body,
        [tf.constant(0), [array(field) for field in fields]],
        parallel_iterations=1,
    )
    *terms, log_w_xy, log_w_x = (a.concat() for a in arrays)
    return WeighedDraws(LossTerms(*terms), log_w_xy, log_w_x)


def weigh(
    model: Aevnmt,
    batch: Batch,
    epsilon: tf.Tensor | None,
    *,
    own_proposal: bool = True,
    noise: nets.Noise | None = None,
) -> WeighedDraws:
    """Return the draws for standard normal numbers [S, B, N], in one pass.

    Draws are rows of one large batch: ten times the rows take much less than ten times the
    time. The proposal for x alone is the posterior if that reads x alone, otherwise r, and the
    prior if r is a point. Without z, weights are the log-probabilities. In training, `noise`
    has the dropout masks by layer name, which all draws of a sentence share.
    """
    masks = {name: mask for name, mask in (noise or {}).items() if name != "epsilon"}
    if model.posterior is None or epsilon is None:
        terms = LossTerms(*(term[None] for term in model.loss_terms(batch)))
        return WeighedDraws(terms, -(terms.nll_x + terms.nll_y), -terms.nll_x)
    sides = model.embed(batch)
    q, p = model.posterior(sides, noise=masks), model.prior(sides, noise=masks)
    z = model.posterior.draw(q, epsilon[..., : model.posterior.noise_size])  # [S, B, Z]
    shape = tf.shape(z)[:2]
    pairs, tiled, many = (_repeated(rows, shape[0]) for rows in (batch, sides, masks))
    given_z = model.terms_given_z(tiled, pairs, _rows(z), many)
    kl = model.prior.kl(q, p, z)  # [B, Z], or [S, B, 1]
    terms = LossTerms(
        kl=tf.broadcast_to(kl, tf.concat([shape, tf.shape(kl)[-1:]], axis=0)),
        r_divergence=tf.broadcast_to(model.r_divergence(sides, q, masks), shape),
        **{name: tf.reshape(term, shape) for name, term in given_z.items()},
    )
    log_ratio = p.log_prob(z) - q.log_prob(z)
    log_w_xy = log_ratio - terms.nll_x - terms.nll_y
    log_w_x = log_ratio - terms.nll_x
    if own_proposal and model.prediction is not None:
        # q has seen y, so x has a proposal of its own.
        part, proposal = model.prediction.proposal(model.prediction(sides), (model.prior, p))
        z = part.draw(proposal, epsilon[..., : part.noise_size])
        nll_x, *_ = model.source_nll(tiled, pairs, _rows(z), {})
        log_w_x = p.log_prob(z) - proposal.log_prob(z) - tf.reshape(nll_x, shape)
    return WeighedDraws(terms, log_w_xy, log_w_x)


def iwae_loss(
    draws: WeighedDraws, *, kl_weight: tf.Tensor | float = 1.0, **weights: float
) -> tf.Tensor:
    """Return minus the importance-weighted bound, plus objective.extras: [S, B] -> [B].

    kl_weight multiplies log p(z) / q(z), so that with one draw this is the loss of the ELBO
    with an estimated KL. Burda et al. (2016).
    """
    likelihood = -(draws.terms.nll_x + draws.terms.nll_y)
    log_w = likelihood + kl_weight * (draws.log_w_xy - likelihood)
    others = extras(draws.terms, kl_weight=kl_weight, **weights)
    return tf.reduce_mean(others, axis=0) - importance_weighted(log_w)


def importance_weighted(log_w: tf.Tensor) -> tf.Tensor:
    """Return log 1/S sum_s w_s: [S, B] -> [B]."""
    samples = tf.cast(tf.shape(log_w)[0], log_w.dtype)
    return tf.reduce_logsumexp(log_w, axis=0) - tf.math.log(samples)


def effective_sample_size(log_w: tf.Tensor) -> tf.Tensor:
    """Return (sum_s w_s)^2 / sum_s w_s^2: [S, B] -> [B], between 1 and S."""
    # A difference of log-sums would lose the precision that the softmax keeps.
    return 1.0 / tf.reduce_sum(tf.square(tf.nn.softmax(log_w, axis=0)), axis=0)


def _draws_in_memory(model: Aevnmt, batch: Batch) -> tf.Tensor:
    """Return how many draws fit into a pass, given the sizes of batch and vocabularies."""
    words_x, words_y = tf.size(batch["x"]), tf.size(batch["y"])
    logits_y = tf.cast(words_y, tf.int64) * model.emb_y.vocab_size
    logits_x = tf.cast(words_x, tf.int64) * model.emb_x.vocab_size
    by_logits = MOST_LOGITS // tf.maximum(logits_x, logits_y)
    return tf.minimum(MOST_TOKENS // (words_x + words_y), tf.cast(by_logits, tf.int32))


def _repeated(nest: Any, times: tf.Tensor) -> Any:
    """Return a nest of tensors [B, ...] as [times * B, ...]."""
    return tf.nest.map_structure(
        lambda tensor: tf.tile(tensor, [times] + [1] * (tensor.shape.rank - 1)), nest
    )


def _rows(z: tf.Tensor) -> tf.Tensor:
    return tf.reshape(z, [-1, z.shape[-1]])  # [S * B, Z]
