"""TF-NMT's encoders: uni, bi and gnmt as one form with two depths.

uni     L forward layers
bi      L / 2 layers in each direction, one stack for each; the two tops are concatenated
gnmt    one layer in each direction, then L - 1 forward layers on the concatenation
"""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from aevnmt_tf.nets.embedding import Words
from aevnmt_tf.nets.matrix_products import compute
from aevnmt_tf.nets.recurrent import GRU, Length, Noise, outputs_of
from aevnmt_tf.nets.recurrent_stack import RecurrentStack, numbered


class Encoded(NamedTuple):
    """What an encoder hands on with pass_hidden_state."""

    values: tf.Tensor  # [B, Tx, M]
    states: tuple[tf.Tensor, ...]  # the last of each layer, as the decoder's layers start


@keras.saving.register_keras_serializable("aevnmt_tf")
class TfNmtEncoder(RecurrentStack):
    """Stacks of recurrent layers; values [B, Tx, M], where M is 2H or H.

    Args:
        num_both: layers in each direction.
        num_layers: forward layers above them.
        residual_both, residual_layers: how many of them, from the top, add their input.
        pass_hidden_state: whether to return Encoded in place of its values.
        **kwargs: as RecurrentStack; both directions of a layer start from one map of z.
    """

    start_label = "init_enc"
    gru_label = "gru_x"
    arguments = (
        *RecurrentStack.arguments,
        "num_both",
        "residual_both",
        "residual_layers",
        "pass_hidden_state",
    )

    def __init__(
        self,
        *,
        num_both: int = 0,
        residual_both: int = 0,
        residual_layers: int = 0,
        pass_hidden_state: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_both = num_both
        self.residual_both = residual_both
        self.residual_layers = residual_layers
        self.pass_hidden_state = pass_hidden_state
        self.make_layers()

    def make_layers(self) -> None:
        """Make the initial states and the layers of all three stacks."""
        self.make_start(self.num_both + self.num_layers)
        self.forward, self.backward = (
            [
                self.make_layer(
                    GRU, self.units if k else self.input_size, numbered(f"{side}_gru_x", k)
                )
                for k in range(self.num_both)
            ]
            for side in ("forward", "backward")
        )
        self.grus = [
            self.make_layer(GRU, self.size_below(k), numbered(self.gru_label, k))
            for k in range(self.num_layers)
        ]

    def size_below(self, k: int) -> int:
        """Return the size of what forward layer k (from 0) above both directions reads."""
        if k:
            return self.units
        return 2 * self.units if self.num_both else self.input_size

    def sublayers(self) -> list[keras.layers.Layer]:
        """Return all layers with weights."""
        return [self.start, *self.forward, *self.backward, *self.grus]

    def noise_shapes(self, steps: Length) -> dict[str, tuple[Length, ...]]:
        """Return the shape per sentence of each dropout mask, by layer name."""
        layers = [*self.forward, *self.backward, *self.grus]
        return {layer.name: layer.noise_shape(steps) for layer in layers}

    def call(
        self,
        inputs: tf.Tensor | Words,
        lengths: tf.Tensor,
        z: tf.Tensor | None = None,
        noise: Noise | None = None,
    ) -> tf.Tensor | Encoded:
        """Return values [B, Tx, M] of inputs [B, Tx, E] or Words, lengths [B], z [B, Z].

        `noise` holds masks by layer name, in the order of the sentence.
        """
        if isinstance(inputs, Words):
            inputs = tf.gather(inputs.vectors, inputs.places)
        inputs, noise = compute(self, inputs), noise or {}
        starts = self.start(z, lengths)
        states: list[tf.Tensor] = []
        if self.num_both:
            inputs, states = self._both(inputs, lengths, starts, noise)
        above = starts[self.num_both :]
        inputs, more = _run(self.grus, inputs, lengths, above, noise, self.residual_layers)
        if not self.pass_hidden_state:
            return inputs
        return Encoded(inputs, (*states, *more))

    def _both(
        self,
        inputs: tf.Tensor,
        lengths: tf.Tensor,
        starts: tuple[tf.Tensor, ...],
        noise: Noise,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Return the concatenated tops [B, Tx, 2H] and the states that are handed on."""

        def turn(values: tf.Tensor) -> tf.Tensor:
            return tf.reverse_sequence(values, lengths, seq_axis=1)

        turned = {
            layer.name: turn(noise[layer.name])
            for layer in self.backward
            if layer.name in noise
        }
        residual = self.residual_both
        starts = starts[: self.num_both]
        right, ahead = _run(self.forward, inputs, lengths, starts, noise, residual)
        left, behind = _run(self.backward, turn(inputs), lengths, starts, turned, residual)
        values = tf.concat([right, turn(left)], axis=-1)
        if self.num_layers:  # gnmt: the backward state alone
            return values, behind
        pairs = zip(ahead, behind, strict=True)
        return values, [state for pair in pairs for state in pair]


def _run(
    layers: list[GRU],
    inputs: tf.Tensor,
    lengths: tf.Tensor,
    starts: tuple[tf.Tensor, ...],
    noise: Noise,
    residual: int,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Return a stack's outputs [B, T, H] and the last state of each layer."""
    last = []
    for k, (layer, start) in enumerate(zip(layers, starts, strict=True)):
        states = layer.states(inputs, start, noise.get(layer.name))
        outputs = outputs_of(states, layer.units)
        inputs = outputs + inputs if k >= len(layers) - residual else outputs
        last.append(tf.gather(states, lengths - 1, batch_dims=1))
    return inputs, last
