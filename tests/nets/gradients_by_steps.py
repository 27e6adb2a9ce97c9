"""A layer's gradients, to compare those written out with TensorFlow's own."""

import contextlib
import functools

import numpy as np
import tensorflow as tf


def normal(rng, *shape):
    return tf.constant(rng.normal(size=shape), tf.float32)


def randomise(layer, rng):
    for weight in layer.trainable_variables:
        weight.assign(rng.normal(size=weight.shape) * 0.5)


@contextlib.contextmanager
def dropout_at(decoder, noise, t):
    """Steps of the decoder's layers multiply their inputs by the masks [B, T, in] of time t."""

    def step(layer, inputs, state):
        return type(layer).step(layer, inputs * noise[layer.name][:, t], state)

    for layer in decoder.grus if noise else []:
        layer.step = functools.partial(step, layer)
    yield
    for layer in decoder.grus if noise else []:
        del layer.step


def gradients_of(function, layer, inputs):
    """The value of a random projection of the outputs, and its gradients."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = tf.nest.flatten(function(*inputs))
        rng = np.random.default_rng(7)
        value = tf.add_n([tf.reduce_sum(o * normal(rng, *o.shape)) for o in outputs])
    sources = [*inputs, *layer.trainable_variables]
    gradients = tape.gradient(value, sources)
    assert all(g is not None for g in gradients)
    return value, gradients


def assert_same(one, other):
    np.testing.assert_allclose(one[0], other[0], rtol=1e-5)
    for a, b in zip(one[1], other[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
