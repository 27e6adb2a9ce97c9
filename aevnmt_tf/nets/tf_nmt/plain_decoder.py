"""TF-NMT's decoder without attention: the source is in its initial state alone.

t_j = RNN(t_{j-1}, e_{j-1})
f(x, y_<j) = softmax(W_out t_j)                   no bias
"""

from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.decoder.bahdanau import Memory
from aevnmt_tf.nets.decoder.base_decoder import DecoderState, Step
from aevnmt_tf.nets.decoder.tf_nmt_decoder import TfNmtDecoder
from aevnmt_tf.nets.matrix_products import compute
from aevnmt_tf.nets.recurrent import Noise
from aevnmt_tf.nets.recurrent_stack import RecurrentStack


@keras.saving.register_keras_serializable("aevnmt_tf")
class PlainDecoder(TfNmtDecoder):
    """A stack of layers that reads words alone; its attention is 0 everywhere."""

    has_attention = False

    def make_layers(self) -> None:
        """Make all layers with weights."""
        RecurrentStack.make_layers(self)
        self.out_y = self.make_output()

    def sublayers(self) -> list:
        """Return all layers with weights."""
        return [*RecurrentStack.sublayers(self), self.out_y]

    def build(self, *_: Any) -> None:
        """Create the weights of all layers."""
        RecurrentStack.build(self)

    @property
    def feed_size(self) -> int:
        """Nothing is fed."""
        return 0

    def memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """Return a memory that knows the sentences' lengths alone."""
        nothing = compute(self, values[..., :0])
        return Memory(nothing, nothing, tf.sequence_mask(lengths, tf.shape(values)[1]))

    def call(
        self,
        inputs: tf.Tensor,
        memory: Memory,
        state: DecoderState,
        noise: Noise | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See Decoder."""
        t = self.climb_sentence(compute(self, inputs), state.hidden, noise)
        batch, words = tf.unstack(tf.shape(t)[:2])
        return t, tf.zeros([batch, words, tf.shape(memory.mask)[1]], t.dtype)

    def step(
        self,
        inputs: tf.Tensor,
        memory: Memory,
        state: DecoderState,
        *,
        shared: bool = False,
        dropout: Noise | None = None,
    ) -> Step:
        """See TfNmtDecoder."""
        t, hidden = self.climb(compute(self, inputs), state.hidden, dropout)
        attention = tf.zeros([tf.shape(t)[0], tf.shape(memory.mask)[1]], t.dtype)
        return t, DecoderState(hidden, state.feed), attention
