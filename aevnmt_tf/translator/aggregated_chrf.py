"""chrF of each sample against the average of all samples, inside the graph.

Reference aggregation (Vamvas and Sennrich, 2024): in place of K comparisons for each of K
samples, one with a reference that does not exist, whose n-gram counts are the samples' mean.

    count(g) = 1/K sum_k count(g, y_k)

The cost grows with K, not with K ** 2. Counts are exact: the number of an n-gram comes from
tf.unique, not from a hash. They are integers until the last divisions, so equal texts have
equal scores.
"""

import tensorflow as tf

ORDER, BETA = 6, 2  # sacreBLEU's chrF2
# What Python's str.split takes for white space, which chrF leaves out.
SPACES = (
    r"[\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"
)


def aggregated_chrf(texts: tf.Tensor) -> tf.Tensor:
    """Return the chrF [B, K], from 0 to 100, of samples [B, K] of B sentences.

    A sample without characters has the score 0, as in sacreBLEU.
    """
    shape = tf.shape(texts, out_type=tf.int64)
    samples = shape[1]
    flat = tf.strings.regex_replace(tf.reshape(texts, [-1]), SPACES, "")
    characters = tf.strings.unicode_decode(flat, "UTF-8")  # [B * K, None]
    length = characters.row_lengths()  # [B * K]
    row = characters.value_rowids()  # [N] the text of each character
    place = tf.range(tf.size(row, tf.int64))
    left = tf.gather(characters.row_starts() + length, row) - place  # [N] until the text's end
    alphabet, letters = tf.unique(characters.values, tf.int64)

    gram = row // samples  # n-grams of different sentences are different
    precision = recall = orders = tf.zeros_like(length, tf.float64)  # [B * K]
    for n in range(1, ORDER + 1):
        keep = left >= n
        place, left, row, gram = (tf.boolean_mask(v, keep) for v in (place, left, row, gram))
        # An n-gram is an (n-1)-gram and a letter.
        gram = gram * tf.size(alphabet, tf.int64) + tf.gather(letters, place + (n - 1))
        _, gram = tf.unique(gram, tf.int64)
        matches = _matches(gram, row, rows=shape[0] * samples, samples=samples)
        mine = tf.maximum(length - (n - 1), 0) * samples  # n-grams of a text, times K
        all_of = tf.reduce_sum(tf.reshape(mine // samples, shape), 1)  # [B]: times K
        all_of = tf.repeat(all_of, samples)
        both = tf.cast((mine > 0) & (all_of > 0), tf.float64)
        precision += both * tf.math.divide_no_nan(*_floats(matches, mine))
        recall += both * tf.math.divide_no_nan(*_floats(matches, all_of))
        orders += both
    precision, recall = (tf.math.divide_no_nan(v, orders) for v in (precision, recall))
    factor = float(BETA**2)
    score = tf.math.divide_no_nan(
        (1 + factor) * precision * recall, factor * precision + recall
    )
    return tf.reshape(100.0 * score, tf.shape(texts))


def _matches(
    gram: tf.Tensor, row: tf.Tensor, *, rows: tf.Tensor, samples: tf.Tensor
) -> tf.Tensor:
    """Return K sum_g min(count(g, y), count(g)) of each text y [rows].

    Args:
        gram: [N] numbers of n-grams, from 0.
        row: [N] the text that each of them is in.
        rows: how many texts there are.
        samples: K.
    """
    totals = tf.math.bincount(tf.cast(gram, tf.int32), dtype=tf.int64)  # K count(g)
    pairs, _, counts = tf.unique_with_counts(gram * rows + row, tf.int64)
    matches = tf.minimum(counts * samples, tf.gather(totals, pairs // rows))
    return tf.math.unsorted_segment_sum(matches, pairs % rows, rows)


def _floats(*values: tf.Tensor) -> list[tf.Tensor]:
    return [tf.cast(value, tf.float64) for value in values]
