"""Passes over the vocabulary, which cost most on a CPU."""

import tensorflow as tf

from aevnmt_tf.search.task import MINUS_INFINITY

CHUNK = 16  # words; the quickest on a CPU for vocabularies of some thousand words


def best_words(logits, *, count):
    """What tf.math.top_k(logits [N, V], count) gives, ties included, several times as fast.

    A word among the `count` best is in one of the `count` chunks with the highest maxima, so
    only these chunks need a closer look.
    """
    size = logits.shape[1]
    if size <= 2 * count * CHUNK:
        return tf.math.top_k(logits, count)
    if size % CHUNK:
        pad = [[0, 0], [0, -size % CHUNK]]
        logits = tf.pad(logits, pad, constant_values=MINUS_INFINITY)
    chunks = tf.reshape(logits, [-1, -(-size // CHUNK), CHUNK])
    _, best = tf.math.top_k(tf.reduce_max(chunks, 2), count)
    best = tf.sort(best, axis=1)  # equal words in the order of the vocabulary
    closer = tf.reshape(tf.gather(chunks, best, batch_dims=1), [-1, count * CHUNK])
    values, places = tf.math.top_k(closer, count)
    words = tf.gather(best, places // CHUNK, batch_dims=1) * CHUNK + places % CHUNK
    return values, words


def log_sum_exp(logits, *, shift):
    """Return log sum exp [N] of logits [N, V], given a shift [N] near their maxima."""
    return shift + tf.math.log(tf.reduce_sum(tf.exp(logits - shift[:, None]), 1))
