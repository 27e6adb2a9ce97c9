"""Passes over the vocabulary, which cost most on a CPU."""

import tensorflow as tf

from aevnmt_tf.search.task import MINUS_INFINITY

# Words of a chunk: 16 is the quickest on a CPU for vocabularies of some thousand words. One
# that divides the vocabulary saves a copy of the logits.
CHUNK = 16
OTHERS = (15, 17, 14, 18, 13, 19, 12, 20, 11, 21, 10, 22, 23, 24, 25)


def best_words(logits, *, count):
    """What tf.math.top_k(logits [N, V], count) gives, ties included, several times as fast.

    A word among the `count` best is in one of the `count` chunks with the highest maxima, so
    only these chunks need a closer look.
    """
    size = logits.shape[1]
    if size <= 2 * count * CHUNK:
        return tf.math.top_k(logits, count)
    chunk = next((c for c in (CHUNK, *OTHERS) if size % c == 0), CHUNK)
    if size % chunk:
        pad = [[0, 0], [0, -size % chunk]]
        logits = tf.pad(logits, pad, constant_values=MINUS_INFINITY)
    chunks = tf.reshape(logits, [-1, -(-size // chunk), chunk])
    _, best = tf.math.top_k(tf.reduce_max(chunks, 2), count)
    best = tf.sort(best, axis=1)  # equal words in the order of the vocabulary
    closer = tf.reshape(tf.gather(chunks, best, batch_dims=1), [-1, count * chunk])
    values, places = tf.math.top_k(closer, count)
    words = tf.gather(best, places // chunk, batch_dims=1) * chunk + places % chunk
    return values, words


def log_sum_exp(logits):
    """Return log sum exp [N] of logits [N, V]."""
    shift = tf.reduce_max(logits, 1)
    return shift + tf.math.log(tf.reduce_sum(tf.exp(logits - shift[:, None]), 1))


def log_normaliser(logits, *, best, word):
    """The same [N, 1] for whoever knows the highest logit `best` [N, 1] and its `word` [N, 1].

    The probability of that word, which is 1 / V at least, tells it: the softmax is one pass
    where TensorFlow has oneDNN's kernels, the sum of exponentials is three.
    """
    return best - tf.math.log(tf.gather(tf.nn.softmax(logits), word, batch_dims=1))
