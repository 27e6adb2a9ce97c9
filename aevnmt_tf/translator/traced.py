"""Functions as TensorFlow graphs, each traced once, and the kinds of tensors they take."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import tensorflow as tf

MATRIX = tf.TensorSpec([None, None], tf.int32)
VECTOR = tf.TensorSpec([None], tf.int32)
SEEDS = tf.TensorSpec([None], tf.int64)
STRINGS = tf.TensorSpec([None], tf.string)
PAIRS = (MATRIX, VECTOR, MATRIX, VECTOR)  # x, x_len, y, y_len


def vectors(size: int) -> tf.TensorSpec:
    """Return the spec of vectors [B, size], such as z."""
    return tf.TensorSpec([None, size], tf.float32)


class TracedFunctions:
    """Functions that are traced when they are first asked for, and then kept by name."""

    def __init__(self) -> None:
        self.by_key: dict[Hashable, Callable[..., Any]] = {}

    def get(
        self, key: Hashable, function: Callable[..., Any], signature: Sequence[tf.TensorSpec]
    ) -> Callable[..., Any]:
        """Return the concrete function for a key, whatever the shapes of its tensors."""
        if key not in self.by_key:
            traced = tf.function(function, input_signature=signature, autograph=False)
            self.by_key[key] = traced.get_concrete_function()
        return self.by_key[key]
