"""Gated recurrent units over whole sentences, in one direction or two.

Everything that does not depend on the previous state is outside of the loops: the inputs are
projected in one product before the forward loop, and the gradient of each weight is one product
after the backward loop. Both loops are written out (`tf.custom_gradient`), which keeps them to
a handful of operations a step. Each direction has loops of its own, which run at the same time:
on a CPU two products of matrices are faster than a batched one.

No mask is needed inside the loops: a state never depends on what comes after it, the backward
direction starts at each sentence's own end, and whoever reads the states masks them by length.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from aevnmt_tf.nets.cells import Cell, make_cell, ready, transposed
from aevnmt_tf.nets.embedding import Words
from aevnmt_tf.nets.matrix_products import compute, project

Noise = Mapping[str, tf.Tensor]  # dropout masks by layer name
Length: TypeAlias = "tf.Tensor | int"
Arrays = tuple[tf.TensorArray, ...]


def glorot_blocks(fan_in: int, blocks: tuple[int, ...]) -> Callable[..., tf.Tensor]:
    """Return a Glorot-uniform initializer as TF 1's cells have it.

    A GRU's gates are [fan_in, 2H], its candidate [fan_in, H], fan_in = in + H.
    """

    def initialize(shape: tuple[int, ...], dtype: str | None = None) -> tf.Tensor:
        rows, units = shape[0], shape[-1] // sum(blocks)
        parts = [
            keras.initializers.RandomUniform(-limit, limit)((rows, columns), dtype=dtype)
            for columns in (block * units for block in blocks)
            for limit in (math.sqrt(6.0 / (fan_in + columns)),)
        ]
        return tf.concat(parts, axis=-1)

    return initialize


def run_gru(
    x: tf.Tensor, start: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None, *, cell: Cell
) -> tf.Tensor:
    """Return the states of a recurrence.

    Args:
        x: [T, B, 3H] projected inputs, first bias included; [T, B, 4H] of an LSTM.
        start: [B, H] initial states; [B, 2H] of an LSTM.
        kernel: [H, 3H] recurrent kernel.
        bias: [1, 3H] second bias, or None where the cell has none.
        cell: of `cells.make_cell`.

    Returns:
        [T, B, H]; [T, B, 2H] of an LSTM.
    """
    weights = (kernel,) if bias is None else (kernel, bias)

    @tf.custom_gradient
    def recurrence(x, start, *weights):  # type: ignore[no-untyped-def]
        parts, bias = cell.parts(weights[0]), weights[-1]
        matrices, steps = ready(parts), tf.shape(x)[0]

        def forward(t: tf.Tensor, h: tf.Tensor, kept: Arrays) -> tuple:
            new, saved = cell.step(x[t], h, matrices, bias)
            return t + 1, new, write(kept, t, (new, *saved))

        _, _, kept = tf.while_loop(
            lambda t, *_: t < steps, forward, (0, start, arrays(x, 1 + cell.num_saved))
        )
        states, *saved = (array.stack() for array in kept)  # [T, B, H]

        def gradient(d_states: tf.Tensor) -> tuple[tf.Tensor, ...]:
            before = tf.concat([start[None], states[:-1]], axis=0)
            back = transposed(parts)

            def backward(t: tf.Tensor, d_h: tf.Tensor, kept: Arrays) -> tuple:
                d_x, d_inner, d_h = cell.gradient(
                    d_h + d_states[t], before[t], [s[t] for s in saved], back, bias
                )
                return t - 1, d_h, write(kept, t, (d_x, d_inner))

            _, d_start, kept = tf.while_loop(
                lambda t, *_: t >= 0,
                backward,
                (steps - 1, tf.zeros_like(start), arrays(x, 2)),
            )
            d_x, d_inner = (array.stack() for array in kept)
            d_weights = cell.weight_gradients(before, saved, d_x, d_inner)
            return d_x, d_start, *d_weights[: len(weights)]

        return states, gradient

    return recurrence(x, start, *weights)


def arrays(x: tf.Tensor, count: int) -> Arrays:
    """Return `count` arrays with one entry for each step of the time-major x."""
    return tuple(tf.TensorArray(x.dtype, size=tf.shape(x)[0]) for _ in range(count))


def write(kept: Arrays, t: tf.Tensor, values: Sequence[tf.Tensor]) -> Arrays:
    """Return the arrays with one value each written at t."""
    return tuple(array.write(t, value) for array, value in zip(kept, values, strict=True))


def outputs_of(states: tf.Tensor, units: int) -> tf.Tensor:
    """Return h [..., H] of states, which are h itself (GRU) or [h; c] (LSTM)."""
    return states if states.shape[-1] == units else states[..., :units]


class GRUWeights(keras.layers.Layer):
    """What every recurrent layer has: weights of each direction, the projection of inputs."""

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
        self.reset = reset
        self.unit = unit
        self.forget_bias = forget_bias
        self.cell = make_cell(unit, reset=reset, forget_bias=forget_bias)

    def build(self, *_: Any) -> None:
        """Create kernel [in, 3H], recurrent_kernel [H, 3H] and bias for each direction."""
        blocks, columns = self.cell.blocks, sum(self.cell.blocks) * self.units
        initializer = glorot_blocks(self.input_size + self.units, blocks)
        for prefix in self.directions:
            for name, shape, init in (
                ("kernel", (self.input_size, columns), initializer),
                ("recurrent_kernel", (self.units, columns), initializer),
                *self.cell.extras(self.units),
            ):
                weight = self.add_weight(name=prefix + name, shape=shape, initializer=init)
                setattr(self, prefix + name, weight)
        self.built = True

    def weights_of(
        self, prefix: str = ""
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None, tf.Tensor | None]:
        """Return a direction's weights to compute with.

        Kernel [in, 3H], recurrent kernel [H, 3H], first bias [3H], second bias [1, 3H] or None.
        """
        names = ["kernel", "recurrent_kernel", *(e[0] for e in self.cell.extras(self.units))]
        kernel, recurrent, *extras = (
            compute(self, getattr(self, prefix + name)) for name in names
        )
        return kernel, recurrent, *self.cell.biases(*extras)

    def run(self, inputs: Sequence[tf.Tensor | Words], start: tf.Tensor) -> list[tf.Tensor]:
        """Return states [B, T, H] for each direction, of an LSTM [B, T, 2H].

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
                x = project(tf.transpose(sequence, [1, 0, 2]), kernel, bias)  # [T, B, 3H]
            states = run_gru(x, start, recurrent, second, cell=self.cell)
            found.append(tf.transpose(states, [1, 0, 2]))
        return found

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        names = ("input_size", "units", "reset", "unit", "forget_bias")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


