"""Attention mechanisms with their gradients: Bahdanau's and TF-NMT's others.

    bahdanau           score(i) = v . tanh(W_key s_i + W_query t)
    normed_bahdanau    score(i) = g v / |v| . tanh(W_key s_i + W_query t + b)
    luong              score(i) = (W_key s_i) . t
    scaled_luong       score(i) = g (W_key s_i) . t

    c = sum_i softmax(score)_i s_i

Bahdanau et al. (2015, A.1.2); Luong et al. (2015); Salimans and Kingma (2016) for the norm.
"""

import math
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from aevnmt_tf.nets.matrix_products import compute, kernel_gradient, project

Tensors = tuple[tf.Tensor, ...]


class Memory(NamedTuple):
    """A source sentence as the decoder sees it; fixed while decoding."""

    keys: tf.Tensor  # [B, Tx, H]
    values: tf.Tensor  # [B, Tx, M], M is 2H for a bidirectional encoder
    mask: tf.Tensor  # [B, Tx] bool, True on real tokens


class Attention(keras.layers.Layer):
    """What mechanisms share.

    A mechanism defines its weights, `projects` and the methods that Bahdanau documents. The
    loop over a sentence calls those that take the weights `w`, which are tensors.

    Args:
        memory_size: M.
        units: H.
    """

    def __init__(self, *, memory_size: int, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.memory_size = memory_size
        self.units = units

    def build(self, *_: Any) -> None:
        """Create memory_kernel [M, H]."""
        self.memory_kernel = self.add_weight(
            name="memory_kernel", shape=(self.memory_size, self.units)
        )

    def memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """Return what is computed once per sentence, of values [B, Tx, M] and lengths [B]."""
        values = compute(self, values)
        mask = tf.sequence_mask(lengths, tf.shape(values)[1])
        return Memory(self.keys(values), values, mask)

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """Return what queries are compared with, [B, Tx, H]."""
        return project(values, compute(self, self.memory_kernel))

    def call(
        self, state: tf.Tensor, memory: Memory, *, shared: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return contexts [N, M] and weights [N, Tx] for states [N, H]; see `attention`."""
        weights = self.attention(state, memory, shared=shared)
        if not shared:
            return context(weights, memory), weights
        contexts = tf.matmul(weights, memory.values)  # [B, K, M]
        return tf.reshape(contexts, [-1, self.memory_size]), flat_weights(weights)

    def attention(self, state: tf.Tensor, memory: Memory, *, shared: bool) -> tf.Tensor:
        """Return the weights [B, Tx] for states [B, H].

        With `shared`, K consecutive states share a sentence: [B, K, Tx] for states [B * K, H].
        """
        w = self.score_weights()
        query = self.query(compute(self, state), w)
        if shared:
            query = tf.reshape(query, [tf.shape(memory.mask)[0], -1, query.shape[-1]])
        return self.attend(query, memory, w)


@keras.saving.register_keras_serializable("aevnmt_tf")
class Bahdanau(Attention):
    """attention(s, t; theta_bahd) without biases; the weights are W_query [H, H] and v [H]."""

    projects = True  # whether `query` multiplies states by the first weight

    def build(self, *_: Any) -> None:
        """Create memory_kernel [M, H], query_kernel [H, H] and v [H]."""
        super().build()
        self.query_kernel = self.add_weight(name="query_kernel", shape=(self.units, self.units))
        self.v = self.add_weight(name="v", shape=(self.units,), initializer="glorot_uniform")

    def score_weights(self) -> Tensors:
        """Return the weights of the score, in the dtype to compute in."""
        return compute(self, self.query_kernel), compute(self, self.v)

    @staticmethod
    def query(state: tf.Tensor, w: Tensors) -> tf.Tensor:
        """Return what is compared with the keys, for states [B, H] or [T, B, H]."""
        return tf.matmul(state, w[0]) if state.shape.rank == 2 else project(state, w[0])

    @staticmethod
    def attend(query: tf.Tensor, memory: Memory, w: Tensors) -> tf.Tensor:
        """Return weights [B, Tx] for queries [B, H], or [B, K, Tx] for [B, K, H]."""
        keys, mask = memory.keys, memory.mask
        if query.shape.rank == 3:
            keys, mask = keys[:, None], mask[:, None]
        inner = tf.tanh(keys + query[..., None, :])  # [B, Tx, H] or [B, K, Tx, H]
        scores = tf.matmul(_rows(inner), w[1][:, None])
        return masked_softmax(tf.reshape(scores, tf.shape(inner)[:-1]), mask)

    @staticmethod
    def no_sums(memory: Memory, w: Tensors) -> Tensors:
        """Return the sums over all steps that `gradient` adds to, before the first step."""
        shape = tf.shape(memory.mask)
        return tf.zeros_like(memory.keys), tf.zeros(shape, w[1].dtype), tf.zeros_like(w[1])

    @staticmethod
    def gradient(
        d_scores: tf.Tensor, query: tf.Tensor, memory: Memory, w: Tensors, sums: Tensors
    ) -> tuple[tf.Tensor, Tensors]:
        """Return the gradient of a query [B, H], and the sums with this step's part.

        With a_i = tanh(key_i + query) and d_i, the gradient of score i, both the query's and
        the keys' are sums of d_i v (1 - a_i^2). Taking the constants out of the sums saves
        passes over [B, Tx, H].
        """
        # [B, Tx, H], cheaper to compute again than to keep for each step.
        inner = tf.tanh(memory.keys + query[:, None])
        squares = inner * inner * d_scores[:, :, None]  # [B, Tx, H]
        total = tf.reduce_sum(d_scores, axis=1, keepdims=True)  # [B, 1]
        d_query = w[1] * (total - tf.reduce_sum(squares, axis=1))
        d_v = tf.matmul(_rows(inner), tf.reshape(d_scores, [-1, 1]), transpose_a=True)[:, 0]
        return d_query, (sums[0] + squares, sums[1] + d_scores, sums[2] + d_v)

    @staticmethod
    def sentence_gradients(
        states: tf.Tensor, d_queries: tf.Tensor, sums: Tensors, w: Tensors
    ) -> tuple[tf.Tensor, Tensors]:
        """Return the gradients of the keys [B, Tx, H] and the weights of the score.

        For states and d_queries [T, B, H], and the sums after the last step.
        """
        squares, d_scores, d_v = sums
        d_keys = w[1] * (d_scores[:, :, None] - squares)
        return d_keys, (kernel_gradient(states, d_queries), d_v)


@keras.saving.register_keras_serializable("aevnmt_tf")
class NormedBahdanau(Bahdanau):
    """Bahdanau's mechanism with a normed v and a bias, which is part of the keys."""

    def build(self, *_: Any) -> None:
        """Create Bahdanau's weights, gain [1] and bias [H]."""
        super().build()
        start = keras.initializers.Constant(math.sqrt(1.0 / self.units))
        self.gain = self.add_weight(name="gain", shape=(1,), initializer=start)
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """See Attention."""
        return super().keys(values) + compute(self, self.bias)

    def score_weights(self) -> Tensors:
        """Return W_query and g v / |v|."""
        normed = self.gain * self.v * tf.math.rsqrt(tf.reduce_sum(tf.square(self.v)))
        return compute(self, self.query_kernel), compute(self, normed)


@keras.saving.register_keras_serializable("aevnmt_tf")
class Luong(Attention):
    """Luong's `general` score, which has no weights other than memory_kernel."""

    projects = False

    def score_weights(self) -> Tensors:
        """See Bahdanau."""
        return ()

    @staticmethod
    def query(state: tf.Tensor, w: Tensors) -> tf.Tensor:
        """See Bahdanau."""
        return state

    @staticmethod
    def attend(query: tf.Tensor, memory: Memory, w: Tensors) -> tf.Tensor:
        """See Bahdanau."""
        if query.shape.rank == 3:
            scores = tf.matmul(query, memory.keys, transpose_b=True)  # [B, K, Tx]
            return masked_softmax(scores, memory.mask[:, None])
        scores = tf.matmul(memory.keys, query[:, :, None])[:, :, 0]
        return masked_softmax(scores, memory.mask)

    @staticmethod
    def no_sums(memory: Memory, w: Tensors) -> Tensors:
        """See Bahdanau."""
        return (tf.zeros_like(memory.keys),)

    @staticmethod
    def gradient(
        d_scores: tf.Tensor, query: tf.Tensor, memory: Memory, w: Tensors, sums: Tensors
    ) -> tuple[tf.Tensor, Tensors]:
        """See Bahdanau."""
        d_query = tf.matmul(d_scores[:, None], memory.keys)[:, 0]
        return d_query, (sums[0] + d_scores[:, :, None] * query[:, None],)

    @staticmethod
    def sentence_gradients(
        states: tf.Tensor, d_queries: tf.Tensor, sums: Tensors, w: Tensors
    ) -> tuple[tf.Tensor, Tensors]:
        """See Bahdanau."""
        return sums[0], ()


@keras.saving.register_keras_serializable("aevnmt_tf")
class ScaledLuong(Luong):
    """Luong's score times one learned factor, which is part of the keys."""

    def build(self, *_: Any) -> None:
        """Create memory_kernel [M, H] and gain [1]."""
        super().build()
        self.gain = self.add_weight(name="gain", shape=(1,), initializer="ones")

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """See Attention."""
        return super().keys(values) * compute(self, self.gain)


MECHANISMS: dict[str, type[Attention]] = {
    "bahdanau": Bahdanau,
    "normed_bahdanau": NormedBahdanau,
    "luong": Luong,
    "scaled_luong": ScaledLuong,
}


def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Return the softmax of scores [..., Tx] where the mask is true, 0 elsewhere."""
    exact = tf.cast(scores, tf.float32) if scores.dtype.size < 4 else scores
    weights = tf.nn.softmax(tf.where(mask, exact, exact.dtype.min))
    return tf.cast(weights, scores.dtype)


def context(weights: tf.Tensor, memory: Memory) -> tf.Tensor:
    """Return c [B, M] for weights [B, Tx]."""
    return tf.matmul(weights[:, None], memory.values)[:, 0]


def scores_gradient(d_context: tf.Tensor, weights: tf.Tensor, memory: Memory) -> tf.Tensor:
    """Return the gradient of the scores [B, Tx], for that of the context [B, M]."""
    d_weights = tf.matmul(memory.values, d_context[:, :, None])[:, :, 0]  # [B, Tx]
    mean = tf.reduce_sum(weights * d_weights, axis=-1, keepdims=True)
    return weights * (d_weights - mean)


def flat_weights(weights: tf.Tensor) -> tf.Tensor:
    """Return weights [B, K, Tx] as [B * K, Tx]."""
    return tf.reshape(weights, [-1, tf.shape(weights)[-1]])


def _rows(inner: tf.Tensor) -> tf.Tensor:
    return tf.reshape(inner, [-1, inner.shape[-1]])
