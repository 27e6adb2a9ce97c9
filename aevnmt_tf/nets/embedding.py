"""Word embeddings with a dense gradient."""

from typing import NamedTuple

import keras
import tensorflow as tf

from aevnmt_tf.nets.precision import compute


class Words(NamedTuple):
    """Embedded sentences with each different word once, so that it is projected once."""

    vectors: tf.Tensor  # [words, E]
    places: tf.Tensor  # [B, T] which of the vectors


@keras.saving.register_keras_serializable("aevnmt_tf")
class Embedding(keras.layers.Layer):
    """emb(ids; theta): ids [...] -> [..., E].

    The gradient is a dense matrix: MirroredStrategy with XLA fails on sparse ones, and the
    clipping by global norm needs all of it.

    Args:
        vocab_size: V.
        units: E.
        stddev: of the initial values; 0.5 is that of the authors' code.
    """

    def __init__(self, *, vocab_size, units, stddev=0.5, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.units = units
        self.stddev = stddev

    def build(self, *_):
        """Creates `embeddings` [V, E], drawn from N(0, stddev^2)."""
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocab_size, self.units),
            initializer=keras.initializers.RandomNormal(stddev=self.stddev),
        )
        self.built = True

    def call(self, ids):
        """See the class."""
        return dense_gather(compute(self, self.embeddings), ids)

    def words(self, ids):
        """The same as Words. It has no dropout and is not for XLA, whose shapes are static."""
        words, places = tf.unique(tf.reshape(ids, [-1]))
        return Words(self(words), tf.reshape(places, tf.shape(ids)))

    def get_config(self):
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "units": self.units,
            "stddev": self.stddev,
        }


@tf.custom_gradient
def dense_gather(table, ids):
    """Rows of a table [V, E]; its gradient is dense."""
    rows = tf.shape(table)[0]

    def gradient(d_rows):
        flat = tf.reshape(d_rows, [-1, tf.shape(table)[1]])
        return tf.math.unsorted_segment_sum(flat, tf.reshape(ids, [-1]), rows), None

    return tf.gather(table, ids), gradient
