"""Bahdanau attention (Bahdanau et al., 2015, A.1.2), and a GRU that attends with its old state.

score(i) = v . tanh(W_key s_i + W_query t)
c = sum_i softmax(score)_i s_i
"""

from typing import NamedTuple

import keras
import tensorflow as tf

from aevnmt_tf.nets.cells import ready, transposed
from aevnmt_tf.nets.linear import project, times
from aevnmt_tf.nets.precision import compute
from aevnmt_tf.nets.recurrent import arrays, write


class Memory(NamedTuple):
    """A source sentence as the decoder sees it; fixed while decoding."""

    keys: tf.Tensor  # [B, Tx, H]
    values: tf.Tensor  # [B, Tx, 2H]
    mask: tf.Tensor  # [B, Tx] bool, True on real tokens


@keras.saving.register_keras_serializable("aevnmt_tf")
class Bahdanau(keras.layers.Layer):
    """attention(s, t; theta_bahd) without biases."""

    def __init__(self, *, memory_size, units, **kwargs):
        super().__init__(**kwargs)
        self.memory_size = memory_size
        self.units = units

    def build(self, *_):
        """Creates memory_kernel [2H, H], query_kernel [H, H] and v [H]."""
        self.memory_kernel = self.add_weight(
            name="memory_kernel", shape=(self.memory_size, self.units)
        )
        self.query_kernel = self.add_weight(name="query_kernel", shape=(self.units, self.units))
        self.v = self.add_weight(name="v", shape=(self.units,), initializer="glorot_uniform")
        self.built = True

    def memory(self, values, lengths):
        """What is computed once a sentence: values [B, Tx, 2H], lengths [B] -> Memory."""
        values = compute(self, values)
        mask = tf.sequence_mask(lengths, tf.shape(values)[1])
        return Memory(project(values, compute(self, self.memory_kernel)), values, mask)

    def call(self, state, memory):
        """state [B, H] -> context [B, 2H], weights [B, Tx]."""
        query = tf.matmul(compute(self, state), compute(self, self.query_kernel))
        return attend(query, memory, compute(self, self.v))

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "memory_size": self.memory_size, "units": self.units}


def attend(query, memory, v):
    """query [B, H], v [H] -> context [B, 2H], weights [B, Tx]."""
    inner = tf.tanh(memory.keys + query[:, None])  # [B, Tx, H]
    scores = tf.cast(_dot_last(inner, v), tf.float32)  # [B, Tx]
    weights = tf.nn.softmax(tf.where(memory.mask, scores, scores.dtype.min))
    weights = tf.cast(weights, query.dtype)
    return tf.matmul(weights[:, None], memory.values)[:, 0], weights


def attend_gradient(d_context, query, weights, memory, v):
    """Gradients of `attend` with respect to the query [B, H], the keys [B, Tx, H] and v [H]."""
    inner = tf.tanh(
        memory.keys + query[:, None]
    )  # [B, Tx, H], cheaper again than kept for each step
    d_weights = tf.matmul(memory.values, d_context[:, :, None])[:, :, 0]  # [B, Tx]
    mean = tf.reduce_sum(weights * d_weights, axis=-1, keepdims=True)
    d_scores = weights * (d_weights - mean)  # [B, Tx]
    d_inner = d_scores[:, :, None] * (v * (1.0 - inner * inner))  # [B, Tx, H]
    d_v = tf.matmul(_rows(inner), tf.reshape(d_scores, [-1, 1]), transpose_a=True)[:, 0]
    return tf.reduce_sum(d_inner, axis=1), d_inner, d_v


def _rows(inner):
    return tf.reshape(inner, [-1, inner.shape[-1]])


def _dot_last(inner, v):
    return tf.reshape(tf.matmul(_rows(inner), v[:, None]), tf.shape(inner)[:2])


class AttentionWeights(NamedTuple):
    """The weights of a GRU that attends, in the dtype to compute with."""

    query_kernel: tf.Tensor  # [H, H]
    v: tf.Tensor  # [H]
    context_kernel: tf.Tensor  # [2H, 3H], the rows of the GRU's kernel that meet the context
    recurrent_kernel: tf.Tensor  # [H, 3H]
    bias: tf.Tensor | None = None  # [1, 3H], where the cell has a second one


