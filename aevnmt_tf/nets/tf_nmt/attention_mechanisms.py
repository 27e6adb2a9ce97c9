"""TF-NMT's attention mechanisms beside Bahdanau's own.

luong              score(i) = (W s_i) . t
scaled_luong       score(i) = g (W s_i) . t
normed_bahdanau    score(i) = g v / |v| . tanh(W_key s_i + W_query t + b)

Luong et al. (2015); Salimans and Kingma (2016) for the normed one.
"""

import math
from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.decoder.bahdanau import (
    Bahdanau,
    Memory,
    Multiplicative,
    Score,
    Tensors,
    attention_weights,
    masked_softmax,
)
from aevnmt_tf.nets.matrix_products import compute, project


@keras.saving.register_keras_serializable("aevnmt_tf")
class NormedBahdanau(Bahdanau):
    """Bahdanau's with a normed v and a bias."""

    def build(self, *_: Any) -> None:
        """Create what Bahdanau has, g [1] and b [H]."""
        super().build()
        start = keras.initializers.Constant(math.sqrt(1.0 / self.units))
        self.gain = self.add_weight(name="gain", shape=(1,), initializer=start)
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def weights_for(self, query: tf.Tensor, memory: Memory) -> tf.Tensor:
        """See Bahdanau."""
        kernel, bias = (compute(self, weight) for weight in (self.query_kernel, self.bias))
        return attention_weights(project(query, kernel, bias), memory, self.normed())

    def normed(self) -> tf.Tensor:
        """Return g v / |v|."""
        return compute(
            self, self.gain * self.v * tf.math.rsqrt(tf.reduce_sum(tf.square(self.v)))
        )

    def in_sentence(self, memory: Memory) -> tuple[Memory, Tensors]:
        """See Bahdanau; b is added to the keys."""
        with_bias = memory._replace(keys=memory.keys + compute(self, self.bias))
        return with_bias, (compute(self, self.query_kernel), self.normed())


@keras.saving.register_keras_serializable("aevnmt_tf")
class Luong(Bahdanau):
    """Luong's `general` score."""

    @property
    def score(self) -> Score:
        """See Bahdanau."""
        return Multiplicative()

    def build(self, *_: Any) -> None:
        """Create memory_kernel [M, H]."""
        self.add_memory_kernel()
        self.built = True

    def weights_for(self, query: tf.Tensor, memory: Memory) -> tf.Tensor:
        """See Bahdanau."""
        rows = query if query.shape.rank == 3 else query[:, None]
        scores = tf.matmul(self.scaled(rows), memory.keys, transpose_b=True)  # [B, K, Tx]
        weights = masked_softmax(scores, memory.mask[:, None])
        return weights if query.shape.rank == 3 else weights[:, 0]

    def in_sentence(self, memory: Memory) -> tuple[Memory, Tensors]:
        """See Bahdanau."""
        return memory._replace(keys=self.scaled(memory.keys)), ()

    def scaled(self, query: tf.Tensor) -> tf.Tensor:
        """Return what the keys are multiplied with."""
        return query


@keras.saving.register_keras_serializable("aevnmt_tf")
class ScaledLuong(Luong):
    """Luong's with one learned factor."""

    def build(self, *_: Any) -> None:
        """Create memory_kernel [M, H] and gain [1]."""
        super().build()
        self.gain = self.add_weight(name="gain", shape=(1,), initializer="ones")

    def scaled(self, query: tf.Tensor) -> tf.Tensor:
        """See Luong."""
        return query * compute(self, self.gain)


MECHANISMS: dict[str, type[Bahdanau]] = {
    "bahdanau": Bahdanau,
    "normed_bahdanau": NormedBahdanau,
    "luong": Luong,
    "scaled_luong": ScaledLuong,
}
