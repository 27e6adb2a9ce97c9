"""A GRU that attends with its old state, over whole sentences, with its gradient written out.

c_j = attention(s, t_{j-1})                          Eq. (att)
t_j = GRU(t_{j-1}, [c_j, e_{j-1}])                   Eq. (dec)
"""

from typing import NamedTuple

import tensorflow as tf

from aevnmt_tf.nets.cells import Cell, ready, transposed
from aevnmt_tf.nets.decoder.bahdanau import Additive, Memory, context
from aevnmt_tf.nets.matrix_products import times
from aevnmt_tf.nets.recurrent import arrays, write


class AttentionWeights(NamedTuple):
    """The weights of a GRU that attends, in the dtype to compute with."""

    query_kernel: tf.Tensor  # [H, H]
    v: tf.Tensor  # [H]
    context_kernel: tf.Tensor  # [2H, 3H], the rows of the GRU's kernel that meet the context
    recurrent_kernel: tf.Tensor  # [H, 3H]
    bias: tf.Tensor | None = None  # [1, 3H], where the cell has a second one


def run_attention_gru(
    x: tf.Tensor,
    start: tf.Tensor,
    memory: Memory,
    weights: AttentionWeights,
    dropout: tf.Tensor | None,
    *,
    cell: Cell,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Run a GRU whose inputs are a given part and the context of its own old state.

    Args:
        x: [T, B, 3H], the projection of the given part, first bias included.
        start: [B, H].
        memory: Memory.
        weights: AttentionWeights.
        dropout: [T, B, 2H] multiplies the context on its way into the GRU (not the one
            returned), or None.
        cell: of `cells.make_cell`.

    Returns:
        states [T, B, H], contexts [T, B, 2H], attention weights [T, B, Tx] (without a
        gradient).
    """

    @tf.custom_gradient
    def recurrence(x, start, keys, values, *tensors):  # type: ignore[no-untyped-def]
        source, w = Memory(keys, values, memory.mask), AttentionWeights(*tensors)
        kept = _forward(x, start, source, w, dropout, cell=cell)

        def gradient(d_states: tf.Tensor, d_contexts: tf.Tensor, _: tf.Tensor) -> tuple:
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
    saved: list[tf.Tensor]  # of the cell


def _forward(
    x: tf.Tensor,
    start: tf.Tensor,
    source: Memory,
    w: AttentionWeights,
    dropout: tf.Tensor | None,
    *,
    cell: Cell,
) -> _Kept:
    parts, steps = ready(cell.parts(w.recurrent_kernel)), tf.shape(x)[0]
    score = (w.query_kernel, w.v)

    def body(t: tf.Tensor, h: tf.Tensor, kept: tuple) -> tuple:
        attention = Additive.weights(Additive.query(h, score), source, score)
        c = context(attention, source)  # Eq. (att)
        inputs = x[t] + tf.matmul(_dropped(c, dropout, t), w.context_kernel)
        new, saved = cell.step(inputs, h, parts, w.bias)  # Eq. (dec)
        return t + 1, new, write(kept, t, (new, c, attention, *saved))

    _, _, kept = tf.while_loop(
        lambda t, *_: t < steps, body, (0, start, arrays(x, 3 + cell.num_saved))
    )
    states, contexts, attention, *saved = (array.stack() for array in kept)
    return _Kept(states, contexts, attention, saved)


def _backward(
    d_outputs: tuple[tf.Tensor, tf.Tensor],
    kept: _Kept,
    start: tf.Tensor,
    source: Memory,
    w: AttentionWeights,
    dropout: tf.Tensor | None,
    *,
    cell: Cell,
) -> tuple[tf.Tensor, ...]:
    """Return gradients of x, start, keys, values and the weights, in this order."""
    (d_states, d_contexts), attention, saved = d_outputs, kept.attention, kept.saved
    before = tf.concat([start[None], kept.states[:-1]], axis=0)  # [T, B, H]
    score = (w.query_kernel, w.v)
    queries = Additive.query(before, score)  # [T, B, H]
    parts = transposed(cell.parts(w.recurrent_kernel))
    context_kernel, query_kernel = transposed([w.context_kernel, w.query_kernel])

    def body(t: tf.Tensor, d_h: tf.Tensor, sums: tuple, written: tuple) -> tuple:
        d_x, d_inner, d_h = cell.gradient(
            d_h + d_states[t], before[t], [s[t] for s in saved], parts, w.bias
        )
        d_context = times(d_x, context_kernel, columns=source.values.shape[-1])
        d_context = _dropped(d_context, dropout, t) + d_contexts[t]
        d_query, sums = Additive.gradient(
            d_context, queries[t], attention[t], source, score, sums
        )
        d_h += times(d_query, query_kernel, columns=d_h.shape[-1])
        written = write(written, t, (d_x, d_inner, d_query, d_context))
        return t - 1, d_h, sums, written

    zeros = (tf.zeros_like(start), Additive.no_sums(source, score))
    _, d_start, sums, written = tf.while_loop(
        lambda t, *_: t >= 0, body, (tf.shape(before)[0] - 1, *zeros, arrays(before, 4))
    )
    d_x, d_inner, d_query, d_context = (array.stack() for array in written)
    inputs = kept.contexts if dropout is None else kept.contexts * dropout
    d_keys, d_score = Additive.sentence_gradients(before, d_query, sums, score)
    d_kernel, d_bias = cell.weight_gradients(before, saved, d_x, d_inner)
    return (
        d_x,
        d_start,
        d_keys,
        tf.einsum("tbi,tbh->bih", attention, d_context),
        *d_score,
        tf.einsum("tbh,tbg->hg", inputs, d_x),
        d_kernel,
        *(() if d_bias is None else (d_bias,)),
    )


def _dropped(c: tf.Tensor, dropout: tf.Tensor | None, t: tf.Tensor) -> tf.Tensor:
    return c if dropout is None else c * dropout[t]
