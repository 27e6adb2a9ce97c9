"""The source language model, P(x|z)."""

import keras

from aevnmt_tf.nets.output import Output
from aevnmt_tf.nets.stack import RecurrentStack


@keras.saving.register_keras_serializable("aevnmt_tf")
class SourceLM(RecurrentStack):
    """A recurrent language model started from z.

        h_0 = tanh(affine(z; theta_init-lm))                 Eq. (init-lm)
        h_i = GRU(h_{i-1}, f_{i-1}; theta_gru-lm)
        g(z, x_<i) = softmax(affine(h_i; theta_out-x))

    Args:
        vocab_size: Vx.
        packed: see `Output`.
        **kwargs: as RecurrentStack.
    """

    gru_label = "gru_lm"
    start_label = "init_lm"
    arguments = (*RecurrentStack.arguments, "vocab_size", "packed")

    def __init__(self, *, vocab_size, packed=True, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.packed = packed
        self.make_layers()
        self.out_x = Output(
            input_size=self.units,
            vocab_size=vocab_size,
            packed=packed,
            name="out_x",
            dtype=self.dtype_policy,
        )

    def sublayers(self):
        """All layers with weights."""
        return [*super().sublayers(), self.out_x]

    def call(self, inputs, lengths, z=None, noise=None):
        """inputs [B, Tx, E] = f_0 .. f_{m-1}, z [B, Z] -> h_1 .. h_m [B, Tx, H].

        `noise` holds masks by layer name.
        """
        noise = noise or {}
        for layer, start in zip(self.grus, self.start(z, lengths), strict=True):
            inputs = layer(inputs, start, dropout=noise.get(layer.name))
        return inputs

    def step(self, states, inputs):
        """One word: a [B, H] a layer, inputs [B, E] = f_{i-1} -> logits [B, Vx], new states."""
        new = []
        for layer, state in zip(self.grus, states, strict=True):
            inputs = layer.step(inputs, state)
            new.append(inputs)
        return self.out_x(inputs), tuple(new)
