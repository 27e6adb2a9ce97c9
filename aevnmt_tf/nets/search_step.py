"""One more word for K hypotheses of each sentence: the decoder's step, arranged for search.

A matrix W that meets the context or the last word needs its large product once a source word,
or once a different word, and not once a hypothesis:

    W c_j = W sum_i a_i s_i = sum_i a_i (W s_i)          Eq. (att) in Eq. (dec) and Eq. (out-y)

and all hypotheses of a sentence attend to one copy of the source. Where weights change no more,
the products of all words can be kept in a table.
"""

from typing import NamedTuple

import tensorflow as tf

from aevnmt_tf.nets.attention import Memory
from aevnmt_tf.nets.cells import ready
from aevnmt_tf.nets.decoder import DecoderState, PaperDecoder, TfNmtDecoder
from aevnmt_tf.nets.linear import project
from aevnmt_tf.nets.precision import compute

# Numbers that W s may take. Beyond that (long sources in large batches) it is not kept.
MOST_PROJECTED = 1 << 26
MOST_TABULATED = 1 << 26  # numbers of a WordTable: 256 MB, enough for 8,000 words


class SearchMemory(NamedTuple):
    """A source as search sees it. What is projected has no entries where it is not kept."""

    source: Memory
    inputs: tf.Tensor  # [B, Tx, 3H] W s of the GRU, with its bias
    logits: tf.Tensor  # [B, Tx, V] W s of the output layer, with its bias


class WordTable(NamedTuple):
    """What each word adds, without bias."""

    inputs: tf.Tensor  # [V, 3H] W e of the GRU
    logits: tf.Tensor  # [V, V] W e of the output layer


class _Weights(NamedTuple):
    """Of Eq. (dec) and Eq. (out-y), by what they meet: context c, word e or state t."""

    inputs_c: tf.Tensor  # [2H, 3H]
    inputs_e: tf.Tensor  # [E, 3H]
    inputs_bias: tf.Tensor  # [3H]
    recurrent: list  # matrices of the GRU's cell, made of its recurrent kernel
    logits_t: tf.Tensor  # [H, V]
    logits_e: tf.Tensor  # [E, V]
    logits_c: tf.Tensor  # [2H, V]
    logits_bias: tf.Tensor  # [V]


class PaperSearchStep:
    """The step of nets.PaperDecoder for rows b * K + k.

    Args:
        decoder: a nets.PaperDecoder.
        embedding: the target's nets.Embedding.
        width: K; with 1 no two hypotheses share a source.
        words: a WordTable of the decoder's weights as they are, or None.
    """

    def __init__(self, decoder, embedding, *, width, words=None):
        self._decoder = decoder
        self._embedding = embedding
        self._width = width
        self._words = words
        self._has_parts = width > 1 or words is not None
        # Taken apart here, before the loop: inside it they would be copied for each word.
        self._weights = _weights(decoder) if self._has_parts else None

    def memory(self, source):
        """A Memory as search should carry it."""
        if not self._has_parts:
            return source
        batch, time = tf.unstack(tf.shape(source.mask))
        room = MOST_PROJECTED // self._decoder.vocab_size if self._width > 1 else 0
        fits = batch * time <= room
        values = source.values[:, : tf.where(fits, time, 0)]
        w = self._weights
        # The weights of attention sum to one, so a bias may be added before they are applied.
        return SearchMemory(
            source,
            project(values, w.inputs_c, w.inputs_bias),
            project(values, w.logits_c, w.logits_bias),
        )

    def __call__(self, memory, state, y):
        """As model.Aevnmt.step, for y [B * K] and a memory of B rows."""
        if not self._has_parts:
            e = self._embedding(y)
            features, state, attention = self._decoder.step(e, memory, state)
            return self._decoder.out_y(features), state, attention
        first, *others = self._decoder.grus
        w = self._weights
        attention = attend(self._decoder.bahd, state.hidden[0], memory.source)  # Eq. (att)
        from_c = self._from_context(attention, memory, w)
        from_e = self._from_words(y, w)
        old, second = compute(first, state.hidden[0]), first.weights_of()[3]
        t = first.cell.step(from_c[0] + from_e[0], old, w.recurrent, second)[0]  # Eq. (dec)
        hidden = [t]
        for layer, old in zip(others, state.hidden[1:], strict=True):
            t = layer.step(t, old)
            hidden.append(t)
        logits = tf.add_n([tf.matmul(t, w.logits_t), from_e[1], from_c[1]])  # Eq. (out-y)
        attention = tf.reshape(attention, [tf.size(y), tf.shape(attention)[-1]])
        state = DecoderState(tuple(hidden), state.feed)
        return tf.cast(logits, tf.float32), state, attention

    def _from_words(self, y, w):
        """What the last words add to the GRU's inputs [B * K, 3H] and the logits [B * K, V]."""
        if self._words is not None:
            return [tf.gather(part, y) for part in self._words]
        words, place = tf.unique(y)
        e = compute(self._decoder, self._embedding(words))  # [words, E]
        return [tf.gather(tf.matmul(e, kernel), place) for kernel in (w.inputs_e, w.logits_e)]

    def _from_context(self, attention, memory, w):
        """What the context adds to the GRU's inputs [B * K, 3H] and the logits [B * K, V]."""

        def shared():
            return tf.matmul(attention, memory.inputs), tf.matmul(attention, memory.logits)

        def direct():
            c = tf.matmul(attention, memory.source.values)  # [B, K, 2H]
            return (
                project(c, w.inputs_c, w.inputs_bias),
                project(c, w.logits_c, w.logits_bias),
            )

        parts = tf.cond(tf.shape(memory.logits)[1] > 0, shared, direct)
        sizes = (w.inputs_c.shape[1], w.logits_c.shape[1])
        return [tf.reshape(part, [-1, size]) for part, size in zip(parts, sizes, strict=True)]


