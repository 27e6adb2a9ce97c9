"""A bag of words predicted from z alone: an auxiliary loss against posterior collapse."""

from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.output_layer import OutputLayer


@keras.saving.register_keras_serializable("aevnmt_tf")
class BagOfWords(keras.layers.Layer):
    """log P(bag|z) = sum_j log softmax(affine(tanh(affine(z))))[y_j] (Zhao et al., 2017).

    It is not part of the bound. </s> is not one of the words.

    Args:
        z_size: Z.
        units: H, of the hidden layer.
        vocab_size: V.
    """

    def __init__(self, *, z_size: int, units: int, vocab_size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.z_size = z_size
        self.hidden = keras.layers.Dense(
            units, activation="tanh", name=f"{self.name}_hid", dtype=self.dtype_policy
        )
        self.out = OutputLayer(
            input_size=units,
            vocab_size=vocab_size,
            name=f"{self.name}_out",
            dtype=self.dtype_policy.name,
        )

    def build(self, *_: Any) -> None:
        """Create the weights of both layers."""
        self.hidden.build((None, self.z_size))
        self.out.build()

    def call(self, z: tf.Tensor, words: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Return -log P(bag|z) [B] for z [B, Z], words [B, T], lengths [B] (with </s>)."""
        log_p = tf.nn.log_softmax(self.out(self.hidden(z)))  # [B, V]
        found = tf.gather(log_p, words, batch_dims=1)  # [B, T]
        real = tf.sequence_mask(lengths - 1, tf.shape(words)[1])
        return -tf.reduce_sum(tf.where(real, found, 0.0), axis=1)
