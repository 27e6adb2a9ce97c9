"""The target decoder, P(y|x, z), in the paper's form and in TF-NMT's."""

from typing import NamedTuple

import keras
import tensorflow as tf

from aevnmt_tf.nets.attention import AttentionWeights, Bahdanau, run_attention_gru
from aevnmt_tf.nets.linear import project
from aevnmt_tf.nets.output import Output
from aevnmt_tf.nets.precision import compute
from aevnmt_tf.nets.recurrent import arrays, write
from aevnmt_tf.nets.stack import RecurrentStack


class DecoderState(NamedTuple):
    """What changes from word to word."""

    hidden: tuple  # [B, H] for each layer
    feed: tf.Tensor  # [B, H] TF-NMT's attention vector; [B, 0] in the paper's form


class Decoder(RecurrentStack):
    """What both forms share. A form defines its sizes, `call` (a sentence) and `step` (a word).

    Args:
        memory_size: 2H.
        vocab_size: Vy.
        packed, label_smoothing: see `Output`.
        **kwargs: as RecurrentStack.
    """

    gru_label = "gru_dec"
    start_label = "init_dec"
    arguments = (
        *RecurrentStack.arguments,
        "memory_size",
        "vocab_size",
        "packed",
        "label_smoothing",
    )
    output_bias = True

    def __init__(self, *, memory_size, vocab_size, packed=True, label_smoothing=0.0, **kwargs):
        super().__init__(**kwargs)
        self.memory_size = memory_size
        self.vocab_size = vocab_size
        self.packed = packed
        self.label_smoothing = label_smoothing
        self.make_layers()
        self.bahd = Bahdanau(
            memory_size=memory_size, units=self.units, name="bahd", dtype=self.dtype_policy
        )
        self.out_y = Output(
            input_size=self.feature_size,
            vocab_size=vocab_size,
            use_bias=self.output_bias,
            packed=packed,
            label_smoothing=label_smoothing,
            name="out_y",
            dtype=self.dtype_policy,
        )

    def sublayers(self):
        """All layers with weights."""
        return [*super().sublayers(), self.bahd, self.out_y]

    def size_below(self, k):
        """What a form feeds to its first layer, or the layer below."""
        return self.units if k else self.first_input_size

    def begin(self, values, lengths, z=None):
        """The encoder's values [B, Tx, 2H], lengths [B], z [B, Z] -> Memory, DecoderState."""
        memory = self.bahd.memory(values, lengths)
        feed = tf.zeros([tf.shape(lengths)[0], self.feed_size], self.compute_dtype)
        return memory, DecoderState(self.start(z, lengths), feed)


