"""Merge hypotheses of the same text, and those found with several draws of z.

Two hypotheses can be segmentations of the same text. A list of translations contains each text
once, with the sum of the probabilities of its segmentations:

    log P(text|x, z) = log sum over segmentations y of P(y|x, z)

If several draws of z find the same text, the one with the highest score is kept. Removed
hypotheses have length 0 and score minus infinity, as in Hypotheses.
"""

from collections.abc import Callable

import tensorflow as tf

from aevnmt_tf.search import MINUS_INFINITY, Hypotheses, Nest, length_penalty


def merge_segmentations(found: Hypotheses, texts: tf.Tensor, *, weight: float) -> Hypotheses:
    """Return hypotheses [R, K] in which every text of a row occurs once.

    Those of a row have the same z. The segmentation with the highest score keeps its place,
    length and attention. Its score is computed from the summed probability; `weight` is that
    of the length penalty.
    """
    same_ids = tf.reduce_all(found.ids[:, :, None] == found.ids[:, None], -1)  # [R, K, K]
    found = _without_copies(found, same_ids)  # samples may be identical
    same = _equal(texts)  # [R, K, K]
    each = tf.where(same, found.log_probs[:, None], MINUS_INFINITY)
    log_probs = tf.where(found.lengths > 0, tf.reduce_logsumexp(each, -1), MINUS_INFINITY)
    best = _without_copies(found, same)
    # Other terms of the score, such as the coverage penalty, are those of the best
    # segmentation.
    gain = log_probs - found.log_probs
    scores = best.scores + gain / length_penalty(best.lengths, weight=weight)
    is_there = best.lengths > 0
    return best._replace(
        log_probs=tf.where(is_there, log_probs, MINUS_INFINITY),
        scores=tf.where(is_there, scores, MINUS_INFINITY),
    )


def together(nest: Nest, *, draws: int) -> Nest:
    """Reshape the tensors of a nest from [B * draws, K, ...] to [B, draws * K, ...]."""

    def joined(values: tf.Tensor) -> tf.Tensor:
        shape = [None, draws * values.shape[1], *values.shape[2:]]
        sizes = tf.concat([[-1, shape[1]], tf.shape(values)[2:]], 0)
        return tf.ensure_shape(tf.reshape(values, sizes), shape)

    return nest if draws == 1 else map_tensors(joined, nest)


def best_texts(
    found: Hypotheses, z: Nest, texts: tf.Tensor, *, n_best: int
) -> tuple[Hypotheses, Nest]:
    """Return the n_best hypotheses [B, K] with different texts [B, K], and their z.

    Ties go to the first one.
    """
    found = _without_copies(found, _equal(texts))
    places = tf.math.top_k(found.scores, n_best).indices
    return map_tensors(lambda v: tf.gather(v, places, batch_dims=1), (found, z))


def _equal(texts: tf.Tensor) -> tf.Tensor:
    return texts[:, :, None] == texts[:, None]  # [R, K, K]


def _without_copies(found: Hypotheses, same: tf.Tensor) -> Hypotheses:
    """Return hypotheses [R, K] without those that are the `same` [R, K, K] as a better one.

    Ties go to the first one.
    """
    mine, others = found.scores[:, :, None], found.scores[:, None]
    place = tf.range(tf.shape(found.scores)[1])
    is_earlier = place[:, None] > place
    is_there = found.lengths > 0
    better = (others > mine) | ((others == mine) & is_earlier)
    is_copy = tf.reduce_any(same & better & is_there[:, None], -1)
    nothing = tf.constant(MINUS_INFINITY, found.scores.dtype)
    return found._replace(
        scores=tf.where(is_copy, nothing, found.scores),
        log_probs=tf.where(is_copy, MINUS_INFINITY, found.log_probs),
        lengths=tf.where(is_copy, 0, found.lengths),
    )


def map_tensors(function: Callable[[tf.Tensor], Nest], nest: Nest) -> Nest:
    """Apply a function to the tensors or arrays of a nest; None stays None."""
    return tf.nest.map_structure(lambda v: None if v is None else function(v), nest)
