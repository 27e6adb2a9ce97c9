"""The decoder of the paper's Appendix A: over a sentence, for a word, and within a search.

    t_0 = tanh(affine(z; theta_init-dec))                               Eq. (init-dec)
    c_j = attention(s_1^m, t_{j-1}; theta_bahd)                         Eq. (att)
    t_j = GRU(t_{j-1}, [c_j, e_{j-1}]; theta_gru-dec)                   Eq. (dec)
          GRU(t_{j-1}, [c_j, e_{j-1}, z]; theta_gru-dec)                with feed_z
    f(z, x, y_<j) = softmax(affine([t_j, e_{j-1}, c_j]; theta_out-y))   Eq. (out-y)

In a search, a matrix W that meets the context or the last word needs its large product once per
source word, or once per distinct word, instead of once per hypothesis:

    W c_j = W sum_i a_i s_i = sum_i a_i (W s_i)          Eq. (att) in Eq. (dec) and Eq. (out-y)

and all hypotheses of a sentence attend to one copy of the source. Once the weights are final, a
table can hold the products of all words.
"""

from typing import NamedTuple

import keras
import tensorflow as tf

from aevnmt_tf.nets.cells import StepWeights
from aevnmt_tf.nets.decoder.attention import Memory, flat_weights
from aevnmt_tf.nets.decoder.base_decoder import Decoder, DecoderState, SearchStep, Step
from aevnmt_tf.nets.embedding import Embedding
from aevnmt_tf.nets.matrix_products import compute, project
from aevnmt_tf.nets.recurrent import Noise
from aevnmt_tf.nets.recurrent_stack import run_stack, step_stack, with_fed

# Numbers in W s. A larger one (long sources in large batches) is not kept.
MOST_PROJECTED = 1 << 26
MOST_TABULATED = 1 << 26  # numbers in a WordTable: 256 MB, enough for 8,000 words


