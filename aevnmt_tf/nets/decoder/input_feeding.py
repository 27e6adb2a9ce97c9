"""Recurrent layers that read what the step before attended to, with their gradient written out.

    t_j = RNN(t_{j-1}, [e_{j-1}, a_{j-1}])               a stack of layers; t_j is the top one's
    c_j = attention(s_1^m, t_j)
    a_j = W_att [t_j, c_j]                               c_j itself where there is no W_att

As in nets/recurrent.py, whatever does not depend on the step before is outside of the loops.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from aevnmt_tf.nets.cells import Cell, ready, transposed
from aevnmt_tf.nets.decoder.bahdanau import Memory, Score, context
from aevnmt_tf.nets.matrix_products import apart, times
from aevnmt_tf.nets.recurrent import arrays, outputs_of, write

Masks = Sequence[tf.Tensor | None]


class LayerWeights(NamedTuple):
    """The weights of one layer, in the dtype to compute with."""

    kernel: tf.Tensor  # [F, 3H], the rows that meet a_{j-1}, or the output below
    bias: tf.Tensor | None  # [3H], the first; the bottom layer's is in its x
    recurrent_kernel: tf.Tensor  # [H, 3H]
    second_bias: tf.Tensor | None


class FeedingWeights(NamedTuple):
    """The weights of all layers and of attention."""

    layers: tuple[LayerWeights, ...]
    score: tuple[tf.Tensor, ...]  # of the Score
    attention_kernel: tf.Tensor | None  # W_att [H + M, H]


class Form(NamedTuple):
    """What is known when a graph is made."""

    cell: Cell
    score: Score
    units: int
    residual: tuple[bool, ...]  # whether a layer adds its input to its output


class Fed(NamedTuple):
    """What a sentence gives; time is the first axis."""

    outputs: tf.Tensor  # [T, B, H] t_j
    contexts: tf.Tensor  # [T, B, M] c_j
    feeds: tf.Tensor  # [T, B, H] a_j, or [T, B, M] c_j


def run_input_feeding(
    x: tf.Tensor,
    starts: tuple[tf.Tensor, ...],
    feed: tf.Tensor,
    memory: Memory,
    weights: FeedingWeights,
    masks: Masks,
    *,
    form: Form,
    wanted: tuple[str, ...],
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Run the layers over sentences.

    Args:
        x: [T, B, 3H], the projection of words for the bottom layer, first bias included.
        starts: [B, H] for each layer; [B, 2H] of an LSTM.
        feed: a_0, [B, H] or [B, M].
        memory: with the keys that `form.score` compares with.
        weights: FeedingWeights.
        masks: [T, B, F] for each layer, multiplies what meets its kernel; or None.
        form: Form.
        wanted: which fields of Fed to return.

    Returns:
        the wanted fields, and attention weights [T, B, Tx] (without a gradient).
    """
    loop = _Loop(memory.mask, masks, form)
    arguments = (x, starts, feed, memory.keys, memory.values, weights)
    flat = tf.nest.flatten(arguments)

    @tf.custom_gradient
    def recurrence(*tensors):  # type: ignore[no-untyped-def]
        given = iter(tensors)
        complete = [None if t is None else next(given) for t in flat]
        inputs = tf.nest.pack_sequence_as(arguments, complete)
        kept = loop.forward(*inputs)

        def gradient(*d_outputs: tf.Tensor) -> list[tf.Tensor]:
            d_wanted = dict(zip(wanted, d_outputs[:-1], strict=True))
            found = loop.backward(d_wanted, kept, *inputs)
            return [g for g in tf.nest.flatten(found) if g is not None]

        return (*(getattr(kept.fed, name) for name in wanted), kept.attention), gradient

    *found, attention = recurrence(*(t for t in flat if t is not None))
    return found, tf.stop_gradient(attention)


class _KeptSteps(NamedTuple):
    """What the forward loop leaves for the backward one; time is the first axis."""

    fed: Fed
    attention: tf.Tensor  # [T, B, Tx]
    states: list[tf.Tensor]  # [T, B, H] or [T, B, 2H] for each layer
    saved: list[list[tf.Tensor]]  # of the cell, for each layer


