"""The bag-of-words loss against NumPy; padding and order do not matter."""

import numpy as np
import tensorflow as tf

from aevnmt_tf.nets import BagOfWords

Z, H, V = 3, 5, 7
WORDS = [[3, 4, 4, 2], [6, 2, 2, 2], [2, 2, 2, 2]]  # </s> is 2, and pads
LENGTHS = [4, 2, 1]


def bag():
    made = BagOfWords(z_size=Z, units=H, vocab_size=V, name="bow_x")
    made.build()
    rng = np.random.default_rng(0)
    for weight in made.weights:
        weight.assign(rng.normal(size=weight.shape))
    return made, rng.normal(size=(3, Z)).astype(np.float32)


def test_each_word_counts_as_often_as_it_is_there():
    made, z = bag()
    hidden = np.tanh(z @ made.hidden.kernel.numpy() + made.hidden.bias.numpy())
    logits = hidden @ made.out.kernel.numpy() + made.out.bias.numpy()
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    expected = [-(log_p[0, 3] + 2 * log_p[0, 4]), -log_p[1, 6], 0.0]
    found = made(z, tf.constant(WORDS), tf.constant(LENGTHS))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_neither_padding_nor_order_nor_other_rows_matter():
    made, z = bag()
    found = made(z, tf.constant(WORDS), tf.constant(LENGTHS))
    padded = [[4, 3, 4, 2, 5, 6], [6, 2, 5, 5, 5, 5], [2, 3, 3, 3, 3, 3]]
    again = made(z, tf.constant(padded), tf.constant(LENGTHS))
    np.testing.assert_allclose(again, found, rtol=1e-6)
    alone = made(z[:1], tf.constant(WORDS[:1]), tf.constant(LENGTHS[:1]))
    np.testing.assert_allclose(alone, found[:1], rtol=1e-6)


def test_a_sentence_without_words_costs_nothing():
    made, z = bag()
    np.testing.assert_array_equal(
        made(z, tf.constant(WORDS), tf.constant([0, 0, 0])), np.zeros(3)
    )
