"""Affine maps of sequences."""

import tensorflow as tf


def project(inputs, kernel, bias=None):
    """inputs [..., F] x kernel [F, G] + bias [G] -> [..., G], as ONE product of matrices.

    TensorFlow's product of a tensor and a matrix makes a gradient of the matrix for each
    sentence and adds them up, which was a third of a training step on a CPU.
    """
    flat = tf.matmul(tf.reshape(inputs, [-1, kernel.shape[0]]), kernel)
    if bias is not None:
        flat = tf.nn.bias_add(flat, bias)
    return tf.reshape(flat, tf.concat([tf.shape(inputs)[:-1], [kernel.shape[1]]], axis=0))
