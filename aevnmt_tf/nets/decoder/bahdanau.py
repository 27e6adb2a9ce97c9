"""Bahdanau attention (Bahdanau et al., 2015, A.1.2), and its gradient.

score(i) = v . tanh(W_key s_i + W_query t)
c = sum_i softmax(score)_i s_i
"""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from aevnmt_tf.nets.matrix_products import compute, project


class Memory(NamedTuple):
    """A source sentence as the decoder sees it; fixed while decoding."""

    keys: tf.Tensor  # [B, Tx, H]
    values: tf.Tensor  # [B, Tx, 2H]
    mask: tf.Tensor  # [B, Tx] bool, True on real tokens


@keras.saving.register_keras_serializable("aevnmt_tf")
class Bahdanau(keras.layers.Layer):
    """attention(s, t; theta_bahd) without biases."""

    def __init__(self, *, memory_size: int, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.memory_size = memory_size
        self.units = units

    def build(self, *_: Any) -> None:
        """Create memory_kernel [2H, H], query_kernel [H, H] and v [H]."""
        self.add_memory_kernel()
        self.query_kernel = self.add_weight(name="query_kernel", shape=(self.units, self.units))
        self.v = self.add_weight(name="v", shape=(self.units,), initializer="glorot_uniform")
        self.built = True

    def add_memory_kernel(self) -> None:
        """Create memory_kernel."""
        self.memory_kernel = self.add_weight(
            name="memory_kernel", shape=(self.memory_size, self.units)
        )

    def memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """Return what is computed once per sentence, of values [B, Tx, 2H] and lengths [B]."""
        values = compute(self, values)
        mask = tf.sequence_mask(lengths, tf.shape(values)[1])
        return Memory(project(values, compute(self, self.memory_kernel)), values, mask)

    def attention(self, state: tf.Tensor, memory: Memory, *, shared: bool) -> tf.Tensor:
        """Return the weights [B, Tx] for states [B, H].

        With `shared`, K states in a row share a sentence: [B, K, Tx] for states [B * K, H].
        """
        query = compute(self, state)
        if shared:
            query = tf.reshape(query, [tf.shape(memory.mask)[0], -1, query.shape[-1]])
        return self.weights_for(query, memory)

    def weights_for(self, query: tf.Tensor, memory: Memory) -> tf.Tensor:
        """Return weights [B, Tx] for states [B, H], or [B, K, Tx] for [B, K, H]."""
        query = project(query, compute(self, self.query_kernel))
        return attention_weights(query, memory, compute(self, self.v))

    def call(
        self, state: tf.Tensor, memory: Memory, *, shared: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return contexts [N, 2H] and weights [N, Tx] for states [N, H]; see `attention`."""
        weights = self.attention(state, memory, shared=shared)
        if not shared:
            return context(weights, memory), weights
        contexts = tf.matmul(weights, memory.values)  # [B, K, 2H]
        return tf.reshape(contexts, [-1, self.memory_size]), flat_weights(weights)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "memory_size": self.memory_size, "units": self.units}


def attention_weights(query: tf.Tensor, memory: Memory, v: tf.Tensor) -> tf.Tensor:
    """Return weights [B, Tx] for queries [B, H], or [B, K, Tx] for [B, K, H]."""
    keys, mask = memory.keys, memory.mask
    if query.shape.rank == 3:
        keys, mask = keys[:, None], mask[:, None]
    inner = tf.tanh(keys + query[..., None, :])  # [B, Tx, H] or [B, K, Tx, H]
    scores = tf.matmul(_rows(inner), v[:, None])
    return masked_softmax(tf.reshape(scores, tf.shape(inner)[:-1]), mask)


def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Return the softmax of scores [..., Tx] where the mask is true, 0 elsewhere."""
    exact = tf.cast(scores, tf.float32)
    weights = tf.nn.softmax(tf.where(mask, exact, exact.dtype.min))
    return tf.cast(weights, scores.dtype)


def context(weights: tf.Tensor, memory: Memory) -> tf.Tensor:
    """Return c [B, 2H] for weights [B, Tx]."""
    return tf.matmul(weights[:, None], memory.values)[:, 0]


def flat_weights(weights: tf.Tensor) -> tf.Tensor:
    """Return weights [B, K, Tx] as [B * K, Tx]."""
    return tf.reshape(weights, [-1, tf.shape(weights)[-1]])


def attention_gradient(
    d_context: tf.Tensor, query: tf.Tensor, weights: tf.Tensor, memory: Memory, v: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return gradients with respect to the query [B, H], the keys [B, Tx, H] and v [H]."""
    # [B, Tx, H], cheaper to compute again than to keep for each step.
    inner = tf.tanh(memory.keys + query[:, None])
    d_weights = tf.matmul(memory.values, d_context[:, :, None])[:, :, 0]  # [B, Tx]
    mean = tf.reduce_sum(weights * d_weights, axis=-1, keepdims=True)
    d_scores = weights * (d_weights - mean)  # [B, Tx]
    d_inner = d_scores[:, :, None] * (v * (1.0 - inner * inner))  # [B, Tx, H]
    d_v = tf.matmul(_rows(inner), tf.reshape(d_scores, [-1, 1]), transpose_a=True)[:, 0]
    return tf.reduce_sum(d_inner, axis=1), d_inner, d_v


def _rows(inner: tf.Tensor) -> tf.Tensor:
    return tf.reshape(inner, [-1, inner.shape[-1]])
