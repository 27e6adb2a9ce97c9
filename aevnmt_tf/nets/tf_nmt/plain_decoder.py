"""TF-NMT's decoder without attention: it sees the source only through its initial state.

t_j = RNN(t_{j-1}, e_{j-1})
f(x, y_<j) = softmax(W_out t_j)                   no bias
"""

import keras
import tensorflow as tf

from aevnmt_tf.nets.decoder.attention import Memory
from aevnmt_tf.nets.decoder.base_decoder import DecoderState, Step
from aevnmt_tf.nets.decoder.tf_nmt_decoder import TfNmtForm
from aevnmt_tf.nets.matrix_products import compute
from aevnmt_tf.nets.recurrent import Noise
from aevnmt_tf.nets.recurrent_stack import run_stack, step_stack


@keras.saving.register_keras_serializable("aevnmt_tf")
class PlainDecoder(TfNmtForm):
    """A stack of layers that reads only words; its attention is 0 everywhere."""

    has_attention = False

    @property
    def feed_size(self) -> int:
        """Nothing is fed."""
        return 0

    def memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """Return a memory that only holds the lengths of the sentences."""
        nothing = compute(self, values[..., :0])
        return Memory(nothing, nothing, tf.sequence_mask(lengths, tf.shape(values)[1]))

    def run(
        self, inputs: tf.Tensor, memory: Memory, state: DecoderState, noise: Noise
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See Decoder."""
        residual = self.residual_layers
        t, _ = run_stack(self.grus, inputs, state.hidden, noise, residual=residual)
        batch, words = tf.unstack(tf.shape(t)[:2])
        return t, tf.zeros([batch, words, tf.shape(memory.mask)[1]], t.dtype)

    def step(
        self, inputs: tf.Tensor, memory: Memory, state: DecoderState, *, shared: bool = False
    ) -> Step:
        """See Decoder."""
        inputs, residual = compute(self, inputs), self.residual_layers
        t, hidden = step_stack(self.grus, inputs, state.hidden, residual=residual)
        attention = tf.zeros([tf.shape(t)[0], tf.shape(memory.mask)[1]], t.dtype)
        return t, DecoderState(hidden, state.feed), attention
