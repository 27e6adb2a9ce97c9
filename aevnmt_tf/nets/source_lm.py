"""The source language model, P(x|z)."""

import keras

from aevnmt_tf.nets.output import Output
from aevnmt_tf.nets.recurrent import GRU
from aevnmt_tf.nets.start import Start, numbered


@keras.saving.register_keras_serializable("aevnmt_tf")
class SourceLM(keras.layers.Layer):
    """A recurrent language model started from z.

        h_0 = tanh(affine(z; theta_init-lm))                 Eq. (init-lm)
        h_i = GRU(h_{i-1}, f_{i-1}; theta_gru-lm)
        g(z, x_<i) = softmax(affine(h_i; theta_out-x))

    Args:
        input_size: E.
        units: H.
        vocab_size: Vx.
        num_layers: how many GRU layers.
        z_size: Z, or None for a start from zeros.
        reset: "before" or "after", the reset gate's place.
        packed: see `Output`.
    """

    def __init__(
        self,
        *,
        input_size,
        units,
        vocab_size,
        num_layers=1,
        z_size=None,
        reset="before",
        packed=True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.input_size = input_size
        self.units = units
        self.vocab_size = vocab_size
        self.num_layers = num_layers
        self.z_size = z_size
        self.reset = reset
        self.packed = packed
        self.start = Start(
            label="init_lm",
            units=units,
            num_layers=num_layers,
            z_size=z_size,
            name="start_lm",
            dtype=self.dtype_policy,
        )
        self.grus = [
            GRU(
                input_size=units if k else input_size,
                units=units,
                reset=reset,
                name=numbered("gru_lm", k),
                dtype=self.dtype_policy,
            )
            for k in range(num_layers)
        ]
        self.out_x = Output(
            input_size=units,
            vocab_size=vocab_size,
            packed=packed,
            name="out_x",
            dtype=self.dtype_policy,
        )

    def build(self, *_):
        """Creates the weights of all layers."""
        for layer in (self.start, *self.grus, self.out_x):
            layer.build()
        self.built = True

    def call(self, inputs, lengths, z=None, noise=None):
        """inputs [B, Tx, E] = f_0 .. f_{m-1}, z [B, Z] -> h_1 .. h_m [B, Tx, H]. `noise` holds
        masks by layer name."""
        noise = noise or {}
        for layer, start in zip(self.grus, self.start(z, lengths), strict=True):
            inputs = layer(inputs, start, dropout=noise.get(layer.name))
        return inputs

    def step(self, states, inputs):
        """One word: states (a tuple of [B, H]), inputs [B, E] = f_{i-1} -> logits [B, Vx], new
        states."""
        new = []
        for layer, state in zip(self.grus, states, strict=True):
            inputs = layer.step(inputs, state)
            new.append(inputs)
        return self.out_x(inputs), tuple(new)

    def noise_shapes(self, steps):
        """The shape a sentence of each dropout mask, by layer name."""
        return {layer.name: (steps, layer.input_size) for layer in self.grus}

    def get_config(self):
        """The constructor's arguments."""
        names = ("input_size", "units", "vocab_size", "num_layers", "z_size", "reset", "packed")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
