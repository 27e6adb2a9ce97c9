"""What the source LM, the encoder and the decoder have in common."""

import keras

from aevnmt_tf.nets.recurrent import GRU
from aevnmt_tf.nets.start import Start, numbered


class RecurrentStack(keras.layers.Layer):
    """GRU layers, each started from its own map of z.

    A subclass names its layers, and calls `make_layers` when its sizes are known.

    Args:
        input_size: E.
        units: H.
        num_layers: how many layers.
        z_size: Z, or None for a start from zeros.
        reset: "before" or "after", the reset gate's place.
    """

    gru = GRU
    gru_label = ""
    start_label = ""
    arguments = ("input_size", "units", "num_layers", "z_size", "reset")

    def __init__(
        self, *, input_size, units, num_layers=1, z_size=None, reset="before", **kwargs
    ):
        super().__init__(**kwargs)
        self.input_size = input_size
        self.units = units
        self.num_layers = num_layers
        self.z_size = z_size
        self.reset = reset

    def make_layers(self):
        """Makes the starts and the GRUs."""
        self.start = Start(
            label=self.start_label,
            units=self.units,
            num_layers=self.num_layers,
            z_size=self.z_size,
            name=self.start_label.replace("init", "start"),
            dtype=self.dtype_policy,
        )
        self.grus = [
            self.gru(
                input_size=self.size_below(k),
                units=self.units,
                reset=self.reset,
                name=numbered(self.gru_label, k),
                dtype=self.dtype_policy,
            )
            for k in range(self.num_layers)
        ]

    def size_below(self, k):
        """The size of what layer k (from 0) reads."""
        return self.units if k else self.input_size

    def sublayers(self):
        """All layers with weights."""
        return [self.start, *self.grus]

    def build(self, *_):
        """Creates the weights of all layers."""
        for layer in self.sublayers():
            layer.build()
        self.built = True

    def noise_shapes(self, steps):
        """The shape a sentence of each dropout mask, by layer name."""
        return {layer.name: layer.noise_shape(steps) for layer in self.grus}

    def get_config(self):
        """The constructor's arguments."""
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in self.arguments},
        }
