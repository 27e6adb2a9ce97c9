"""Word embeddings with a dense gradient."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from aevnmt_tf.nets.matrix_products import compute


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

    def __init__(
        self, *, vocab_size: int, units: int, stddev: float = 0.5, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.units = units
        self.stddev = stddev

    def build(self, *_: Any) -> None:
        """Create `embeddings` [V, E], drawn from N(0, stddev^2)."""
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocab_size, self.units),
            initializer=keras.initializers.RandomNormal(stddev=self.stddev),
        )
        self.built = True

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """See the class."""
        return dense_gather(compute(self, self.embeddings), ids)

    def words(self, ids: tf.Tensor) -> Words:
        """Return the same as Words, without dropout.

        Not for XLA, whose shapes are static.
        """
        words, places = tf.unique(tf.reshape(ids, [-1]))
        return Words(self(words), tf.reshape(places, tf.shape(ids)))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        names = ("vocab_size", "units", "stddev")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


@tf.custom_gradient
def dense_gather(table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Return rows of a table [V, E]; its gradient is dense."""
    rows = tf.shape(table)[0]

    def gradient(d_rows: tf.Tensor) -> tuple[tf.Tensor, None]:
        flat = tf.reshape(d_rows, [-1, tf.shape(table)[1]])
        return tf.math.unsorted_segment_sum(flat, tf.reshape(ids, [-1]), rows), None

    return tf.gather(table, ids), gradient
