"""TF-NMT's decoders; the authors' code has the first one, with a GRU and Bahdanau's attention.

The AttentionWrapper with input feeding (attention_architecture standard):

    t_j = RNN(t_{j-1}, [e_{j-1}, a_{j-1}])            a_0 = 0
    c_j = attention(s_1^m, t_j)                       from the NEW state of the top layer
    a_j = W_att [t_j, c_j]                            no bias
    f(z, x, y_<j) = softmax(W_out a_j)                no bias; t_j without output_attention

nets/tf_nmt/ has GNMT's decoder and the one without attention.
"""

from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.decoder.attention import Memory
from aevnmt_tf.nets.decoder.base_decoder import Decoder, DecoderState, Step
from aevnmt_tf.nets.matrix_products import compute
from aevnmt_tf.nets.recurrent import Noise
from aevnmt_tf.nets.recurrent_stack import step_stack


class TfNmtForm(Decoder):
    """What TF-NMT's decoders share.

    Args:
        attention: one of MECHANISMS.
        output_attention: whether out_y of a TfNmtDecoder reads a_j, or t_j.
        residual_layers: how many layers, from the top, add their input to their output.
        pass_hidden_state: whether layers start from the encoder's states, which it returns as
            Encoded.
        **kwargs: as Decoder.
    """

    output_bias = False

    def __init__(
        self,
        *,
        attention: str = "bahdanau",
        output_attention: bool = True,
        residual_layers: int = 0,
        pass_hidden_state: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.attention = attention
        self.output_attention = output_attention
        self.residual_layers = residual_layers
        self.pass_hidden_state = pass_hidden_state

    def begin(
        self, values: Any, lengths: tf.Tensor, z: tf.Tensor | None = None
    ) -> tuple[Memory, DecoderState]:
        """See Decoder; values are Encoded with pass_hidden_state."""
        hidden = self.start(z, lengths)
        if self.pass_hidden_state:
            values, hidden = values
        feed = tf.zeros([tf.shape(lengths)[0], self.feed_size], self.compute_dtype)
        return self.memory(values, lengths), DecoderState(hidden, feed)

    def memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """Return what is fixed while decoding, for values [B, Tx, M] and lengths [B]."""
        return self.bahd.memory(values, lengths)


@keras.saving.register_keras_serializable("aevnmt_tf")
class TfNmtDecoder(TfNmtForm):
    """The form with input feeding. Arguments as TfNmtForm."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # It draws a seed, which must not change from one version to the next: not in `build`.
        self._initializer = keras.initializers.GlorotUniform()

    def build(self, *_: Any) -> None:
        """Create the other layers and all weights."""
        super().build()
        self.att_layer = keras.layers.Dense(
            self.units,
            use_bias=False,
            kernel_initializer=self._initializer,
            name="att_layer",
            dtype=self.dtype_policy,
        )
        self.att_layer.build((None, self.units + self.memory_size))

    @property
    def feed_size(self) -> int:
        """The size of a_j."""
        return self.units

    def run(
        self, inputs: tf.Tensor, memory: Memory, state: DecoderState, noise: Noise
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See Decoder."""
        (features,), attention = self.run_attending(
            inputs,
            memory,
            state.hidden,
            noise,
            wanted=["feeds" if self.output_attention else "outputs"],
            feed=(state.feed,),
            attention_kernel=compute(self, self.att_layer.kernel),
        )
        return features, attention

    def step(
        self, inputs: tf.Tensor, memory: Memory, state: DecoderState, *, shared: bool = False
    ) -> Step:
        """See Decoder."""
        read = tf.concat([compute(self, inputs), state.feed], axis=-1)
        t, hidden = step_stack(self.grus, read, state.hidden, residual=self.residual_layers)
        c, attention = self.bahd(t, memory, shared=shared)
        feed = self.att_layer(tf.concat([t, c], axis=-1))
        features = feed if self.output_attention else t
        return features, DecoderState(hidden, feed), attention
