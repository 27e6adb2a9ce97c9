"""GNMT's decoder (Wu et al., 2016) in TF-NMT's form.

t_j^1 = RNN(t_{j-1}^1, [e_{j-1}, c_{j-1}])        c_0 = 0
c_j = attention(s_1^m, t_j^1)                     from the new state of the bottom layer
t_j^k = RNN(t_{j-1}^k, [t_j^{k-1}, c])            c is c_{j-1} (gnmt) or c_j (gnmt_v2)
f(z, x, y_<j) = softmax(W_out t_j^K)              no bias
"""

from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.decoder.attention import Memory
from aevnmt_tf.nets.decoder.base_decoder import DecoderState, Step
from aevnmt_tf.nets.decoder.tf_nmt_decoder import TfNmtForm
from aevnmt_tf.nets.matrix_products import compute
from aevnmt_tf.nets.recurrent import Noise
from aevnmt_tf.nets.recurrent_stack import run_stack, step_stack


@keras.saving.register_keras_serializable("aevnmt_tf")
class GnmtDecoder(TfNmtForm):
    """Attention from the bottom layer, whose context all layers read.

    A residual connection adds the part of a layer's input that is the output below.

    Args:
        new_context: whether layers above the first read c_j (gnmt_v2), or c_{j-1} (gnmt).
        **kwargs: as TfNmtForm.
    """

    def __init__(self, *, new_context: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.new_context = new_context

    def size_below(self, k: int) -> int:
        """Return the size of a word, or the output below, and the context."""
        return (self.units if k else self.input_size) + self.memory_size

    def run(
        self, inputs: tf.Tensor, memory: Memory, state: DecoderState, noise: Noise
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See Decoder: word by word for the bottom layer, then layer by layer."""
        first, *above = state.hidden
        (t, c), attention = self.run_attending(
            inputs, memory, [first], noise, wanted=["outputs", "contexts"], feed=(state.feed,)
        )
        if not self.new_context:
            c = tf.concat([state.feed[:, None], c[:, :-1]], axis=1)
        residual = self.residual_layers
        t, _ = run_stack(self.grus[1:], t, above, noise, residual=residual, beside=c)
        return t, attention

    def step(
        self, inputs: tf.Tensor, memory: Memory, state: DecoderState, *, shared: bool = False
    ) -> Step:
        """See Decoder."""
        read = tf.concat([compute(self, inputs), state.feed], axis=-1)
        t, first = step_stack(self.grus[:1], read, state.hidden[:1])
        c, attention = self.bahd(t, memory, shared=shared)
        context, residual = (c if self.new_context else state.feed), self.residual_layers
        t, above = step_stack(
            self.grus[1:], t, state.hidden[1:], residual=residual, beside=context
        )
        return t, DecoderState((*first, *above), c), attention
