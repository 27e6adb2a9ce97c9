"""The source language model, P(x|z)."""

from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.matrix_products import compute
from aevnmt_tf.nets.output_layer import OutputLayer
from aevnmt_tf.nets.recurrent import Noise
from aevnmt_tf.nets.recurrent_stack import RecurrentStack, run_stack, step_stack, with_fed


@keras.saving.register_keras_serializable("aevnmt_tf")
class SourceLM(RecurrentStack):
    """A recurrent language model started from z.

        h_0 = tanh(affine(z; theta_init-lm))                 Eq. (init-lm)
        h_i = GRU(h_{i-1}, f_{i-1}; theta_gru-lm)            [f_{i-1}, z] with feed_z
        g(z, x_<i) = softmax(affine(h_i; theta_out-x))

    Args:
        vocab_size: Vx.
        packed: see `OutputLayer`.
        tied: whether the source embeddings are the matrix of out_x.
        **kwargs: as RecurrentStack.
    """

    gru_label = "gru_lm"
    start_label = "init_lm"

    def __init__(
        self, *, vocab_size: int, packed: bool = True, tied: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.packed = packed
        self.tied = tied

    def build(self, *_: Any) -> None:
        """Create the other layers and all weights."""
        super().build()
        self.out_x = OutputLayer(
            input_size=self.units,
            vocab_size=self.vocab_size,
            packed=self.packed,
            tied_size=self.input_size if self.tied else None,
            name="out_x",
            dtype=self.dtype_policy.name,
        )
        self.out_x.build()

    def call(
        self,
        inputs: tf.Tensor,
        lengths: tf.Tensor,
        z: tf.Tensor | None = None,
        noise: Noise | None = None,
    ) -> tf.Tensor:
        """Return h_1 .. h_m [B, Tx, H].

        Args:
            inputs: f_0 .. f_{m-1} [B, Tx, E].
            lengths: [B].
            z: [B, Z].
            noise: dropout masks by layer name.
        """
        inputs = with_fed(compute(self, inputs), self.fed(z, lengths))
        return run_stack(self.grus, inputs, self.start(z, lengths), noise or {})[0]

    def begin(self, z: tf.Tensor | None, lengths: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Return the initial states for `step`: those of the layers, and what of z is fed."""
        return (*self.start(z, lengths), self.fed(z, lengths))

    def step(
        self, states: tuple[tf.Tensor, ...], inputs: tf.Tensor
    ) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
        """Return one word's logits [B, Vx] and the new states, for inputs f_{i-1} [B, E]."""
        *hidden, fed = states
        h, new = step_stack(self.grus, tf.concat([compute(self, inputs), fed], axis=-1), hidden)
        return self.out_x(h), (*new, fed)
