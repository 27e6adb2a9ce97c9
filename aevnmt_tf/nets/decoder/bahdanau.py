"""Bahdanau attention (Bahdanau et al., 2015, A.1.2), and its gradient.

score(i) = v . tanh(W_key s_i + W_query t)
c = sum_i softmax(score)_i s_i
"""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from aevnmt_tf.nets.matrix_products import compute, project

Tensors = tuple[tf.Tensor, ...]


class Memory(NamedTuple):
    """A source sentence as the decoder sees it; fixed while decoding."""

    keys: tf.Tensor  # [B, Tx, H]
    values: tf.Tensor  # [B, Tx, 2H]
    mask: tf.Tensor  # [B, Tx] bool, True on real tokens


@keras.saving.register_keras_serializable("aevnmt_tf")
class Bahdanau(keras.layers.Layer):
    """attention(s, t; theta_bahd) without biases."""

    @property
    def score(self) -> "Score":
        """How keys and states are compared over whole sentences; see `in_sentence`."""
        return Additive()

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

    def in_sentence(self, memory: Memory) -> tuple[Memory, Tensors]:
        """Return a memory and weights for `score`, computed once for all words."""
        return memory, (compute(self, self.query_kernel), compute(self, self.v))

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
    exact = tf.cast(scores, tf.float32) if scores.dtype.size < 4 else scores
    weights = tf.nn.softmax(tf.where(mask, exact, exact.dtype.min))
    return tf.cast(weights, scores.dtype)


def context(weights: tf.Tensor, memory: Memory) -> tf.Tensor:
    """Return c [B, 2H] for weights [B, Tx]."""
    return tf.matmul(weights[:, None], memory.values)[:, 0]


def flat_weights(weights: tf.Tensor) -> tf.Tensor:
    """Return weights [B, K, Tx] as [B * K, Tx]."""
    return tf.reshape(weights, [-1, tf.shape(weights)[-1]])


class Additive:
    """Bahdanau's score and its gradient; weights are W_query [H, H] and v [H]."""

    projects = True  # whether the first weight makes a query of a state

    @staticmethod
    def query(state: tf.Tensor, w: Tensors) -> tf.Tensor:
        """Return what is compared with the keys, for states [B, H] or [T, B, H]."""
        return tf.matmul(state, w[0]) if state.shape.rank == 2 else project(state, w[0])

    @staticmethod
    def weights(query: tf.Tensor, memory: Memory, w: Tensors) -> tf.Tensor:
        """Return weights [B, Tx] for queries [B, H]."""
        return attention_weights(query, memory, w[1])

    @staticmethod
    def no_sums(memory: Memory, w: Tensors) -> Tensors:
        """Return what `gradient` adds to, over all steps of a sentence, before the first."""
        shape = tf.shape(memory.mask)
        return tf.zeros_like(memory.keys), tf.zeros(shape, w[1].dtype), tf.zeros_like(w[1])

    @staticmethod
    def gradient(
        d_context: tf.Tensor,
        query: tf.Tensor,
        weights: tf.Tensor,
        memory: Memory,
        w: Tensors,
        sums: Tensors,
    ) -> tuple[tf.Tensor, Tensors]:
        """Return the gradient of the query [B, H], and the sums with this step's part.

        With a_i = tanh(key_i + query) and d_i, the gradient of score i, both the query's and
        the keys' are sums of d_i v (1 - a_i^2). The constants are taken out of the sums, which
        spares passes over [B, Tx, H].
        """
        # [B, Tx, H], cheaper to compute again than to keep for each step.
        inner = tf.tanh(memory.keys + query[:, None])
        d_scores = scores_gradient(d_context, weights, memory)  # [B, Tx]
        squares = inner * inner * d_scores[:, :, None]  # [B, Tx, H]
        total = tf.reduce_sum(d_scores, axis=1, keepdims=True)  # [B, 1]
        d_query = w[1] * (total - tf.reduce_sum(squares, axis=1))
        d_v = tf.matmul(_rows(inner), tf.reshape(d_scores, [-1, 1]), transpose_a=True)[:, 0]
        return d_query, (sums[0] + squares, sums[1] + d_scores, sums[2] + d_v)

    @staticmethod
    def sentence_gradients(
        states: tf.Tensor, d_queries: tf.Tensor, sums: Tensors, w: Tensors
    ) -> tuple[tf.Tensor, Tensors]:
        """Return gradients of the keys [B, Tx, H] and the weights.

        For states and d_queries [T, B, H], and the sums after the last step.
        """
        squares, d_scores, d_v = sums
        d_keys = w[1] * (d_scores[:, :, None] - squares)
        return d_keys, (tf.einsum("tbh,tbg->hg", states, d_queries), d_v)


class Multiplicative:
    """Luong's score, the product of key and state, and its gradient; it has no weights."""

    projects = False

    @staticmethod
    def query(state: tf.Tensor, _: Tensors) -> tf.Tensor:
        """Return the state: see Additive."""
        return state

    @staticmethod
    def weights(query: tf.Tensor, memory: Memory, _: Tensors) -> tf.Tensor:
        """See Additive."""
        scores = tf.matmul(memory.keys, query[:, :, None])[:, :, 0]
        return masked_softmax(scores, memory.mask)

    @staticmethod
    def no_sums(memory: Memory, _: Tensors) -> Tensors:
        """See Additive."""
        return (tf.zeros_like(memory.keys),)

    @staticmethod
    def gradient(
        d_context: tf.Tensor,
        query: tf.Tensor,
        weights: tf.Tensor,
        memory: Memory,
        _: Tensors,
        sums: Tensors,
    ) -> tuple[tf.Tensor, Tensors]:
        """See Additive."""
        d_scores = scores_gradient(d_context, weights, memory)
        d_query = tf.matmul(d_scores[:, None], memory.keys)[:, 0]
        return d_query, (sums[0] + d_scores[:, :, None] * query[:, None],)

    @staticmethod
    def sentence_gradients(
        states: tf.Tensor, d_queries: tf.Tensor, sums: Tensors, _: Tensors
    ) -> tuple[tf.Tensor, Tensors]:
        """See Additive."""
        del states, d_queries
        return sums[0], ()


Score = Additive | Multiplicative


def scores_gradient(d_context: tf.Tensor, weights: tf.Tensor, memory: Memory) -> tf.Tensor:
    """Return the gradient of the scores [B, Tx], for that of the context [B, 2H]."""
    d_weights = tf.matmul(memory.values, d_context[:, :, None])[:, :, 0]  # [B, Tx]
    mean = tf.reduce_sum(weights * d_weights, axis=-1, keepdims=True)
    return weights * (d_weights - mean)


def _rows(inner: tf.Tensor) -> tf.Tensor:
    return tf.reshape(inner, [-1, inner.shape[-1]])
