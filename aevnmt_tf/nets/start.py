"""Initial states of recurrent networks."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("aevnmt_tf")
class Start(keras.layers.Layer):
    """tanh(affine(z)), one for each layer of a stack: Eq. (init-lm), Eq. (init-dec). Without z
    (z_size None): zeros.

    The first affine map is called `label`, the next `label`_2, and so on.
    """

    def __init__(self, *, label, units, num_layers=1, z_size=None, **kwargs):
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

    def build(self, *_):
        """Creates kernel [Z, H] and bias [H] of each map."""
        for layer in self.affine:
            layer.build((None, self.z_size))
        self.built = True

    def call(self, z, lengths):
        """z [B, Z] or None, lengths [B] -> a tuple of [B, H]."""
        if self.affine:
            return tuple(layer(z) for layer in self.affine)
        zeros = tf.zeros([tf.shape(lengths)[0], self.units], self.compute_dtype)
        return (zeros,) * self.num_layers

    def get_config(self):
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "label": self.label,
            "units": self.units,
            "num_layers": self.num_layers,
            "z_size": self.z_size,
        }


def numbered(label, k):
    """The name of layer k (from 0) of a stack: label, label_2, label_3 ..."""
    return label if k == 0 else f"{label}_{k + 1}"
