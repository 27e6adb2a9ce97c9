"""The output layer: likelihoods and gradients against TensorFlow's softmax, packed and not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.nets import OutputLayer

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
        tf.function(lambda f: layer.nll(f, labels, LENGTHS)[::2], jit_compile=not packed),
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
    _, correct, _ = layer.nll(features, labels, LENGTHS)
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
