"""No encoder: a language model of the target (TF-NMT's language_model)."""

from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.embedding import Words
from aevnmt_tf.nets.recurrent import Length


@keras.saving.register_keras_serializable("aevnmt_tf")
class SilentEncoder(keras.layers.Layer):
    """Says nothing about a source but its length."""

    def build(self, *_: Any) -> None:
        """Create no weights."""
        self.built = True

    def noise_shapes(self, steps: Length) -> dict[str, tuple[Length, ...]]:
        """Return that there is nothing to drop."""
        del steps
        return {}

    def call(
        self, inputs: Any, lengths: tf.Tensor, z: Any = None, noise: Any = None
    ) -> tf.Tensor:
        """Return values [B, Tx, 0], for a decoder without attention."""
        del lengths, z, noise
        places = inputs.places if isinstance(inputs, Words) else inputs
        batch, steps = tf.unstack(tf.shape(places)[:2])
        return tf.zeros([batch, steps, 0], self.compute_dtype)
