"""Recurrent layers over whole sentences, in one direction or two.

Everything that does not depend on the previous state is outside of the loops: one product
projects all inputs before the forward loop, and one product after the backward loop gives the
gradient of each weight. Both loops are written out (`tf.custom_gradient`), which keeps them to
a handful of operations per step. Each direction has its own loops, which run at the same time:
on a CPU two matrix products are faster than a batched one.

The loops need no mask: a state never depends on what comes after it, the backward direction
starts at the end of each sentence, and the readers of the states mask them by length.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from aevnmt_tf.nets.cells import Cell, ResetAfter, ResetBefore, StepWeights
from aevnmt_tf.nets.embedding import Words
from aevnmt_tf.nets.matrix_products import compute, project
from aevnmt_tf.nets.tf_nmt.lstm_cells import BasicLSTM, LayerNormLSTM

Noise = Mapping[str, tf.Tensor]  # dropout masks by layer name
Length: TypeAlias = "tf.Tensor | int"


def make_cell(unit: str, *, reset: str, forget_bias: float) -> Cell:
    """Return the cell of a unit_type: gru, lstm or layer_norm_lstm."""
    if unit == "gru":
        return {"before": ResetBefore, "after": ResetAfter}[reset]()
    return {"lstm": BasicLSTM, "layer_norm_lstm": LayerNormLSTM}[unit](forget_bias)


def glorot_blocks(fan_in: int, blocks: tuple[int, ...]) -> Callable[..., tf.Tensor]:
    """Return the Glorot-uniform initializer of TF 1's cells.

    The gates of a GRU are [fan_in, 2H], its candidate is [fan_in, H], where fan_in = in + H.
    """

    def initialize(shape: tuple[int, ...], dtype: str | None = None) -> tf.Tensor:
        rows, units = shape[0], shape[-1] // sum(blocks)
        parts = []
        for columns in (block * units for block in blocks):
            limit = math.sqrt(6.0 / (fan_in + columns))
            uniform = keras.initializers.RandomUniform(-limit, limit)
            parts.append(uniform((rows, columns), dtype=dtype))
        return tf.concat(parts, axis=-1)

    return initialize


def run_steps(
    body: Callable[..., tuple[tuple, Sequence[tf.Tensor]]],
    state: tuple,
    x: tf.Tensor,
    *,
    count: int,
    reverse: bool = False,
) -> tuple[tuple, list[tf.Tensor]]:
    """Run a loop over the time steps of x [T, ...].

    Args:
        body: maps t and the state to the next state and to `count` tensors.
        state: before the first step.
        x: has as many steps as the loop, and the dtype of the tensors.
        count: how many tensors a step gives.
        reverse: whether to start at the last step.

    Returns:
        The last state, and the tensors of all steps, [T, ...] each.
    """
    steps = tf.shape(x)[0]
    arrays = tuple(tf.TensorArray(x.dtype, size=steps) for _ in range(count))

    def step(t: tf.Tensor, state: tuple, arrays: tuple) -> tuple:
        state, values = body(t, *state)
        arrays = tuple(a.write(t, value) for a, value in zip(arrays, values, strict=True))
        return (t - 1 if reverse else t + 1), state, arrays

    def goes_on(t: tf.Tensor, *_: Any) -> tf.Tensor:
        return t >= 0 if reverse else t < steps

    start = steps - 1 if reverse else 0
    _, state, arrays = tf.while_loop(goes_on, step, (start, state, arrays))
    return state, [array.stack() for array in arrays]


def run_recurrence(
    x: tf.Tensor, start: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None, *, cell: Cell
) -> tf.Tensor:
    """Return the states [T, B, H] of a recurrence; [T, B, 2H] of an LSTM.

    Args:
        x: [T, B, 3H] projected inputs, first bias included; [T, B, 4H] of an LSTM.
        start: [B, H] initial states; [B, 2H] of an LSTM.
        kernel: [H, 3H] recurrent kernel.
        bias: [1, 3H] second bias, or None where the cell has none.
        cell: of `make_cell`.
    """
    weights = (kernel,) if bias is None else (kernel, bias)

    @tf.custom_gradient
    def recurrence(x, start, *weights):  # type: ignore[no-untyped-def]
        kernel, bias = weights if len(weights) == 2 else (*weights, None)
        ready = cell.forward_weights(kernel, bias)

        def forward(t: tf.Tensor, h: tf.Tensor) -> tuple:
            new, saved = cell.step(x[t], h, ready)
            return (new,), (new, *saved)

        _, (states, *saved) = run_steps(forward, (start,), x, count=1 + cell.num_saved)

        def gradient(d_states: tf.Tensor) -> tuple[tf.Tensor, ...]:
            before = states_before(start, states)
            back = cell.backward_weights(kernel, bias)

            def backward(t: tf.Tensor, d_h: tf.Tensor) -> tuple:
                d_x, d_inner, d_h = cell.gradient(
                    d_h + d_states[t], before[t], [s[t] for s in saved], back
                )
                return (d_h,), (d_x, d_inner)

            zeros = (tf.zeros_like(start),)
            (d_start,), (d_x, d_inner) = run_steps(backward, zeros, x, count=2, reverse=True)
            d_weights = cell.weight_gradients(before, saved, d_x, d_inner)
            return d_x, d_start, *d_weights[: len(weights)]

        return states, gradient

    return recurrence(x, start, *weights)


def states_before(start: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
    """Return the states before each step, of the first [B, H] and those after [T, B, H]."""
    return tf.concat([start[None], states[:-1]], axis=0)


def outputs_of(states: tf.Tensor, units: int) -> tf.Tensor:
    """Return h [..., H] of states, which are h itself (GRU) or [h; c] (LSTM)."""
    return states if states.shape[-1] == units else states[..., :units]


def time_first(sequence: tf.Tensor) -> tf.Tensor:
    """Return [T, B, ...] of [B, T, ...], or the other way around."""
    return tf.transpose(sequence, [1, 0, 2])


class RecurrentLayer(keras.layers.Layer):
    """What recurrent layers share: the weights of each direction and the projection of inputs.

    Args:
        input_size: the size of an input.
        units: H.
        reset: "before" or "after", the place of a GRU's reset gate.
        unit: "gru", "lstm" or "layer_norm_lstm".
        forget_bias: of an LSTM.
    """

    directions: tuple[str, ...] = ("",)

    def __init__(
        self,
        *,
        input_size: int,
        units: int,
        reset: str = "before",
        unit: str = "gru",
        forget_bias: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.input_size = input_size
        self.units = units
        self.cell = make_cell(unit, reset=reset, forget_bias=forget_bias)

    def build(self, *_: Any) -> None:
        """Create kernel [in, 3H], recurrent_kernel [H, 3H] and bias for each direction."""
        columns = sum(self.cell.blocks) * self.units
        initializer = glorot_blocks(self.input_size + self.units, self.cell.blocks)
        for prefix in self.directions:
            for name, shape, init in (
                ("kernel", (self.input_size, columns), initializer),
                ("recurrent_kernel", (self.units, columns), initializer),
                *self.cell.extras(self.units),
            ):
                weight = self.add_weight(name=prefix + name, shape=shape, initializer=init)
                setattr(self, prefix + name, weight)

    def weights_of(
        self, prefix: str = ""
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None, tf.Tensor | None]:
        """Return the weights of a direction in the dtype to compute in.

        They are kernel [in, 3H], recurrent kernel [H, 3H], first bias [3H] and second bias
        [1, 3H]. A cell may lack either bias.
        """
        names = ["kernel", "recurrent_kernel", *(e[0] for e in self.cell.extras(self.units))]
        kernel, recurrent, *extras = (
            compute(self, getattr(self, prefix + name)) for name in names
        )
        return kernel, recurrent, *self.cell.biases(*extras)

    def run(self, inputs: Sequence[tf.Tensor | Words], start: tf.Tensor) -> list[tf.Tensor]:
        """Return the states [B, T, H] of each direction, of an LSTM [B, T, 2H].

        Args:
            inputs: [B, T, in] or Words, for each direction.
            start: [B, H], the same for all; of an LSTM [B, 2H].
        """
        found = []
        for prefix, sequence in zip(self.directions, inputs, strict=True):
            kernel, recurrent, bias, second = self.weights_of(prefix)
            if isinstance(sequence, Words):
                x = project(compute(self, sequence.vectors), kernel, bias)  # [words, 3H]
                x = tf.gather(x, tf.transpose(sequence.places))  # [T, B, 3H]
            else:
                x = project(time_first(sequence), kernel, bias)  # [T, B, 3H]
            found.append(
                time_first(run_recurrence(x, start, recurrent, second, cell=self.cell))
            )
        return found


@keras.saving.register_keras_serializable("aevnmt_tf")
class GRU(RecurrentLayer):
    """A recurrent layer that reads a sentence from its first word on."""

    def call(
        self, inputs: tf.Tensor, start: tf.Tensor, dropout: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Return the outputs [B, T, H]; see `states`."""
        return outputs_of(self.states(inputs, start, dropout), self.units)

    def states(
        self, inputs: tf.Tensor, start: tf.Tensor, dropout: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Return the states [B, T, H], which are [h; c] of an LSTM, [B, T, 2H].

        Args:
            inputs: [B, T, in].
            start: [B, H]; of an LSTM [B, 2H].
            dropout: [B, T, in] multiplies the inputs: a fresh mask for each step.
        """
        inputs, start = compute(self, inputs), compute(self, start)
        if dropout is not None:
            inputs *= compute(self, dropout)
        return self.run([inputs], start)[0]

    def noise_shape(self, steps: Length) -> tuple[Length, ...]:
        """Return the shape of the dropout mask per sentence."""
        return (steps, self.input_size)

    def step(self, inputs: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """Return the new state after one step, for inputs [B, in] and state [B, H]."""
        kernel, recurrent, bias, second = self.weights_of()
        x = project(compute(self, inputs), kernel, bias)
        weights = StepWeights(self.cell.parts(recurrent), second)
        return self.cell.step(x, compute(self, state), weights)[0]


@keras.saving.register_keras_serializable("aevnmt_tf")
class BiGRU(RecurrentLayer):
    """A recurrent layer in both directions, which start from the SAME state.

    The backward direction reads each sentence from its own last token.
    """

    directions = ("forward_", "backward_")

    def noise_shape(self, steps: Length) -> tuple[Length, ...]:
        """Return the shape of the dropout mask per sentence."""
        return (steps, 2, self.input_size)

    def call(
        self,
        inputs: tf.Tensor | Words,
        lengths: tf.Tensor,
        start: tf.Tensor,
        dropout: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the outputs of both directions, [B, T, 2H].

        Args:
            inputs: [B, T, in] or Words.
            lengths: [B].
            start: [B, H].
            dropout: [B, T, 2, in], a mask for each direction, in the order of the sentence.
        """
        start = compute(self, start)
        if isinstance(inputs, Words):
            forward, places = inputs, tf.reverse_sequence(inputs.places, lengths, seq_axis=1)
            backward = inputs._replace(places=places)
        else:
            forward = backward = compute(self, inputs)
            if dropout is not None:
                dropout = compute(self, dropout)
                forward, backward = forward * dropout[:, :, 0], backward * dropout[:, :, 1]
            backward = tf.reverse_sequence(backward, lengths, seq_axis=1)
        states = self.run([forward, backward], start)
        forward, backward = (outputs_of(each, self.units) for each in states)
        backward = tf.reverse_sequence(backward, lengths, seq_axis=1)
        return tf.concat([forward, backward], axis=-1)