class _Loop:
    """The two loops; arguments as `run_input_feeding`."""

    def __init__(self, mask: tf.Tensor, masks: Masks, form: Form) -> None:
        self._mask = mask
        self._masks = masks
        self._form = form

    def forward(
        self,
        x: tf.Tensor,
        starts: tuple[tf.Tensor, ...],
        feed: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        w: FeedingWeights,
    ) -> _KeptSteps:
        """Return what the layers give, and what their gradient needs."""
        form, source = self._form, Memory(keys, values, self._mask)
        kernels = ready([layer.kernel for layer in w.layers])
        parts = [ready(form.cell.parts(layer.recurrent_kernel)) for layer in w.layers]
        to_feed = None if w.attention_kernel is None else apart(w.attention_kernel)
        columns, each = x.shape[-1], 1 + form.cell.num_saved

        def body(t: tf.Tensor, states: tuple, feed: tf.Tensor, kept: tuple) -> tuple:
            below, new, written = feed, [], []
            for k, layer in enumerate(w.layers):
                inputs = times(self._dropped(below, k, t), kernels[k], columns=columns)
                if k == 0:
                    inputs += x[t]
                elif layer.bias is not None:
                    inputs += layer.bias
                state, saved = form.cell.step(inputs, states[k], parts[k], layer.second_bias)
                new.append(state)
                written += [state, *saved]
                output = outputs_of(state, form.units)
                below = output + below if form.residual[k] else output
            attention = form.score.weights(form.score.query(below, w.score), source, w.score)
            c = a = context(attention, source)
            if to_feed is not None:
                a = times(tf.concat([below, c], axis=-1), to_feed, columns=form.units)
            return t + 1, tuple(new), a, write(kept, t, (below, c, a, attention, *written))

        empty = arrays(x, 4 + each * len(w.layers))
        steps = tf.shape(x)[0]
        _, _, _, full = tf.while_loop(
            lambda t, *_: t < steps, body, (0, starts, feed, empty), maximum_iterations=steps
        )
        outputs, c, a, attention, *rest = (array.stack() for array in full)
        layers = [rest[i : i + each] for i in range(0, len(rest), each)]
        states, saved = [layer[0] for layer in layers], [layer[1:] for layer in layers]
        return _KeptSteps(Fed(outputs, c, a), attention, states, saved)

    def backward(
        self,
        d_wanted: Mapping[str, tf.Tensor],
        kept: _KeptSteps,
        x: tf.Tensor,
        starts: tuple[tf.Tensor, ...],
        feed: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        w: FeedingWeights,
    ) -> Any:
        """Return the gradients of what `forward` reads, in the same structure."""
        form, source = self._form, Memory(keys, values, self._mask)
        before = [
            tf.concat([start[None], states[:-1]], axis=0)
            for start, states in zip(starts, kept.states, strict=True)
        ]
        queries = form.score.query(kept.fed.outputs, w.score)  # [T, B, H]
        back = _Transposed.of(form, w)
        layers = range(len(w.layers))

        def wanted(name: str, t: tf.Tensor, d: tf.Tensor | None) -> tf.Tensor | None:
            if name not in d_wanted:
                return d
            return d_wanted[name][t] if d is None else d + d_wanted[name][t]

        def body(
            t: tf.Tensor, d_states: tuple, d_feed: tf.Tensor, sums: tuple, written: tuple
        ) -> tuple:
            d_a = wanted("feeds", t, d_feed)
            d_out, d_c = back.through_feed(d_a)
            d_c = wanted("contexts", t, d_c)
            d_query, sums = form.score.gradient(
                d_c, queries[t], kept.attention[t], source, w.score, sums
            )
            d_out = _plus(wanted("outputs", t, d_out), back.through_query(d_query))
            d_old, d_layers = [], []
            for k in reversed(layers):
                d_new = d_states[k] + _as_state(d_out, d_states[k].shape[-1])
                d_x, d_inner, d_h = form.cell.gradient(
                    d_new,
                    before[k][t],
                    [s[t] for s in kept.saved[k]],
                    back.recurrent[k],
                    w.layers[k].second_bias,
                )
                d_below = times(d_x, back.kernels[k], columns=w.layers[k].kernel.shape[0])
                d_below = self._dropped(d_below, k, t)
                d_out = d_below + d_out if form.residual[k] else d_below
                d_old.append(d_h)
                d_layers += [d_x, d_inner]
            written = write(written, t, (d_a, d_c, d_query, *d_layers))
            return t - 1, tuple(reversed(d_old)), d_out, sums, written

        steps = tf.shape(x)[0]
        zeros = tf.nest.map_structure(tf.zeros_like, (starts, feed))
        state = (steps - 1, *zeros, form.score.no_sums(source, w.score))
        _, d_starts, d_feed, sums, written = tf.while_loop(
            lambda t, *_: t >= 0,
            body,
            (*state, arrays(x, 3 + 2 * len(w.layers))),
            maximum_iterations=steps,
        )
        d_a, d_c, d_query, *rest = (array.stack() for array in written)
        d_layers = list(reversed([tuple(rest[i : i + 2]) for i in range(0, len(rest), 2)]))
        d_keys, d_score = form.score.sentence_gradients(
            kept.fed.outputs, d_query, sums, w.score
        )
        d_values = tf.einsum("tbi,tbh->bih", kept.attention, d_c)
        d_weights = FeedingWeights(
            self._layer_gradients(feed, kept, before, d_layers, w),
            d_score,
            None if w.attention_kernel is None else _outer(tf.concat(kept.fed[:2], -1), d_a),
        )
        return d_layers[0][0], d_starts, d_feed, d_keys, d_values, d_weights

    def _layer_gradients(
        self,
        feed: tf.Tensor,
        kept: _KeptSteps,
        before: list[tf.Tensor],
        d_layers: list[tuple[tf.Tensor, tf.Tensor]],
        w: FeedingWeights,
    ) -> tuple[LayerWeights, ...]:
        """Return the gradients of all layers' weights, each one product over all steps."""
        found, form = [], self._form
        below = tf.concat([feed[None], kept.fed.feeds[:-1]], axis=0)
        for k, (layer, (d_x, d_inner)) in enumerate(zip(w.layers, d_layers, strict=True)):
            mask = self._masks[k]
            d_kernel = _outer(below if mask is None else below * mask, d_x)
            d_recurrent, d_second = form.cell.weight_gradients(
                before[k], kept.saved[k], d_x, d_inner
            )
            d_bias = None if layer.bias is None else tf.reduce_sum(d_x, axis=[0, 1])
            d_second = None if layer.second_bias is None else d_second
            found.append(LayerWeights(d_kernel, d_bias, d_recurrent, d_second))
            output = outputs_of(kept.states[k], form.units)
            below = output + below if form.residual[k] else output
        return tuple(found)

    def _dropped(self, inputs: tf.Tensor, k: int, t: tf.Tensor) -> tf.Tensor:
        mask = self._masks[k]
        return inputs if mask is None else inputs * mask[t]


