"""Word embeddings that are given and stay as they are (TF-NMT's embed_prefix)."""

from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.embedding import Embedding, dense_gather
from aevnmt_tf.nets.matrix_products import compute

TRAINED = 3  # <unk>, <s> and </s>


@keras.saving.register_keras_serializable("aevnmt_tf")
class GivenEmbedding(Embedding):
    """Embeddings of which only the first three are trained; arguments as Embedding."""

    def build(self, *_: Any) -> None:
        """Create `embeddings` [3, E] and `given` [V - 3, E], which training leaves alone."""
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(TRAINED, self.units),
            initializer=keras.initializers.RandomNormal(stddev=self.stddev),
        )
        self.given = self.add_weight(
            name="given",
            shape=(self.vocab_size - TRAINED, self.units),
            initializer="zeros",
            trainable=False,
        )
        self.built = True

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """See Embedding."""
        table = tf.concat([self.embeddings, tf.convert_to_tensor(self.given)], axis=0)
        return dense_gather(compute(self, table), ids)
