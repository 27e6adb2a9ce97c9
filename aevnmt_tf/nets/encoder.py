"""The source encoder of the translation model."""

import keras

from aevnmt_tf.nets.recurrent import BiGRU
from aevnmt_tf.nets.start import Start, numbered


@keras.saving.register_keras_serializable("aevnmt_tf")
class Encoder(keras.layers.Layer):
    """Bidirectional GRU layers, each started from z.

        s_0 = tanh(affine(z; theta_init-enc))
        s_1^m = BiGRU(f_1^m, s_0; theta_bigru-x)             Eq. (gen-bigru-x)

    Args:
        input_size: E.
        units: H.
        num_layers: how many bidirectional layers.
        z_size: Z, or None for a start from zeros.
        reset: "before" or "after", the reset gate's place.
    """

    def __init__(
        self, *, input_size, units, num_layers=1, z_size=None, reset="before", **kwargs
    ):
        super().__init__(**kwargs)
        self.input_size = input_size
        self.units = units
        self.num_layers = num_layers
        self.z_size = z_size
        self.reset = reset
        self.start = Start(
            label="init_enc",
            units=units,
            num_layers=num_layers,
            z_size=z_size,
            name="start_enc",
            dtype=self.dtype_policy,
        )
        self.grus = [
            BiGRU(
                input_size=2 * units if k else input_size,
                units=units,
                reset=reset,
                name=numbered("bigru_x", k),
                dtype=self.dtype_policy,
            )
            for k in range(num_layers)
        ]

    def build(self, *_):
        """Creates the weights of all layers."""
        for layer in (self.start, *self.grus):
            layer.build()
        self.built = True

    def call(self, inputs, lengths, z=None, noise=None):
        """inputs [B, Tx, E], lengths [B], z [B, Z] -> [B, Tx, 2H]. `noise` holds masks by layer
        name."""
        noise = noise or {}
        for layer, start in zip(self.grus, self.start(z, lengths), strict=True):
            inputs = layer(inputs, lengths, start, dropout=noise.get(layer.name))
        return inputs

    def noise_shapes(self, steps):
        """The shape a sentence of each dropout mask, by layer name."""
        return {layer.name: (steps, 2, layer.input_size) for layer in self.grus}

    def get_config(self):
        """The constructor's arguments."""
        names = ("input_size", "units", "num_layers", "z_size", "reset")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
