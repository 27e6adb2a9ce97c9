"""How a layer reads numbers under a mixed precision policy."""

import tensorflow as tf


def compute(layer, value):
    """`value` (a tensor or a variable) in the dtype that `layer` computes with."""
    return tf.cast(value, layer.compute_dtype)
