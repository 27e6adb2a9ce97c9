"""Word embeddings with a dense gradient."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from aevnmt_tf.nets.matrix_products import compute

TRAINED = 3  # <unk>, <s> and </s>


class Words(NamedTuple):
    """Embedded sentences with each distinct word once, so that it is projected once."""

    vectors: tf.Tensor  # [words, E]
    places: tf.Tensor  # [B, T] indices into the vectors


@keras.saving.register_keras_serializable("aevnmt_tf")
class Embedding(keras.layers.Layer):
    """emb(ids; theta): ids [...] -> [..., E].

    The gradient is a dense matrix: MirroredStrategy with XLA fails on sparse ones, and clipping
    by global norm needs all of it anyway.

    Args:
        vocab_size: V.
        units: E.
        stddev: of the initial values; the authors' code has 0.5.
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
        self.add_embeddings(self.vocab_size)

    def add_embeddings(self, rows: int) -> None:
        """Create the trainable embeddings [rows, E]."""
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(rows, self.units),
            initializer=keras.initializers.RandomNormal(stddev=self.stddev),
        )

    def table(self) -> tf.Tensor:
        """Return all embeddings [V, E]."""
        return tf.convert_to_tensor(self.embeddings)

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """See the class."""
        return dense_gather(compute(self, self.table()), ids)

    def words(self, ids: tf.Tensor) -> Words:
        """Return the embedded ids as Words, without dropout.

        Not for XLA, whose shapes are static.
        """
        words, places = tf.unique(tf.reshape(ids, [-1]))
        return Words(self(words), tf.reshape(places, tf.shape(ids)))


@keras.saving.register_keras_serializable("aevnmt_tf")
class GivenEmbedding(Embedding):
    """Pretrained embeddings (TF-NMT's embed_prefix), of which only the first three are trained.

    Arguments as Embedding.
    """

    def build(self, *_: Any) -> None:
        """Create `embeddings` [3, E] and `given` [V - 3, E], which training leaves alone."""
        self.add_embeddings(TRAINED)
        self.given = self.add_weight(
            name="given",
            shape=(self.vocab_size - TRAINED, self.units),
            initializer="zeros",
            trainable=False,
        )

    def table(self) -> tf.Tensor:
        """See Embedding."""
        return tf.concat([self.embeddings, tf.convert_to_tensor(self.given)], axis=0)


@tf.custom_gradient
def dense_gather(table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Return rows of a table [V, E]; its gradient is dense."""
    rows = tf.shape(table)[0]

    def gradient(d_rows: tf.Tensor) -> tuple[tf.Tensor, None]:
        flat = tf.reshape(d_rows, [-1, tf.shape(table)[1]])
        return tf.math.unsorted_segment_sum(flat, tf.reshape(ids, [-1]), rows), None

    return tf.gather(table, ids), gradient
