"""The output layer: likelihoods and gradients against TensorFlow's softmax, packed and not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.nets import OutputLayer
from aevnmt_tf.nets.output_layer import nll_of_labels

B, T, F, V = 3, 4, 5, 7
LENGTHS = tf.constant([4, 1, 2])


def plain_nll(layer, features, labels):
    """nll, and what the cross-entropy to smoothed labels has above it."""
    logits = layer(features)
    nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    smooth = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=layer.label_smoothing, reduction=None
    )(tf.one_hot(labels, V), logits)
    real = tf.cast(tf.sequence_mask(LENGTHS, T), tf.float32)
    return tuple(tf.reduce_sum(v * real, axis=1) for v in (nll, smooth - nll))


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_nll_and_its_gradients(packed, use_bias, smoothing):
    rng = np.random.default_rng(1)
    layer = OutputLayer(
        input_size=F,
        vocab_size=V,
        use_bias=use_bias,
        packed=packed,
        label_smoothing=smoothing,
    )
    layer.build()
    for weight in layer.trainable_variables:
        weight.assign(rng.normal(size=weight.shape))
    features = tf.constant(rng.normal(size=(B, T, F)), tf.float32)
    labels = tf.constant(rng.integers(0, V, size=(B, T)), tf.int32)
    factors = tf.constant([[1.0, -2.0, 0.5], [0.3, 1.5, -1.0]])
    results = []
    for nll in (
        tf.function(lambda f: layer.nll(f, labels, LENGTHS)[:3:2], jit_compile=not packed),
        lambda f: plain_nll(layer, f, labels),
    ):
        with tf.GradientTape() as tape:
            tape.watch(features)
            value = nll(features)
            total = tf.reduce_sum(factors * value)
        results.append([value, *tape.gradient(total, [features, *layer.trainable_variables])])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("packed", [True, False])
def test_correct_counts_real_words_only(packed):
    layer = OutputLayer(input_size=2, vocab_size=2, use_bias=False, packed=packed)
    layer.build()
    layer.kernel.assign(np.eye(2))
    labels = tf.constant([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    features = tf.one_hot([[0, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]], 2)
    _, correct, *_ = layer.nll(features, labels, LENGTHS)
    np.testing.assert_array_equal(correct, [3.0, 1.0, 1.0])


def test_wrong_padding_changes_nothing():
    rng = np.random.default_rng(2)
    layer = OutputLayer(input_size=F, vocab_size=V, packed=False)
    layer.build()
    features = rng.normal(size=(B, T, F)).astype("float32")
    labels = tf.zeros([B, T], tf.int32)
    found, *_ = layer.nll(features, labels, LENGTHS)
    features[1, 1:] = np.nan
    changed, *_ = layer.nll(features, labels, LENGTHS)
    np.testing.assert_array_equal(found, changed)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_divergence_of_twins_and_all_gradients(packed, smoothing):
    """Against Keras' KL divergence of TensorFlow's softmax, summed over real words."""
    rng = np.random.default_rng(3)
    layer = OutputLayer(input_size=F, vocab_size=V, packed=packed, label_smoothing=smoothing)
    layer.build()
    for weight in layer.trainable_variables:
        weight.assign(rng.normal(size=weight.shape))
    features = tf.constant(rng.normal(size=(2 * B, T, F)), tf.float32)
    labels = tf.tile(tf.constant(rng.integers(0, V, size=(B, T)), tf.int32), [2, 1])
    lengths = tf.tile(LENGTHS, [2])
    factors = tf.constant(rng.normal(size=(3, 2 * B)), tf.float32)

    def plain(features):
        halves = [plain_nll(layer, half, labels[:B]) for half in tf.split(features, 2)]
        nll, smooth = (tf.concat(parts, axis=0) for parts in zip(*halves, strict=True))
        p, other = tf.split(tf.nn.softmax(layer(features)), 2)
        both = keras.losses.kl_divergence(p, other) + keras.losses.kl_divergence(other, p)
        real = tf.cast(tf.sequence_mask(LENGTHS, T), tf.float32)
        return nll, smooth, tf.tile(tf.reduce_sum(0.5 * both * real, axis=1), [2])

    def ours(features):
        nll, _, smooth, divergence = layer.nll(features, labels, lengths, twins=True)
        return nll, smooth, divergence

    results = []
    for function in (tf.function(ours, jit_compile=not packed), plain):
        with tf.GradientTape() as tape:
            tape.watch(features)
            values = function(features)
            total = tf.reduce_sum(factors * values)
        results.append([*values, *tape.gradient(total, [features, *layer.trainable_variables])])
    assert np.all(results[0][2] > 0.1)
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


def test_words_of_no_probability_have_a_finite_nll():
    """Where a softmax underflows, the nll is still the difference of the logits."""
    kernel, labels = tf.constant([[300.0, 0.0, -300.0]]), tf.constant([0, 1, 2])
    nll, correct, *_ = nll_of_labels(tf.ones([3, 1]), labels, kernel)
    np.testing.assert_allclose(nll, [0.0, 300.0, 600.0])
    np.testing.assert_array_equal(correct, [1.0, 0.0, 0.0])
