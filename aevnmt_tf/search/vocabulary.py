"""Passes over the vocabulary, the most expensive part of a search on a CPU."""

import tensorflow as tf

from aevnmt_tf.search.problem import MINUS_INFINITY

# Words per chunk, fastest first (on a CPU, with a vocabulary of some thousand words). A size
# that divides the vocabulary saves a copy of the logits.
CHUNKS = sorted(range(16, 65), key=lambda size: abs(size - 32))


def best_words(logits: tf.Tensor, *, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the same as tf.math.top_k(logits [N, V], count), including ties, but faster.

    The `count` best words are in the `count` chunks with the highest maxima, so only these
    chunks need a closer look.
    """
    chunks = _in_chunks(logits, rows=1, count=count)
    best, closer = _best_chunks(chunks, tf.reduce_max(chunks, 2), count=count)
    values, words = _best_inside(best, closer, count=count)
    return values, tf.minimum(words, logits.shape[1] - 1)


def best_continuations(
    logits: tf.Tensor, live: tf.Tensor, *, count: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the most probable continuations of the K hypotheses of each sentence.

    Args:
        logits: [A * K, V], finite.
        live: [A, K] log-probabilities of the hypotheses.
        count: continuations per sentence, at most K V.

    Returns:
        Log-probabilities, words and hypotheses [A, count], best first.
    """
    width, size = live.shape[1], logits.shape[1]
    chunks = _in_chunks(logits, rows=width, count=count)  # [A * K, V / c, c]
    maxima = tf.reduce_max(chunks, 2)
    normaliser = log_normaliser(logits, best=tf.reduce_max(maxima, 1))
    normaliser = tf.reshape(normaliser, [-1, width, 1])  # [A, K, 1]
    num_chunks, chunk = chunks.shape[1:]
    maxima = tf.reshape(maxima, [-1, width, num_chunks]) - normaliser + live[:, :, None]
    maxima, chunks = (
        tf.reshape(maxima, [-1, width * num_chunks]),
        tf.reshape(chunks, [-1, width * num_chunks, chunk]),
    )
    best, closer = _best_chunks(chunks, maxima, count=count)  # [A, count], [A, count, c]
    parents = best // num_chunks
    closer -= tf.gather(normaliser, parents, batch_dims=1)
    closer += tf.gather(live, parents, batch_dims=1)[:, :, None]
    log_probs, places = _best_inside(best, closer, count=count)
    words = tf.minimum(places % (num_chunks * chunk), size - 1)
    return log_probs, words, places // (num_chunks * chunk)


def log_normaliser(
    logits: tf.Tensor, *, best: tf.Tensor, words: tf.Tensor | None = None
) -> tf.Tensor:
    """Return log sum exp [N], given the highest logits `best` [N] and maybe their `words` [N].

    It follows from the probability of the best word, which is at least 1 / V. With oneDNN's
    kernels the softmax is one pass, the sum of exponentials is three.
    """
    probs = tf.nn.softmax(logits)
    if words is None:
        highest = tf.reduce_max(probs, 1)
    else:
        highest = tf.gather(probs, words, batch_dims=1)
    return best - tf.math.log(highest)


def _in_chunks(logits: tf.Tensor, *, rows: int, count: int) -> tf.Tensor:
    """Reshape [N, V] to [N, V / c, c]; chunks have one word if they would save nothing."""
    size = logits.shape[1]
    if rows * size <= 2 * count * CHUNKS[0]:
        return logits[:, :, None]
    chunk = next((c for c in CHUNKS if size % c == 0), CHUNKS[0])
    if size % chunk:
        pad = [[0, 0], [0, -size % chunk]]
        logits = tf.pad(logits, pad, constant_values=MINUS_INFINITY)
    return tf.reshape(logits, [-1, -(-size // chunk), chunk])


def _best_chunks(
    chunks: tf.Tensor, maxima: tf.Tensor, *, count: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the best of chunks [A, M, c] with maxima [A, M]: places and contents."""
    _, best = tf.math.top_k(maxima, count)
    best = tf.sort(best, axis=1)  # keeps ties in the order of the vocabulary
    return best, tf.gather(chunks, best, batch_dims=1)


def _best_inside(
    best: tf.Tensor, closer: tf.Tensor, *, count: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the best values in chunks [A, count, c], and their places [A, count]."""
    chunk = closer.shape[2]
    values, inside = tf.math.top_k(tf.reshape(closer, [-1, count * chunk]), count)
    return values, tf.gather(best, inside // chunk, batch_dims=1) * chunk + inside % chunk
