"""Recurrent layers with attention over whole sentences, with their gradient written out.

The paper's layer attends with its old state, before it takes a step:

    c_j = attention(s_1^m, t_{j-1})                      Eq. (att)
    t_j = RNN(t_{j-1}, [c_j, e_{j-1}])                   Eq. (dec)

TF-NMT's layers attend with the new state t_j of the top one, and read the result in the next
step (input feeding):

    t_j = RNN(t_{j-1}, [e_{j-1}, a_{j-1}])
    c_j = attention(s_1^m, t_j)
    a_j = W_att [t_j, c_j]                               c_j itself where there is no W_att

As in nets/recurrent.py, whatever does not depend on the previous step is outside of the loops.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from aevnmt_tf.nets.cells import Cell
from aevnmt_tf.nets.decoder.attention import (
    Attention,
    Memory,
    Tensors,
    context,
    scores_gradient,
)
from aevnmt_tf.nets.matrix_products import apart, kernel_gradient, times, transposed
from aevnmt_tf.nets.recurrent import outputs_of, run_steps, states_before


class LayerWeights(NamedTuple):
    """The weights of one layer, in the dtype to compute in."""

    kernel: tf.Tensor  # [F, 3H], the rows for what the layer reads from attention or below
    bias: tf.Tensor | None  # [3H], the first; that of the bottom layer is part of x
    recurrent_kernel: tf.Tensor  # [H, 3H]
    second_bias: tf.Tensor | None


class LoopInputs(NamedTuple):
    """The tensors that the loop reads, or their gradients."""

    x: tf.Tensor  # [T, B, 3H], the bottom layer's projection of words, first bias included
    starts: Tensors  # [B, H] for each layer; [B, 2H] of an LSTM
    feed: Tensors  # a_0, [B, H] or [B, M]; nothing if attention comes first
    memory: Memory
    layers: Sequence[LayerWeights]
    score: Tensors  # Attention.score_weights()
    attention_kernel: tf.Tensor | None  # W_att [H + M, H]
    masks: Sequence[
        tf.Tensor | None
    ]  # [T, B, F] for each layer, multiply what meets its kernel


class Form(NamedTuple):
    """What is known when the graph is built."""

    cell: Cell
    attention: Attention
    units: int
    residual: Sequence[bool]  # whether a layer adds its input to its output
    attends_first: bool  # the paper's order


def run_attention_loop(
    inputs: LoopInputs, form: Form, *, wanted: Sequence[str]
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Run the layers over sentences.

    Args:
        inputs: LoopInputs.
        form: Form.
        wanted: what to return: "outputs" t_j, "contexts" c_j, "feeds" a_j.

    Returns:
        What is wanted [T, B, ...], and attention weights [T, B, Tx] (without a gradient).
    """
    flat = tf.nest.flatten(inputs)

    @tf.custom_gradient
    def recurrence(*tensors):  # type: ignore[no-untyped-def]
        given = iter(tensors)
        complete = [None if t is None else next(given) for t in flat]
        read = tf.nest.pack_sequence_as(inputs, complete)
        kept = _forward(read, form)

        def gradient(*d_outputs: tf.Tensor) -> list[tf.Tensor]:
            d_wanted = dict(zip(wanted, d_outputs[:-1], strict=True))
            found = tf.nest.flatten(_backward(d_wanted, kept, read, form))
            return [g for g, t in zip(found, flat, strict=True) if t is not None]

        results = {"outputs": kept.reads[-1], "contexts": kept.contexts, "feeds": kept.feeds}
        return (*(results[name] for name in wanted), kept.attention), gradient

    *found, attention = recurrence(*(t for t in flat if t is not None))
    return found, tf.stop_gradient(attention)


class _KeptSteps(NamedTuple):
    """What the forward loop keeps for the backward loop; time is the first axis."""

    contexts: tf.Tensor  # [T, B, M]
    feeds: tf.Tensor  # [T, B, H] a_j, or the contexts
    attention: tf.Tensor  # [T, B, Tx]
    reads: list[tf.Tensor]  # [T, B, F] what each layer reads, and at last the top output
    states: list[tf.Tensor]  # [T, B, H] or [T, B, 2H] of each layer
    saved: list[list[tf.Tensor]]  # by the cell, for each layer


