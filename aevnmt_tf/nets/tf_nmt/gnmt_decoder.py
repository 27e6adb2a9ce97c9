"""GNMT's decoder (Wu et al., 2016) as TF-NMT has it.

t_j^1 = RNN(t_{j-1}^1, [e_{j-1}, c_{j-1}])        c_0 = 0
c_j = attention(s_1^m, t_j^1)                     from the new state of the bottom layer
t_j^k = RNN(t_{j-1}^k, [t_j^{k-1}, c])            c is c_{j-1} (gnmt) or c_j (gnmt_v2)
f(z, x, y_<j) = softmax(W_out t_j^K)              no bias
"""

from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.decoder.bahdanau import Memory
from aevnmt_tf.nets.decoder.base_decoder import Decoder, DecoderState, Step
from aevnmt_tf.nets.decoder.tf_nmt_decoder import TfNmtDecoder
from aevnmt_tf.nets.matrix_products import compute
from aevnmt_tf.nets.recurrent import Noise


@keras.saving.register_keras_serializable("aevnmt_tf")
class GnmtDecoder(TfNmtDecoder):
    """Attention from the bottom layer, its context read by all.

    A residual connection adds the part of a layer's input that is the output below.

    Args:
        new_context: whether layers above the first read c_j (gnmt_v2), or c_{j-1} (gnmt).
        **kwargs: as TfNmtDecoder.
    """

    arguments = (*TfNmtDecoder.arguments, "new_context")

    def __init__(self, *, new_context: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.new_context = new_context

    def make_layers(self) -> None:
        """Make all layers with weights: there is no attention layer."""
        Decoder.make_layers(self)

    def build(self, *_: Any) -> None:
        """Create the weights of all layers."""
        Decoder.build(self)

    @property
    def feed_size(self) -> int:
        """The size of c_j."""
        return self.memory_size

    def size_below(self, k: int) -> int:
        """Return the size of the word, or the output below, and the context."""
        return (self.units if k else self.input_size) + self.memory_size

    def call(
        self,
        inputs: tf.Tensor,
        memory: Memory,
        state: DecoderState,
        noise: Noise | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See Decoder: word by word for the bottom layer, then one layer after another."""
        bottom = state._replace(hidden=state.hidden[:1])
        (t, c), attention = self.feed_sentence(
            inputs,
            memory,
            bottom,
            noise,
            attention_kernel=None,
            wanted=("outputs", "contexts"),
        )
        if not self.new_context:
            c = tf.concat([state.feed[:, None], c[:, :-1]], axis=1)
        return self.climb_sentence(t, state.hidden, noise, first=1, beside=c), attention

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
        first = self.grus[0]
        inputs = tf.concat([compute(self, inputs), state.feed], axis=-1)
        if dropout:
            inputs *= dropout[first.name]
        hidden = first.step(inputs, state.hidden[0])
        t = hidden[..., : self.units]
        c, attention = self.bahd(t, memory, shared=shared)
        context = c if self.new_context else state.feed
        t, above = self.climb(t, state.hidden, dropout, first=1, beside=context)
        return t, DecoderState((hidden, *above), c), attention