# DEVIATION: the authors' code has the other decoder, TfNmtDecoder (decoder_style tf_nmt); the
# default is the paper's.
@keras.saving.register_keras_serializable("aevnmt_tf")
class PaperDecoder(Decoder):
    """The paper's form.

    With several layers the first attends, with its own old state, and each of the others reads
    the one below. t_j of Eq. (out-y) is that of the top layer.
    """

    attends_first = True

    @property
    def feature_size(self) -> int:
        """The size of [t_j, e_{j-1}, c_j]."""
        return self.units + self.input_size + self.memory_size

    def run(
        self, inputs: tf.Tensor, memory: Memory, state: DecoderState, noise: Noise
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See Decoder."""
        first, *above = state.hidden
        words = with_fed(inputs, state.feed)  # [B, Ty, E] or [B, Ty, E + Z]
        (t, c), attention = self.run_attending(
            words, memory, [first], noise, wanted=["outputs", "contexts"]
        )
        t, _ = run_stack(self.grus[1:], t, above, noise)
        return _features(t, inputs, c), attention

    def step(
        self, inputs: tf.Tensor, memory: Memory, state: DecoderState, *, shared: bool = False
    ) -> Step:
        """See Decoder."""
        inputs = compute(self, inputs)
        c, attention = self.bahd(state.hidden[0], memory, shared=shared)  # Eq. (att)
        read = tf.concat([c, inputs, state.feed], axis=-1)
        t, hidden = step_stack(self.grus, read, state.hidden)  # Eq. (dec)
        return _features(t, inputs, c), DecoderState(hidden, state.feed), attention

    def split_weights(self) -> "SplitWeights":
        """Return the weights of Eq. (dec) and Eq. (out-y), split by what they meet."""
        first = self.grus[0]
        kernel, recurrent, bias, second = first.weights_of()
        e, c, t = self.input_size, self.memory_size, self.units
        inputs_c, inputs_e, inputs_z = tf.split(kernel, [c, e, self.fed_size])
        logits_t, logits_e, logits_c = tf.split(self.out_y.matrix(), [t, e, c])  # as _features
        return SplitWeights(
            inputs_c=inputs_c,
            inputs_e=inputs_e,
            inputs_z=inputs_z,
            inputs_bias=bias,
            recurrent=first.cell.forward_weights(recurrent, second),
            logits_t=logits_t,
            logits_e=logits_e,
            logits_c=logits_c,
            logits_bias=compute(self, self.out_y.bias),
        )

    def word_table(self, embedding: Embedding) -> "WordTable | None":
        """Return the WordTable of the current weights; None if it would be too large."""
        if self.vocab_size**2 > MOST_TABULATED:
            return None
        w = self.split_weights()
        e = compute(self, embedding(tf.range(self.vocab_size)))  # [V, E]
        return WordTable(tf.matmul(e, w.inputs_e), tf.matmul(e, w.logits_e))

    def search_step(
        self, embedding: Embedding, *, width: int, words: "WordTable | None" = None
    ) -> SearchStep:
        """See Decoder."""
        if width == 1 and words is None:  # nothing to share
            return super().search_step(embedding, width=width)
        return PaperSearchStep(self, embedding, width=width, words=words)


def _features(t: tf.Tensor, e: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
    return tf.concat([t, e, c], axis=-1)  # of Eq. (out-y)


class SearchMemory(NamedTuple):
    """A source as the search sees it. The products have length 0 if they are not kept."""

    source: Memory
    inputs: tf.Tensor  # [B, Tx, 3H] W s of the GRU, with its bias
    logits: tf.Tensor  # [B, Tx, V] W s of the output layer, with its bias


class WordTable(NamedTuple):
    """What each word contributes, without bias."""

    inputs: tf.Tensor  # [V, 3H] W e of the GRU
    logits: tf.Tensor  # [V, V] W e of the output layer


class SplitWeights(NamedTuple):
    """The weights of Eq. (dec) and Eq. (out-y) by what they meet: c, e, z or t."""

    inputs_c: tf.Tensor  # [2H, 3H]
    inputs_e: tf.Tensor  # [E, 3H]
    inputs_z: tf.Tensor  # [Z, 3H], or [0, 3H] if z is not fed
    inputs_bias: tf.Tensor  # [3H]
    recurrent: StepWeights
    logits_t: tf.Tensor  # [H, V]
    logits_e: tf.Tensor  # [E, V]
    logits_c: tf.Tensor  # [2H, V]
    logits_bias: tf.Tensor  # [V]


class PaperSearchStep(SearchStep):
    """The step of a PaperDecoder with its products split. Arguments as `search_step`."""

    def __init__(
        self,
        decoder: PaperDecoder,
        embedding: Embedding,
        *,
        width: int,
        words: WordTable | None = None,
    ) -> None:
        super().__init__(decoder, embedding, shared=True)
        self._width = width
        self._words = words
        # Split here, before the loop: inside it they would be copied for each word.
        self._weights = decoder.split_weights()

    def memory(self, source: Memory) -> SearchMemory:
        """See SearchStep."""
        batch, time = tf.unstack(tf.shape(source.mask))
        room = MOST_PROJECTED // self._decoder.vocab_size if self._width > 1 else 0
        fits = batch * time <= room
        values = source.values[:, : tf.where(fits, time, 0)]
        w = self._weights
        # Attention weights sum to one, so the bias may be added before they are applied.
        return SearchMemory(
            source,
            project(values, w.inputs_c, w.inputs_bias),
            project(values, w.logits_c, w.logits_bias),
        )

    def __call__(self, memory: SearchMemory, state: DecoderState, y: tf.Tensor) -> Step:
        """See SearchStep."""
        decoder, w = self._decoder, self._weights
        old, first = state.hidden[0], decoder.grus[0]
        attention = decoder.bahd.attention(old, memory.source, shared=True)  # Eq. (att)
        inputs_c, logits_c = self._from_context(attention, memory)
        inputs_e, logits_e = self._from_words(y)
        inputs = inputs_c + inputs_e
        if decoder.fed_size:
            inputs += tf.matmul(state.feed, w.inputs_z)
        t = first.cell.step(inputs, compute(first, old), w.recurrent)[0]
        top, above = step_stack(decoder.grus[1:], t, state.hidden[1:])  # Eq. (dec)
        logits = tf.add_n([tf.matmul(top, w.logits_t), logits_e, logits_c])  # Eq. (out-y)
        state = DecoderState((t, *above), state.feed)
        return tf.cast(logits, tf.float32), state, flat_weights(attention)

    def _from_words(self, y: tf.Tensor) -> list[tf.Tensor]:
        """Return what words contribute to the GRU's inputs [N, 3H] and the logits [N, V]."""
        if self._words is not None:
            return [tf.gather(part, y) for part in self._words]
        w = self._weights
        words, place = tf.unique(y)
        e = compute(self._decoder, self._embedding(words))  # [words, E]
        return [tf.gather(tf.matmul(e, kernel), place) for kernel in (w.inputs_e, w.logits_e)]

    def _from_context(self, attention: tf.Tensor, memory: SearchMemory) -> list[tf.Tensor]:
        """Return what contexts contribute to the GRU's inputs [N, 3H] and the logits [N, V]."""
        w = self._weights

        def kept() -> tuple[tf.Tensor, tf.Tensor]:
            return tf.matmul(attention, memory.inputs), tf.matmul(attention, memory.logits)

        def direct() -> tuple[tf.Tensor, tf.Tensor]:
            c = tf.matmul(attention, memory.source.values)  # [B, K, 2H]
            inputs = project(c, w.inputs_c, w.inputs_bias)
            return inputs, project(c, w.logits_c, w.logits_bias)

        parts = tf.cond(tf.shape(memory.logits)[1] > 0, kept, direct)
        sizes = (w.inputs_c.shape[1], w.logits_c.shape[1])
        return [tf.reshape(part, [-1, size]) for part, size in zip(parts, sizes, strict=True)]