def run_attention_gru(x, start, memory, weights, dropout, *, cell):
    """A GRU whose input at each step is a given part and the context of its own old state.

        c_j = attention(s, t_{j-1})                          Eq. (att)
        t_j = GRU(t_{j-1}, [c_j, e_{j-1}])                   Eq. (dec)

    Args:
        x: [T, B, 3H], the projection of the given part, first bias included.
        start: [B, H].
        memory: Memory.
        weights: AttentionWeights.
        dropout: [T, B, 2H] multiplies the context on its way into the GRU (not the one
            returned), or None.
        cell: one of `cells.CELLS`.

    Returns:
        states [T, B, H], contexts [T, B, 2H], attention weights [T, B, Tx] (without a
        gradient).
    """

    @tf.custom_gradient
    def recurrence(x, start, keys, values, *tensors):
        source, w = Memory(keys, values, memory.mask), AttentionWeights(*tensors)
        kept = _forward(x, start, source, w, dropout, cell=cell)

        def gradient(d_states, d_contexts, _):
            d_outputs = (d_states, d_contexts)
            return _backward(d_outputs, kept, start, source, w, dropout, cell=cell)

        return (kept.states, kept.contexts, kept.attention), gradient

    tensors = [w for w in weights if w is not None]
    states, contexts, attention = recurrence(x, start, memory.keys, memory.values, *tensors)
    return states, contexts, tf.stop_gradient(attention)


class _Kept(NamedTuple):
    """What the forward loop leaves for the backward one; time is the first axis."""

    states: tf.Tensor  # [T, B, H]
    contexts: tf.Tensor  # [T, B, 2H]
    attention: tf.Tensor  # [T, B, Tx]
    saved: list  # of the cell


def _forward(x, start, source, w, dropout, *, cell):
    parts, steps = ready(cell.parts(w.recurrent_kernel)), tf.shape(x)[0]

    def body(t, h, kept):
        context, attention = attend(tf.matmul(h, w.query_kernel), source, w.v)  # Eq. (att)
        inputs = x[t] + tf.matmul(_dropped(context, dropout, t), w.context_kernel)
        new, saved = cell.step(inputs, h, parts, w.bias)  # Eq. (dec)
        return t + 1, new, write(kept, t, (new, context, attention, *saved))

    _, _, kept = tf.while_loop(
        lambda t, *_: t < steps, body, (0, start, arrays(x, 3 + cell.num_saved))
    )
    states, contexts, attention, *saved = (array.stack() for array in kept)
    return _Kept(states, contexts, attention, saved)


def _backward(d_outputs, kept, start, source, w, dropout, *, cell):
    """Gradients of x, start, keys, values and the weights, in this order."""
    (d_states, d_contexts), attention, saved = d_outputs, kept.attention, kept.saved
    before = tf.concat([start[None], kept.states[:-1]], axis=0)  # [T, B, H]
    queries = project(before, w.query_kernel)  # [T, B, H]
    parts = transposed(cell.parts(w.recurrent_kernel))
    context_kernel, query_kernel = transposed([w.context_kernel, w.query_kernel])

    def body(t, d_h, d_keys, d_v, written):
        d_x, d_inner, d_h = cell.gradient(
            d_h + d_states[t], before[t], [s[t] for s in saved], parts
        )
        d_context = times(d_x, context_kernel, columns=source.values.shape[-1])
        d_context = _dropped(d_context, dropout, t) + d_contexts[t]
        d_query, more_keys, more_v = attend_gradient(
            d_context, queries[t], attention[t], source, w.v
        )
        d_h += times(d_query, query_kernel, columns=d_h.shape[-1])
        written = write(written, t, (d_x, d_inner, d_query, d_context))
        return t - 1, d_h, d_keys + more_keys, d_v + more_v, written

    zeros = [tf.zeros_like(v) for v in (start, source.keys, w.v)]
    _, d_start, d_keys, d_v, written = tf.while_loop(
        lambda t, *_: t >= 0, body, (tf.shape(before)[0] - 1, *zeros, arrays(before, 4))
    )
    d_x, d_inner, d_query, d_context = (array.stack() for array in written)
    inputs = kept.contexts if dropout is None else kept.contexts * dropout
    d_kernel, d_bias = cell.weight_gradients(before, saved, d_x, d_inner)
    return (
        d_x,
        d_start,
        d_keys,
        tf.einsum("tbi,tbh->bih", attention, d_context),
        tf.einsum("tbh,tbg->hg", before, d_query),
        d_v,
        tf.einsum("tbh,tbg->hg", inputs, d_x),
        d_kernel,
        *(() if d_bias is None else (d_bias,)),
    )


def _dropped(context, dropout, t):
    return context if dropout is None else context * dropout[t]