class _Transposed(NamedTuple):
    """The matrices of the backward loop."""

    kernels: list[tf.Tensor]
    recurrent: list[list[tf.Tensor]]
    feed: tf.Tensor | None  # of W_att
    query: tf.Tensor | None
    sizes: tuple[int, int]  # of t_j and c_j

    @classmethod
    def of(cls, form: Form, w: FeedingWeights) -> "_Transposed":
        kernel = w.attention_kernel
        return cls(
            transposed([layer.kernel for layer in w.layers]),
            [transposed(form.cell.parts(layer.recurrent_kernel)) for layer in w.layers],
            None if kernel is None else transposed([kernel])[0],
            transposed(w.score[:1])[0] if form.score.projects else None,
            (form.units, 0 if kernel is None else kernel.shape[0] - form.units),
        )

    def through_feed(self, d_a: tf.Tensor) -> tuple[tf.Tensor | None, tf.Tensor]:
        """Return the gradients of t_j (None: there is none) and c_j."""
        if self.feed is None:
            return None, d_a
        return tuple(tf.split(times(d_a, self.feed, columns=sum(self.sizes)), self.sizes, -1))

    def through_query(self, d_query: tf.Tensor) -> tf.Tensor:
        """Return the gradient of t_j."""
        if self.query is None:
            return d_query
        return times(d_query, self.query, columns=self.sizes[0])


def _plus(one: tf.Tensor | None, other: tf.Tensor) -> tf.Tensor:
    return other if one is None else one + other


def _as_state(d_output: tf.Tensor, size: int) -> tf.Tensor:
    """Return the gradient of a state, of which the output is the first part."""
    missing = size - d_output.shape[-1]
    return tf.pad(d_output, [[0, 0], [0, missing]]) if missing else d_output


def _outer(inputs: tf.Tensor, d_outputs: tf.Tensor) -> tf.Tensor:
    return tf.einsum("tbh,tbg->hg", inputs, d_outputs)