def _weights(decoder):
    kernel, recurrent, bias, _ = decoder.grus[0].weights_of()
    recurrent = ready(decoder.grus[0].cell.parts(recurrent))
    e, c, t = decoder.input_size, decoder.memory_size, decoder.units
    inputs_c, inputs_e = tf.split(kernel, [c, e])
    out, out_bias = (compute(decoder, v) for v in (decoder.out_y.kernel, decoder.out_y.bias))
    logits_t, logits_e, logits_c = tf.split(out, [t, e, c])
    return _Weights(inputs_c, inputs_e, bias, recurrent, logits_t, logits_e, logits_c, out_bias)


class TfNmtSearchStep:
    """The same for nets.TfNmtDecoder, whose output layer reads one vector alone."""

    def __init__(self, decoder, embedding, *, width, words=None):
        del width, words
        self._decoder = decoder
        self._embedding = embedding

    def memory(self, source):
        """A Memory as search should carry it."""
        return source

    def __call__(self, memory, state, y):
        """As model.Aevnmt.step, for y [B * K] and a memory of B rows."""
        decoder = self._decoder
        t, hidden = tf.concat([compute(decoder, self._embedding(y)), state.feed], -1), []
        for layer, old in zip(decoder.grus, state.hidden, strict=True):
            t = layer.step(t, old)
            hidden.append(t)
        attention = attend(decoder.bahd, t, memory)
        c = tf.reshape(tf.matmul(attention, memory.values), [-1, decoder.memory_size])
        attention = tf.reshape(attention, [tf.size(y), tf.shape(attention)[-1]])
        feed = decoder.att_layer(tf.concat([t, c], -1))
        return decoder.out_y(feed), DecoderState(tuple(hidden), feed), attention


def make(decoder, embedding, *, width, words=None):
    """The search step of a decoder; see PaperSearchStep."""
    steps = {PaperDecoder: PaperSearchStep, TfNmtDecoder: TfNmtSearchStep}
    return steps[type(decoder)](decoder, embedding, width=width, words=words)


def word_table(decoder, embedding):
    """The WordTable of weights as they are now; None where it is too large or of no use."""
    size = decoder.vocab_size
    if not isinstance(decoder, PaperDecoder) or size**2 > MOST_TABULATED:
        return None
    w = _weights(decoder)
    e = compute(decoder, embedding(tf.range(size)))  # [V, E]
    return WordTable(tf.matmul(e, w.inputs_e), tf.matmul(e, w.logits_e))


def attend(bahdanau, state, memory):
    """The weights [B, K, Tx] of attention(s, t) for states [B * K, H]."""
    query = tf.matmul(compute(bahdanau, state), compute(bahdanau, bahdanau.query_kernel))
    batch, time, units = tf.unstack(tf.shape(memory.keys))
    query = tf.reshape(query, [batch, -1, 1, bahdanau.units])  # [B, K, 1, H]
    inner = tf.tanh(memory.keys[:, None] + query)  # [B, K, Tx, H]
    v = compute(bahdanau, bahdanau.v)
    scores = tf.matmul(tf.reshape(inner, [-1, units]), v[:, None])
    scores = tf.cast(tf.reshape(scores, [batch, -1, time]), tf.float32)
    weights = tf.nn.softmax(tf.where(memory.mask[:, None], scores, scores.dtype.min))
    return tf.cast(weights, inner.dtype)