# DEVIATION: the authors' code has the other decoder, TfNmtDecoder (decoder_style tfnmt); the
# default is the paper's.
@keras.saving.register_keras_serializable("aevnmt_tf")
class PaperDecoder(Decoder):
    """The decoder of Appendix A.

        t_0 = tanh(affine(z; theta_init-dec))                               Eq. (init-dec)
        c_j = attention(s_1^m, t_{j-1}; theta_bahd)                         Eq. (att)
        t_j = GRU(t_{j-1}, [c_j, e_{j-1}]; theta_gru-dec)                   Eq. (dec)
        f(z, x, y_<j) = softmax(affine([t_j, e_{j-1}, c_j]; theta_out-y))   Eq. (out-y)

    With several layers the first attends, with its own old state, and the others read the one
    below; t_j of Eq. (out-y) is the top one's.
    """

    feed_size = 0

    @property
    def first_input_size(self):
        """[c_j, e_{j-1}]."""
        return self.memory_size + self.input_size

    @property
    def feature_size(self):
        """[t_j, e_{j-1}, c_j]."""
        return self.units + self.input_size + self.memory_size

    def call(self, inputs, memory, state, noise=None):
        """inputs [B, Ty, E] = e_0 .. e_{n-1} -> features of out_y [B, Ty, F], attention [B, Ty,
        Tx]."""
        noise = noise or {}
        inputs = compute(self, inputs)
        kernel, recurrent, bias, second = self.grus[0].weights_of()
        words, context_mask = inputs, None
        if (mask := noise.get(self.grus[0].name)) is not None:
            mask = compute(self, mask)
            words = inputs * mask[..., self.memory_size :]
            context_mask = tf.transpose(mask[..., : self.memory_size], [1, 0, 2])
        x = project(words, kernel[self.memory_size :], bias)  # [B, Ty, 3H]
        weights = AttentionWeights(
            compute(self, self.bahd.query_kernel),
            compute(self, self.bahd.v),
            kernel[: self.memory_size],
            recurrent,
            second,
        )
        t, c, attention = (
            tf.transpose(v, [1, 0, 2])
            for v in run_attention_gru(
                tf.transpose(x, [1, 0, 2]),
                state.hidden[0],
                memory,
                weights,
                context_mask,
                cell=self.grus[0].cell,
            )
        )
        for layer, start in zip(self.grus[1:], state.hidden[1:], strict=True):
            t = layer(t, start, dropout=noise.get(layer.name))
        return tf.concat([t, inputs, c], axis=-1), attention

    def step(self, inputs, memory, state):
        """One word: inputs [B, E] = e_{j-1} -> features of out_y [B, F], DecoderState,
        attention [B, Tx]."""
        inputs = compute(self, inputs)
        c, attention = self.bahd(state.hidden[0], memory)  # Eq. (att)
        t, hidden = tf.concat([c, inputs], axis=-1), []
        for layer, old in zip(self.grus, state.hidden, strict=True):
            t = layer.step(t, old)  # Eq. (dec)
            hidden.append(t)
        features = tf.concat([t, inputs, c], axis=-1)
        return features, DecoderState(tuple(hidden), state.feed), attention


@keras.saving.register_keras_serializable("aevnmt_tf")
class TfNmtDecoder(Decoder):
    """The decoder of the authors' code: TF-NMT's AttentionWrapper with input feeding.

    t_j = GRU(t_{j-1}, [e_{j-1}, a_{j-1}])            a_0 = 0
    c_j = attention(s_1^m, t_j)                       from the NEW state of the top layer
    a_j = W_att [t_j, c_j]                            no bias
    f(z, x, y_<j) = softmax(W_out a_j)                no bias
    """

    output_bias = False

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.att_layer = keras.layers.Dense(
            self.units, use_bias=False, name="att_layer", dtype=self.dtype_policy
        )

    def build(self, *_):
        """Creates the weights of all layers."""
        super().build()
        self.att_layer.build((None, self.units + self.memory_size))

    @property
    def feed_size(self):
        """a_j."""
        return self.units

    @property
    def first_input_size(self):
        """[e_{j-1}, a_{j-1}]."""
        return self.input_size + self.units

    @property
    def feature_size(self):
        """a_j."""
        return self.units

    def call(self, inputs, memory, state, noise=None):
        """As PaperDecoder.call."""
        noise = noise or {}
        inputs = tf.transpose(compute(self, inputs), [1, 0, 2])  # [Ty, B, E]
        masks = {
            name: tf.transpose(compute(self, noise[name]), [1, 0, 2])
            for name in (layer.name for layer in self.grus)
            if name in noise
        }

        def body(t, state, kept):
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

    def step(self, inputs, memory, state, dropout=None):
        """As PaperDecoder.step; `dropout` holds a mask [B, in] by layer name."""
        t, hidden = tf.concat([compute(self, inputs), state.feed], axis=-1), []
        for layer, old in zip(self.grus, state.hidden, strict=True):
            if dropout:
                t *= dropout[layer.name]
            t = layer.step(t, old)
            hidden.append(t)
        c, attention = self.bahd(t, memory)
        feed = self.att_layer(tf.concat([t, c], axis=-1))
        return feed, DecoderState(tuple(hidden), feed), attention


DECODERS = {"paper": PaperDecoder, "tf_nmt": TfNmtDecoder}