def _forward(inputs: LoopInputs, form: Form) -> _KeptSteps:
    memory, w_att = inputs.memory, inputs.attention_kernel
    kernels = [apart(layer.kernel) for layer in inputs.layers]
    recurrent = [
        form.cell.forward_weights(layer.recurrent_kernel, layer.second_bias)
        for layer in inputs.layers
    ]
    to_feed = None if w_att is None else apart(w_att)
    columns, each = inputs.x.shape[-1], 1 + form.cell.num_saved

    def climb(t: tf.Tensor, below: tf.Tensor, states: Tensors) -> tuple:
        """Return the top output, the new states, and what the gradient needs."""
        new, written = [], []
        for k, layer in enumerate(inputs.layers):
            x = times(_dropped(below, inputs, k, t), kernels[k], columns=columns)
            if k == 0:
                x += inputs.x[t]
            elif layer.bias is not None:
                x += layer.bias
            state, saved = form.cell.step(x, states[k], recurrent[k])
            new.append(state)
            written += [state, *saved]
            output = outputs_of(state, form.units)
            below = output + below if form.residual[k] else output
        return below, tuple(new), written

    def attend(output: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        query = form.attention.query(output, inputs.score)
        weights = form.attention.attend(query, memory, inputs.score)
        return context(weights, memory), weights

    def attend_first(t: tf.Tensor, states: Tensors) -> tuple:
        c, weights = attend(outputs_of(states[-1], form.units))  # Eq. (att)
        _, states, written = climb(t, c, states)  # Eq. (dec)
        return (states,), (c, weights, *written)

    def feed_input(t: tf.Tensor, states: Tensors, feed: tf.Tensor) -> tuple:
        output, states, written = climb(t, feed, states)
        c, weights = attend(output)
        if to_feed is None:
            return (states, c), (c, weights, *written)
        a = times(tf.concat([output, c], axis=-1), to_feed, columns=form.units)
        return (states, a), (c, weights, *written, a)

    count = 2 + each * len(inputs.layers) + (w_att is not None)
    start = (inputs.starts, *inputs.feed)
    body = attend_first if form.attends_first else feed_input
    _, (contexts, attention, *rest) = run_steps(body, start, inputs.x, count=count)
    feeds = contexts if w_att is None else rest.pop()
    layers = [rest[i : i + each] for i in range(0, len(rest), each)]
    reads = [contexts if form.attends_first else states_before(inputs.feed[0], feeds)]
    for (states, *_), residual in zip(layers, form.residual, strict=True):
        output = outputs_of(states, form.units)
        reads.append(output + reads[-1] if residual else output)
    saved = [layer[1:] for layer in layers]
    return _KeptSteps(contexts, feeds, attention, reads, [layer[0] for layer in layers], saved)


def _backward(
    d_wanted: Mapping[str, tf.Tensor], kept: _KeptSteps, inputs: LoopInputs, form: Form
) -> LoopInputs:
    """Return the gradients of the inputs."""
    through = _Through(kept, inputs, form)

    def wanted(name: str, t: tf.Tensor, d: tf.Tensor | None = None) -> tf.Tensor | None:
        """Return a gradient with the part that comes from outside of the loop."""
        return _plus(d, d_wanted[name][t]) if name in d_wanted else d

    def attend_first(t: tf.Tensor, d_states: Tensors, sums: Tensors) -> tuple:
        d_c, d_states, d_layers = through.layers(t, wanted("outputs", t), d_states)
        d_c = wanted("contexts", t, d_c)
        d_query, d_output, sums = through.attention(t, d_c, sums)
        *lower, top = d_states
        top += _as_state(d_output, top.shape[-1])
        return ((*lower, top), sums), (d_c, d_query, *d_layers)

    def feed_input(t: tf.Tensor, d_states: Tensors, sums: Tensors, d_feed: tf.Tensor) -> tuple:
        d_a = wanted("feeds", t, d_feed)
        d_out, d_c = through.feed(d_a)
        d_c = wanted("contexts", t, d_c)
        d_query, d_output, sums = through.attention(t, d_c, sums)
        d_out = _plus(wanted("outputs", t, d_out), d_output)
        d_feed, d_states, d_layers = through.layers(t, d_out, d_states)
        written = (d_c, d_query, *d_layers, d_a)
        return (d_states, sums, d_feed), written[:count]

    has_kernel = inputs.attention_kernel is not None
    count = 2 + 2 * len(inputs.layers) + has_kernel
    d_starts, d_feed = tf.nest.map_structure(tf.zeros_like, (inputs.starts, inputs.feed))
    start = (d_starts, form.attention.no_sums(inputs.memory, inputs.score), *d_feed)
    body = attend_first if form.attends_first else feed_input
    last, written = run_steps(body, start, inputs.x, count=count, reverse=True)
    d_starts, sums, *d_feed = last
    d_contexts, d_queries, *rest = written
    d_kernel = None
    if has_kernel:
        d_kernel = kernel_gradient(tf.concat([kept.reads[-1], kept.contexts], -1), rest.pop())
    d_layers = [rest[i : i + 2] for i in range(0, len(rest), 2)][::-1]
    d_keys, d_score = form.attention.sentence_gradients(
        through.asking, d_queries, sums, inputs.score
    )
    d_values = tf.einsum("tbi,tbm->bim", kept.attention, d_contexts)
    return LoopInputs(
        x=d_layers[0][0],
        starts=d_starts,
        feed=tuple(d_feed),
        memory=Memory(d_keys, d_values, None),
        layers=[through.weights(k, *d_layer) for k, d_layer in enumerate(d_layers)],
        score=d_score,
        attention_kernel=d_kernel,
        masks=[None for _ in inputs.masks],
    )


class _Through:
    """The parts of a backward step, and the matrices they need."""

    def __init__(self, kept: _KeptSteps, inputs: LoopInputs, form: Form) -> None:
        self._kept, self._inputs, self._form = kept, inputs, form
        self._before = list(map(states_before, inputs.starts, kept.states))
        # The outputs that attention is asked with, [T, B, H].
        self.asking = kept.reads[-1]
        if form.attends_first:
            self.asking = outputs_of(self._before[-1], form.units)
        self._queries = form.attention.query(self.asking, inputs.score)  # [T, B, H]
        self._kernels = [transposed(layer.kernel) for layer in inputs.layers]
        self._recurrent = [
            form.cell.backward_weights(layer.recurrent_kernel, layer.second_bias)
            for layer in inputs.layers
        ]
        self._query = transposed(inputs.score[0]) if form.attention.projects else None
        kernel = inputs.attention_kernel
        self._feed = None if kernel is None else transposed(kernel)

    def layers(self, t: tf.Tensor, d_out: tf.Tensor, d_states: Tensors) -> tuple:
        """Return the gradients of what the bottom layer reads, of the old states, and more."""
        inputs, form = self._inputs, self._form
        d_old, d_layers = [], []
        for k in reversed(range(len(inputs.layers))):
            d_new = d_states[k] + _as_state(d_out, d_states[k].shape[-1])
            saved = [s[t] for s in self._kept.saved[k]]
            d_x, d_inner, d_h = form.cell.gradient(
                d_new, self._before[k][t], saved, self._recurrent[k]
            )
            columns = inputs.layers[k].kernel.shape[0]
            d_below = times(d_x, self._kernels[k], columns=columns)
            d_below = _dropped(d_below, inputs, k, t)
            d_out = d_below + d_out if form.residual[k] else d_below
            d_old.append(d_h)
            d_layers += [d_x, d_inner]
        return d_out, tuple(reversed(d_old)), d_layers

    def attention(self, t: tf.Tensor, d_c: tf.Tensor, sums: Tensors) -> tuple:
        """Return the gradients of the query and of its output, and the new sums."""
        memory, score = self._inputs.memory, self._inputs.score
        d_scores = scores_gradient(d_c, self._kept.attention[t], memory)
        d_query, sums = self._form.attention.gradient(
            d_scores, self._queries[t], memory, score, sums
        )
        if self._query is None:
            return d_query, d_query, sums
        return d_query, times(d_query, self._query, columns=self._form.units), sums

    def feed(self, d_a: tf.Tensor) -> tuple[tf.Tensor | None, tf.Tensor]:
        """Return the gradients of the output t_j (None without W_att) and of c_j."""
        if self._feed is None:
            return None, d_a
        sizes = [self._form.units, self._inputs.memory.values.shape[-1]]
        d_out, d_c = tf.split(times(d_a, self._feed, columns=sum(sizes)), sizes, axis=-1)
        return d_out, d_c

    def weights(self, k: int, d_x: tf.Tensor, d_inner: tf.Tensor) -> LayerWeights:
        """Return the gradients of layer k's weights, each one product over all steps."""
        layer, mask, read = self._inputs.layers[k], self._inputs.masks[k], self._kept.reads[k]
        d_kernel = kernel_gradient(read if mask is None else read * mask, d_x)
        d_bias = None if layer.bias is None else tf.reduce_sum(d_x, axis=[0, 1])
        d_recurrent, d_second = self._form.cell.weight_gradients(
            self._before[k], self._kept.saved[k], d_x, d_inner
        )
        return LayerWeights(d_kernel, d_bias, d_recurrent, d_second)


def _dropped(values: tf.Tensor, inputs: LoopInputs, k: int, t: tf.Tensor) -> tf.Tensor:
    """Return what layer k reads at step t, or its gradient, after dropout."""
    mask = inputs.masks[k]
    return values if mask is None else values * mask[t]


def _plus(one: tf.Tensor | None, other: tf.Tensor) -> tf.Tensor:
    return other if one is None else one + other


def _as_state(d_output: tf.Tensor, size: int) -> tf.Tensor:
    """Return the gradient of a state, of which the output is the first part."""
    missing = size - d_output.shape[-1]
    return tf.pad(d_output, [[0, 0], [0, missing]]) if missing else d_output
