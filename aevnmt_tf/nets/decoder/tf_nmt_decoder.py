"""The decoder of the authors' code: TF-NMT's AttentionWrapper with input feeding.

t_j = GRU(t_{j-1}, [e_{j-1}, a_{j-1}])            a_0 = 0
c_j = attention(s_1^m, t_j)                       from the NEW state of the top layer
a_j = W_att [t_j, c_j]                            no bias
f(z, x, y_<j) = softmax(W_out a_j)                no bias
"""

from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.decoder.bahdanau import Memory
from aevnmt_tf.nets.decoder.base_decoder import Decoder, DecoderState, Step
from aevnmt_tf.nets.matrix_products import compute
from aevnmt_tf.nets.recurrent import Noise, arrays, write


@keras.saving.register_keras_serializable("aevnmt_tf")
class TfNmtDecoder(Decoder):
    """TF-NMT's form. Its step needs nothing else for a search: out_y reads one vector alone."""

    output_bias = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.att_layer = keras.layers.Dense(
            self.units, use_bias=False, name="att_layer", dtype=self.dtype_policy
        )

    def build(self, *_: Any) -> None:
        """Create the weights of all layers."""
        super().build()
        self.att_layer.build((None, self.units + self.memory_size))

    @property
    def feed_size(self) -> int:
        """The size of a_j."""
        return self.units

    @property
    def first_input_size(self) -> int:
        """The size of [e_{j-1}, a_{j-1}]."""
        return self.input_size + self.units

    @property
    def feature_size(self) -> int:
        """The size of a_j."""
        return self.units

    def call(
        self,
        inputs: tf.Tensor,
        memory: Memory,
        state: DecoderState,
        noise: Noise | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See Decoder."""
        noise = noise or {}
        inputs = tf.transpose(compute(self, inputs), [1, 0, 2])  # [Ty, B, E]
        masks = {
            layer.name: tf.transpose(compute(self, noise[layer.name]), [1, 0, 2])
            for layer in self.grus
            if layer.name in noise
        }

        def body(t: tf.Tensor, state: DecoderState, kept: tuple) -> tuple:
            now = {name: mask[t] for name, mask in masks.items()}
            features, state, attention = self.step(inputs[t], memory, state, dropout=now)
            return t + 1, state, write(kept, t, (features, attention))

        steps = tf.shape(inputs)[0]
        _, _, kept = tf.while_loop(
            lambda t, *_: t < steps,
            body,
            (0, state, arrays(inputs, 2)),
            maximum_iterations=steps,  # XLA: bounds what the gradient keeps
        )
        features, attention = (tf.transpose(a.stack(), [1, 0, 2]) for a in kept)
        features = tf.ensure_shape(features, [None, None, self.units])
        return features, tf.stop_gradient(attention)

    def step(
        self,
        inputs: tf.Tensor,
        memory: Memory,
        state: DecoderState,
        *,
        shared: bool = False,
        dropout: Noise | None = None,
    ) -> Step:
        """See Decoder; `dropout` holds a mask [N, in] by layer name."""
        t = tf.concat([compute(self, inputs), state.feed], axis=-1)
        t, hidden = self.step_layers(t, state.hidden, dropout)
        c, attention = self.bahd(t, memory, shared=shared)
        feed = self.att_layer(tf.concat([t, c], axis=-1))
        return feed, DecoderState(hidden, feed), attention
