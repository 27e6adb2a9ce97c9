"""TF-NMT's decoders; the authors' code has the first one, with a GRU and Bahdanau's attention.

The AttentionWrapper with input feeding (attention_architecture standard):

    t_j = RNN(t_{j-1}, [e_{j-1}, a_{j-1}])            a_0 = 0
    c_j = attention(s_1^m, t_j)                       from the NEW state of the top layer
    a_j = W_att [t_j, c_j]                            no bias
    f(z, x, y_<j) = softmax(W_out a_j)                no bias; t_j without output_attention

GNMT's and the one without attention are in nets/tf_nmt/.
"""

from typing import Any

import keras
import tensorflow as tf

from aevnmt_tf.nets.decoder.bahdanau import Bahdanau, Memory
from aevnmt_tf.nets.decoder.base_decoder import Decoder, DecoderState, Step
from aevnmt_tf.nets.decoder.input_feeding import (
    FeedingWeights,
    Form,
    LayerWeights,
    run_input_feeding,
)
from aevnmt_tf.nets.matrix_products import compute, project
from aevnmt_tf.nets.recurrent import Noise, outputs_of
from aevnmt_tf.nets.tf_nmt.attention_mechanisms import MECHANISMS


@keras.saving.register_keras_serializable("aevnmt_tf")
class TfNmtDecoder(Decoder):
    """TF-NMT's form. Its step needs nothing else for a search: out_y reads one vector alone.

    Args:
        attention: one of MECHANISMS.
        output_attention: whether out_y reads a_j, or t_j.
        residual_layers: how many layers, from the top, add their input to their output.
        pass_hidden_state: whether layers start from the encoder's, which gives Encoded then.
        **kwargs: as Decoder.
    """

    output_bias = False
    arguments = (
        *Decoder.arguments,
        "attention",
        "output_attention",
        "residual_layers",
        "pass_hidden_state",
    )

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
        self.make_layers()

    def make_layers(self) -> None:
        """Make all layers with weights."""
        super().make_layers()
        self.att_layer = keras.layers.Dense(
            self.units, use_bias=False, name="att_layer", dtype=self.dtype_policy
        )

    def make_attention(self) -> Bahdanau:
        """Return the mechanism; in checkpoints each is called bahd."""
        return MECHANISMS[self.attention](
            memory_size=self.memory_size, units=self.units, name="bahd", dtype=self.dtype_policy
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
        return self.input_size + self.feed_size

    @property
    def feature_size(self) -> int:
        """The size of a_j, or of t_j."""
        return self.units

    def begin(
        self, values: Any, lengths: tf.Tensor, z: tf.Tensor | None = None
    ) -> tuple[Memory, DecoderState]:
        """See Decoder; values are Encoded with pass_hidden_state."""
        if not self.pass_hidden_state:
            return super().begin(values, lengths, z)
        memory, state = super().begin(values.values, lengths, z)
        return memory, state._replace(hidden=values.states)

    def call(
        self,
        inputs: tf.Tensor,
        memory: Memory,
        state: DecoderState,
        noise: Noise | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See Decoder."""
        name = "feeds" if self.output_attention else "outputs"
        kernel = compute(self, self.att_layer.kernel)
        (features,), attention = self.feed_sentence(
            inputs, memory, state, noise, attention_kernel=kernel, wanted=(name,)
        )
        return features, attention

    def feed_sentence(
        self,
        inputs: tf.Tensor,
        memory: Memory,
        state: DecoderState,
        noise: Noise | None,
        *,
        attention_kernel: tf.Tensor | None,
        wanted: tuple[str, ...],
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Run the layers that `state` has states of over sentences.

        Args:
            inputs: [B, Ty, E], the words.
            memory: of `begin`.
            state: of `begin`, for the layers to run.
            noise: masks by layer name.
            attention_kernel: W_att, or None where contexts are fed as they are.
            wanted: fields of Fed.

        Returns:
            what is wanted [B, Ty, ...], and attention [B, Ty, Tx].
        """
        words, masks, layers = compute(self, inputs), [], []
        for k, layer in enumerate(self.grus[: len(state.hidden)]):
            kernel, recurrent, bias, second = layer.weights_of()
            mask = None
            if noise and layer.name in noise:
                mask = compute(self, noise[layer.name])
            if k == 0:  # reads [e_{j-1}, a_{j-1}]
                if mask is not None:
                    words *= mask[..., : self.input_size]
                    mask = mask[..., self.input_size :]
                x = project(words, kernel[: self.input_size], bias)  # [B, Ty, 3H]
                kernel, bias = kernel[self.input_size :], None
            masks.append(None if mask is None else time_first(mask))
            layers.append(LayerWeights(kernel, bias, recurrent, second))
        source, score = self.bahd.in_sentence(memory)
        residual = tuple(self.is_residual(k) for k in range(len(layers)))
        found, attention = run_input_feeding(
            time_first(x),
            tuple(compute(self, hidden) for hidden in state.hidden),
            state.feed,
            source,
            FeedingWeights(tuple(layers), score, attention_kernel),
            masks,
            form=Form(self.grus[0].cell, self.bahd.score, self.units, residual),
            wanted=wanted,
        )
        return [time_first(each) for each in found], time_first(attention)

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
        t, hidden = self.climb(t, state.hidden, dropout)
        c, attention = self.bahd(t, memory, shared=shared)
        feed = self.att_layer(tf.concat([t, c], axis=-1))
        features = feed if self.output_attention else t
        return features, DecoderState(hidden, feed), attention

    def climb(
        self,
        below: tf.Tensor,
        states: tuple[tf.Tensor, ...],
        dropout: Noise | None = None,
        *,
        first: int = 0,
        beside: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
        """Return the top output and the new states of the layers from `first` on.

        Args:
            below: [N, in], what the first of them reads; [N, H] if `beside` is there.
            states: those of all layers.
            dropout: a mask [N, in] by layer name.
            first: the number of the first layer.
            beside: [N, M], what each layer reads beside the one below.
        """
        new = []
        for k, layer in enumerate(self.grus[first:], start=first):
            inputs = below if beside is None else tf.concat([below, beside], axis=-1)
            if dropout:
                inputs *= dropout[layer.name]
            # Dropout is inside of the residual connection.
            new.append(layer.step(inputs, states[k]))
            output = outputs_of(new[-1], self.units)
            below = output + below if self.is_residual(k) else output
        return below, tuple(new)

    def climb_sentence(
        self,
        below: tf.Tensor,
        states: tuple[tf.Tensor, ...],
        noise: Noise | None,
        *,
        first: int = 0,
        beside: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the top outputs [B, Ty, H]; arguments as `climb`, for whole sentences."""
        noise = noise or {}
        for k, layer in enumerate(self.grus[first:], start=first):
            inputs = below if beside is None else tf.concat([below, beside], axis=-1)
            output = layer(inputs, states[k], dropout=noise.get(layer.name))
            below = output + below if self.is_residual(k) else output
        return below

    def is_residual(self, k: int) -> bool:
        """Return whether layer k (from 0) adds its input to its output."""
        return k >= self.num_layers - self.residual_layers


def time_first(sequence: tf.Tensor) -> tf.Tensor:
    """Return [T, B, ...] of [B, T, ...], or the other way around."""
    return tf.transpose(sequence, [1, 0, 2])
