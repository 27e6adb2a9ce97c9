"""Stacks of recurrent layers started from z: what the source LM, encoder and decoder share."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.recurrent import (
    GRU,
    Length,
    Noise,
    RecurrentLayer,
    make_cell,
    outputs_of,
)


@keras.saving.register_keras_serializable("aevnmt_tf")
class InitialState(keras.layers.Layer):
    """tanh(affine(z)) for each layer of a stack: Eq. (init-lm), Eq. (init-dec).

    Without z (z_size None), states are zero. The first affine map is called `label`, the next
    `label`_2, and so on.
    """

    def __init__(
        self,
        *,
        label: str,
        units: int,
        num_layers: int = 1,
        z_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.num_layers = num_layers
        self.z_size = z_size
        self.affine = []
        if z_size is not None:
            self.affine = [
                keras.layers.Dense(
                    units, activation="tanh", name=numbered(label, k), dtype=self.dtype_policy
                )
                for k in range(num_layers)
            ]

    def build(self, *_: Any) -> None:
        """Create kernel [Z, H] and bias [H] of each map."""
        for layer in self.affine:
            layer.build((None, self.z_size))

    def call(self, z: tf.Tensor | None, lengths: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Return a state [B, H] for each layer, given z [B, Z] or None, and lengths [B]."""
        if self.affine:
            return tuple(layer(z) for layer in self.affine)
        zeros = tf.zeros([tf.shape(lengths)[0], self.units], self.compute_dtype)
        return (zeros,) * self.num_layers


def numbered(label: str, k: int) -> str:
    """Return the name of layer k (from 0) of a stack: label, label_2, label_3 ..."""
    return label if k == 0 else f"{label}_{k + 1}"


class RecurrentStack(keras.layers.Layer):
    """Recurrent layers, each started from its own map of z. A subclass names them.

    Args:
        input_size: E.
        units: H.
        num_layers: how many layers.
        z_size: Z, or None to start from zeros.
        reset: "before" or "after", the place of a GRU's reset gate.
        feed_z: whether the first layer also reads z at every step, after its other inputs.
        unit: "gru", "lstm" or "layer_norm_lstm"; z starts both h and c of an LSTM.
        forget_bias: of an LSTM.
        num_starts: how many initial states there are, if not one for each of num_layers.
    """

    kind: type[RecurrentLayer] = GRU
    gru_label = ""
    start_label = ""

    def __init__(
        self,
        *,
        input_size: int,
        units: int,
        num_layers: int = 1,
        z_size: int | None = None,
        reset: str = "before",
        feed_z: bool = False,
        unit: str = "gru",
        forget_bias: float = 1.0,
        num_starts: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.input_size = input_size
        self.units = units
        self.num_layers = num_layers
        self.z_size = z_size
        self.fed_size = z_size if feed_z and z_size else 0  # how much of z every step reads
        self._unit: dict[str, Any] = {"unit": unit, "reset": reset, "forget_bias": forget_bias}
        self.start = InitialState(
            label=self.start_label,
            units=units * make_cell(**self._unit).state_parts,
            num_layers=num_layers if num_starts is None else num_starts,
            z_size=z_size,
            name=self.start_label.replace("init", "start"),
            dtype=self.dtype_policy.name,
        )

    def build(self, *_: Any) -> None:
        """Create the recurrent layers and all weights."""
        self.grus = [
            self.make_layer(self.size_below(k), numbered(self.gru_label, k))
            for k in range(self.num_layers)
        ]
        self.start.build()
        for layer in self.grus:
            layer.build()

    def make_layer(self, input_size: int, name: str) -> RecurrentLayer:
        """Return a layer of this stack; `gru` in its name is replaced by the unit's name."""
        return self.kind(
            input_size=input_size,
            units=self.units,
            name=name.replace("gru", self._unit["unit"]),
            dtype=self.dtype_policy.name,
            **self._unit,
        )

    def size_below(self, k: int) -> int:
        """Return the size of what layer k (from 0) reads."""
        return self.units if k else self.input_size + self.fed_size

    def fed(self, z: tf.Tensor | None, lengths: tf.Tensor) -> tf.Tensor:
        """Return the part of z [B, Z] that every step reads: [B, fed_size]."""
        if z is None or not self.fed_size:
            return tf.zeros([tf.shape(lengths)[0], 0], self.compute_dtype)
        return tf.cast(z, self.compute_dtype)

    def noise_shapes(self, steps: Length) -> dict[str, tuple[Length, ...]]:
        """Return the shape of each dropout mask per sentence, by layer name."""
        return {layer.name: layer.noise_shape(steps) for layer in self.grus}


def run_stack(
    layers: Sequence[GRU],
    inputs: tf.Tensor,
    starts: Sequence[tf.Tensor],
    noise: Noise,
    *,
    residual: int = 0,
    beside: tf.Tensor | None = None,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Return the outputs [B, T, H] of the top layer, and the states [B, T, ...] of each layer.

    Args:
        layers: from the bottom up.
        inputs: [B, T, in] of the first layer.
        starts: the initial state of each layer.
        noise: dropout masks by layer name.
        residual: how many layers, from the top, add their input to their output. Dropout is
            inside of these connections.
        beside: [B, T, M], what each layer reads in addition to the one below.
    """
    all_states = []
    for k, (layer, start) in enumerate(zip(layers, starts, strict=True)):
        read = inputs if beside is None else tf.concat([inputs, beside], axis=-1)
        all_states.append(layer.states(read, start, noise.get(layer.name)))
        outputs = outputs_of(all_states[-1], layer.units)
        inputs = outputs + inputs if k >= len(layers) - residual else outputs
    return inputs, all_states


def step_stack(
    layers: Sequence[GRU],
    inputs: tf.Tensor,
    states: Sequence[tf.Tensor],
    *,
    residual: int = 0,
    beside: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
    """Return the top output [N, H] and the new states after one step; see `run_stack`."""
    new = []
    for k, (layer, state) in enumerate(zip(layers, states, strict=True)):
        read = inputs if beside is None else tf.concat([inputs, beside], axis=-1)
        new.append(layer.step(read, state))
        outputs = outputs_of(new[-1], layer.units)
        inputs = outputs + inputs if k >= len(layers) - residual else outputs
    return inputs, tuple(new)


def with_fed(inputs: tf.Tensor, fed: tf.Tensor) -> tf.Tensor:
    """Append `fed` [B, n] to the inputs [B, T, in] of every step: [B, T, in + n]."""
    if fed.shape[-1] == 0:
        return inputs
    steps = tf.repeat(fed[:, None], tf.shape(inputs)[1], axis=1)
    return tf.concat([inputs, tf.cast(steps, inputs.dtype)], axis=-1)
