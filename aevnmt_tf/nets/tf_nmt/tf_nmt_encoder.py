"""TF-NMT's encoders: uni, bi and gnmt as one form with two depths, and none at all.

uni     L forward layers
bi      L / 2 layers in each direction, one stack per direction; the two tops are concatenated
gnmt    one layer in each direction, then L - 1 forward layers on the concatenation
"""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from aevnmt_tf.nets.embedding import Words
from aevnmt_tf.nets.matrix_products import compute
from aevnmt_tf.nets.recurrent import GRU, Length, Noise
from aevnmt_tf.nets.recurrent_stack import RecurrentStack, numbered, run_stack


class Encoded(NamedTuple):
    """What an encoder returns with pass_hidden_state."""

    values: tf.Tensor  # [B, Tx, M]
    states: tuple[tf.Tensor, ...]  # the last one of each layer, to start the decoder's layers


@keras.saving.register_keras_serializable("aevnmt_tf")
class TfNmtEncoder(RecurrentStack):
    """Stacks of recurrent layers; values [B, Tx, M], where M is 2H or H.

    Args:
        num_both: layers in each direction.
        num_layers: forward layers above them.
        residual_both, residual_layers: how many of them, from the top, add their input.
        pass_hidden_state: whether to return Encoded instead of its values.
        **kwargs: as RecurrentStack; both directions of a layer start from one map of z.
    """

    start_label = "init_enc"
    gru_label = "gru_x"

    def __init__(
        self,
        *,
        num_both: int = 0,
        num_layers: int = 1,
        residual_both: int = 0,
        residual_layers: int = 0,
        pass_hidden_state: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_layers=num_layers, num_starts=num_both + num_layers, **kwargs)
        self.num_both = num_both
        self.residual_both = residual_both
        self.residual_layers = residual_layers
        self.pass_hidden_state = pass_hidden_state

    def build(self, *_: Any) -> None:
        """Create the layers of all three stacks and all weights."""
        below = [self.units if k else self.input_size for k in range(self.num_both)]
        self.forward, self.backward = (
            [
                self.make_layer(size, numbered(f"{side}_gru_x", k))
                for k, size in enumerate(below)
            ]
            for side in ("forward", "backward")
        )
        first = 2 * self.units if self.num_both else self.input_size
        self.grus = [
            self.make_layer(self.units if k else first, numbered(self.gru_label, k))
            for k in range(self.num_layers)
        ]
        self.start.build()
        for layer in self._layers_of_all_stacks():
            layer.build()

    def _layers_of_all_stacks(self) -> list[GRU]:
        return [*self.forward, *self.backward, *self.grus]

    def noise_shapes(self, steps: Length) -> dict[str, tuple[Length, ...]]:
        """Return the shape of each dropout mask per sentence, by layer name."""
        return {layer.name: layer.noise_shape(steps) for layer in self._layers_of_all_stacks()}

    def call(
        self,
        inputs: tf.Tensor | Words,
        lengths: tf.Tensor,
        z: tf.Tensor | None = None,
        noise: Noise | None = None,
    ) -> tf.Tensor | Encoded:
        """Return values [B, Tx, M]; arguments as Encoder."""
        if isinstance(inputs, Words):
            inputs = tf.gather(inputs.vectors, inputs.places)
        inputs, noise = compute(self, inputs), noise or {}
        starts = self.start(z, lengths)
        states: list[tf.Tensor] = []
        if self.num_both:
            inputs, states = self._both(inputs, lengths, starts[: self.num_both], noise)
        above, residual = starts[self.num_both :], self.residual_layers
        inputs, more = run_stack(self.grus, inputs, above, noise, residual=residual)
        if not self.pass_hidden_state:
            return inputs
        last = [tf.gather(each, lengths - 1, batch_dims=1) for each in (*states, *more)]
        return Encoded(inputs, tuple(last))

    def _both(
        self,
        inputs: tf.Tensor,
        lengths: tf.Tensor,
        starts: tuple[tf.Tensor, ...],
        noise: Noise,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Return the concatenated tops [B, Tx, 2H], and the states to pass on."""

        def turn(values: tf.Tensor) -> tf.Tensor:
            return tf.reverse_sequence(values, lengths, seq_axis=1)

        names = [layer.name for layer in self.backward]
        turned = {name: turn(noise[name]) for name in names if name in noise}
        residual = self.residual_both
        right, ahead = run_stack(self.forward, inputs, starts, noise, residual=residual)
        left, behind = run_stack(self.backward, turn(inputs), starts, turned, residual=residual)
        values = tf.concat([right, turn(left)], axis=-1)
        if self.num_layers:  # gnmt: only the backward state
            return values, behind
        pairs = zip(ahead, behind, strict=True)
        return values, [state for pair in pairs for state in pair]


@keras.saving.register_keras_serializable("aevnmt_tf")
class SilentEncoder(keras.layers.Layer):
    """The encoder of a language model of the target (TF-NMT's language_model).

    It reveals nothing about a source but its length.
    """

    def build(self, *_: Any) -> None:
        """Create no weights."""

    def noise_shapes(self, steps: Length) -> dict[str, tuple[Length, ...]]:
        """Return no shapes: there is nothing to drop."""
        return {}

    def call(
        self, inputs: Any, lengths: tf.Tensor, z: Any = None, noise: Any = None
    ) -> tf.Tensor:
        """Return values [B, Tx, 0], for a decoder without attention."""
        places = inputs.places if isinstance(inputs, Words) else inputs
        batch, steps = tf.unstack(tf.shape(places)[:2])
        return tf.zeros([batch, steps, 0], self.compute_dtype)