@keras.saving.register_keras_serializable("aevnmt_tf")
class GRU(GRUWeights):
    """A GRU over a sentence. `inputs` [B, T, in], `start` [B, H] -> states [B, T, H].

    `dropout` [B, T, in] multiplies the inputs: a fresh mask for each step.
    """

    def call(
        self, inputs: tf.Tensor, start: tf.Tensor, dropout: tf.Tensor | None = None
    ) -> tf.Tensor:
        """See the class."""
        return outputs_of(self.states(inputs, start, dropout), self.units)

    def states(
        self, inputs: tf.Tensor, start: tf.Tensor, dropout: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Return all of the states, which of an LSTM are [h; c]: [B, T, 2H]."""
        inputs, start = compute(self, inputs), compute(self, start)
        if dropout is not None:
            inputs *= compute(self, dropout)
        return self.run([inputs], start)[0]

    def noise_shape(self, steps: Length) -> tuple[Length, ...]:
        """Return the shape per sentence of the dropout mask."""
        return (steps, self.input_size)

    def step(self, inputs: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """Return the new state after one step, for inputs [B, in] and state [B, H]."""
        kernel, recurrent, bias, second = self.weights_of()
        x = project(compute(self, inputs), kernel, bias)
        return self.cell.step(x, compute(self, state), self.cell.parts(recurrent), second)[0]


@keras.saving.register_keras_serializable("aevnmt_tf")
class BiGRU(GRUWeights):
    """A GRU in both directions from ONE start.

    `inputs` [B, T, in] or Words, `lengths` [B], `start` [B, H] -> [B, T, 2H].
    The backward direction reads each sentence from its own last token. `dropout` [B, T, 2, in]
    has a mask for each direction, in the order of the sentence.
    """

    directions = ("forward_", "backward_")

    def noise_shape(self, steps: Length) -> tuple[Length, ...]:
        """Return the shape per sentence of the dropout mask."""
        return (steps, 2, self.input_size)

    def call(
        self,
        inputs: tf.Tensor | Words,
        lengths: tf.Tensor,
        start: tf.Tensor,
        dropout: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """See the class."""
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
