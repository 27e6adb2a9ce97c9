"""Stacks of GRU layers started from z: what the source LM, encoder and decoder share."""

from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.cells import make_cell
from aevnmt_tf.nets.recurrent import GRU, GRUWeights, Length, Noise, outputs_of


@keras.saving.register_keras_serializable("aevnmt_tf")
class InitialState(keras.layers.Layer):
    """tanh(affine(z)), one for each layer of a stack: Eq. (init-lm), Eq. (init-dec).

    Without z (z_size None): zeros. The first affine map is called `label`, the next `label`_2,
    and so on.
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
        self.label = label
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
        self.built = True

    def call(self, z: tf.Tensor | None, lengths: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Return a state [B, H] for each layer, of z [B, Z] or None, and lengths [B]."""
        if self.affine:
            return tuple(layer(z) for layer in self.affine)
        zeros = tf.zeros([tf.shape(lengths)[0], self.units], self.compute_dtype)
        return (zeros,) * self.num_layers

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        names = ("label", "units", "num_layers", "z_size")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def numbered(label: str, k: int) -> str:
    """Return the name of layer k (from 0) of a stack: label, label_2, label_3 ..."""
    return label if k == 0 else f"{label}_{k + 1}"


class RecurrentStack(keras.layers.Layer):
    """GRU layers, each started from its own map of z.

    A subclass names its layers, and calls `make_layers` when its sizes are known.

    Args:
        input_size: E.
        units: H.
        num_layers: how many layers.
        z_size: Z, or None for a start from zeros.
        reset: "before" or "after", the reset gate's place.
        feed_z: whether the first layer reads z at every step, after its other inputs.
        unit: "gru", "lstm" or "layer_norm_lstm"; z starts both h and c of an LSTM.
        forget_bias: of an LSTM.
    """

    gru: type[GRUWeights] = GRU
    gru_label = ""
    start_label = ""
    arguments: tuple[str, ...] = (
        "input_size",
        "units",
        "num_layers",
        "z_size",
        "reset",
        "feed_z",
        "unit",
        "forget_bias",
    )

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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.input_size = input_size
        self.units = units
        self.num_layers = num_layers
        self.z_size = z_size
        self.reset = reset
        self.feed_z = feed_z
        self.unit = unit
        self.forget_bias = forget_bias

    def make_layers(self) -> None:
        """Make the initial states and the recurrent layers."""
        self.make_start(self.num_layers)
        self.grus = [
            self.make_layer(self.gru, self.size_below(k), numbered(self.gru_label, k))
            for k in range(self.num_layers)
        ]

    def make_layer(self, kind: type[GRUWeights], input_size: int, name: str) -> GRUWeights:
        """Return a layer with this stack's units; `gru` in its name becomes what they are."""
        return kind(
            input_size=input_size,
            units=self.units,
            reset=self.reset,
            unit=self.unit,
            forget_bias=self.forget_bias,
            name=name.replace("gru", self.unit),
            dtype=self.dtype_policy,
        )

    def make_start(self, num_layers: int) -> None:
        """Make the initial states."""
        cell = make_cell(self.unit, reset=self.reset, forget_bias=self.forget_bias)
        self.start = InitialState(
            label=self.start_label,
            units=self.units * cell.state_parts,
            num_layers=num_layers,
            z_size=self.z_size,
            name=self.start_label.replace("init", "start"),
            dtype=self.dtype_policy,
        )

    def size_below(self, k: int) -> int:
        """Return the size of what layer k (from 0) reads."""
        return self.units if k else self.input_size + self.fed_size

    @property
    def fed_size(self) -> int:
        """How much of z the first layer reads at every step: all of it or nothing."""
        return self.z_size if self.feed_z and self.z_size else 0

    def fed(self, z: tf.Tensor | None, lengths: tf.Tensor) -> tf.Tensor:
        """Return what of z [B, Z] every step reads: [B, fed_size]."""
        if z is None or not self.fed_size:
            return tf.zeros([tf.shape(lengths)[0], 0], self.compute_dtype)
        return tf.cast(z, self.compute_dtype)

    def sublayers(self) -> list[keras.layers.Layer]:
        """Return all layers with weights."""
        return [self.start, *self.grus]

    def build(self, *_: Any) -> None:
        """Create the weights of all layers."""
        for layer in self.sublayers():
            layer.build()
        self.built = True

    def run_layers(
        self, inputs: tf.Tensor, starts: tuple[tf.Tensor, ...], noise: Noise, *, first: int = 0
    ) -> tf.Tensor:
        """Return the top states [B, T, H] over a sentence, for what layer `first` reads."""
        for layer, start in zip(self.grus[first:], starts[first:], strict=True):
            inputs = layer(inputs, start, dropout=noise.get(layer.name))
        return inputs

    def step_layers(
        self,
        inputs: tf.Tensor,
        states: tuple[tf.Tensor, ...],
        dropout: Noise | None = None,
        *,
        first: int = 0,
    ) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
        """Return the top state [N, H] and the new states of the layers from `first` on.

        `dropout` holds masks of the inputs by layer name.
        """
        new = []
        for layer, old in zip(self.grus[first:], states[first:], strict=True):
            if dropout:
                inputs *= dropout[layer.name]
            new.append(layer.step(inputs, old))
            inputs = outputs_of(new[-1], self.units)
        return inputs, tuple(new)

    def noise_shapes(self, steps: Length) -> dict[str, tuple[Length, ...]]:
        """Return the shape per sentence of each dropout mask, by layer name."""
        return {layer.name: layer.noise_shape(steps) for layer in self.grus}

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        arguments = {name: getattr(self, name) for name in self.arguments}
        return {**super().get_config(), **arguments}


def with_fed(inputs: tf.Tensor, fed: tf.Tensor) -> tf.Tensor:
    """Return inputs [B, T, in] with `fed` [B, n] behind them at every step: [B, T, in + n]."""
    if fed.shape[-1] == 0:
        return inputs
    steps = tf.repeat(fed[:, None], tf.shape(inputs)[1], axis=1)
    return tf.concat([inputs, tf.cast(steps, inputs.dtype)], axis=-1)
