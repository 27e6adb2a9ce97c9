"""One more word for K hypotheses of each sentence: the decoder's step, arranged for search.

What the hypotheses of a sentence have in common is computed once: attention reads one copy of
the source, and the context's part of the output layer,

    W_c c_j = W_c sum_i a_i s_i = sum_i a_i (W_c s_i),

needs its large product W_c s_i once a source word, not once a hypothesis and step. The word's
part W_e e_{j-1} is computed once for each different word of a step.
"""

from typing import NamedTuple

import tensorflow as tf

from aevnmt_tf.nets.attention import Memory
from aevnmt_tf.nets.decoder import DecoderState, PaperDecoder, TfNmtDecoder
from aevnmt_tf.nets.precision import compute

# Numbers that W_c s may take. Beyond that (long sources, large batches) it is not kept.
MOST_PROJECTED = 1 << 26


class SearchMemory(NamedTuple):
    """A source as search sees it."""

    source: Memory
    projected: tf.Tensor  # [B, Tx, V] W_c s, or [B, 0, V] where it does not pay or fit


class PaperSearchStep:
    """The step of nets.PaperDecoder for rows b * K + k.

    Args:
        decoder: a nets.PaperDecoder.
        embedding: the target's nets.Embedding.
        width: K; 1 is a search without a beam, for which nothing is kept.
    """

    def __init__(self, decoder, embedding, *, width):
        self._decoder = decoder
        self._embedding = embedding
        self._width = width

    def memory(self, source):
        """A Memory as search should carry it."""
        batch, time = tf.unstack(tf.shape(source.mask))
        size = self._decoder.vocab_size
        if self._width == 1:
            return SearchMemory(source, tf.zeros([batch, 0, size]))
        fits = batch * time <= MOST_PROJECTED // size
        kept = tf.where(fits, time, 0)
        *_, w_c, _ = self._output()
        projected = tf.matmul(source.values[:, :kept], w_c)
        return SearchMemory(source, projected)

    def __call__(self, memory, state, y):
        """As model.Aevnmt.step, for y [B * K] and a memory of B rows."""
        decoder = self._decoder
        e = compute(decoder, self._embedding(y))  # [B * K, E]
        c, attention = attend(decoder.bahd, state.hidden[0], memory.source)  # Eq. (att)
        t, hidden = tf.concat([c, e], -1), []
        for layer, old in zip(decoder.grus, state.hidden, strict=True):
            t = layer.step(t, old)  # Eq. (dec)
            hidden.append(t)
        state = DecoderState(tuple(hidden), state.feed)
        return tf.cast(self._logits(t, e, c, attention, memory), tf.float32), state, attention

    def _output(self):
        """Eq. (out-y) in parts: W_t, W_e, W_c and the bias."""
        decoder = self._decoder
        kernel, bias = (compute(decoder, w) for w in (decoder.out_y.kernel, decoder.out_y.bias))
        sizes = [decoder.units, decoder.input_size, decoder.memory_size]
        return *tf.split(kernel, sizes), bias

    def _logits(self, t, e, c, attention, memory):
        decoder = self._decoder
        if self._width == 1:
            return decoder.out_y(tf.concat([t, e, c], -1))
        w_t, w_e, w_c, bias = self._output()

        def shared():
            weights = by_sentence(attention, memory.projected)
            part = tf.matmul(weights, memory.projected)
            return tf.reshape(part, [-1, part.shape[-1]])

        is_kept = tf.shape(memory.projected)[1] > 0
        part = tf.cond(is_kept, shared, lambda: tf.matmul(c, w_c))
        words = tf.matmul(e, w_e)
        return tf.nn.bias_add(tf.matmul(t, w_t) + words + part, bias)


class TfNmtSearchStep:
    """The same for nets.TfNmtDecoder, whose output layer reads one vector alone."""

    def __init__(self, decoder, embedding, *, width):
        del width
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
        c, attention = attend(decoder.bahd, t, memory)
        feed = decoder.att_layer(tf.concat([t, c], -1))
        return decoder.out_y(feed), DecoderState(tuple(hidden), feed), attention


def make(decoder, embedding, *, width):
    """The search step of a decoder; see PaperSearchStep."""
    steps = {PaperDecoder: PaperSearchStep, TfNmtDecoder: TfNmtSearchStep}
    return steps[type(decoder)](decoder, embedding, width=width)


def by_sentence(rows, memory):
    """[B * K, n] to [B, K, n] for a memory of B rows."""
    return tf.reshape(rows, tf.stack([tf.shape(memory)[0], -1, tf.shape(rows)[-1]]))


def attend(bahdanau, state, memory):
    """attention(s, t): states [B * K, H] -> contexts [B * K, 2H], weights [B * K, Tx]."""
    query = tf.matmul(compute(bahdanau, state), compute(bahdanau, bahdanau.query_kernel))
    query = by_sentence(query, memory.keys)[:, :, None]  # [B, K, 1, H]
    inner = tf.tanh(memory.keys[:, None] + query)  # [B, K, Tx, H]
    v = compute(bahdanau, bahdanau.v)
    scores = tf.matmul(tf.reshape(inner, [-1, bahdanau.units]), v[:, None])
    scores = tf.cast(tf.reshape(scores, tf.shape(inner)[:3]), tf.float32)  # [B, K, Tx]
    weights = tf.nn.softmax(tf.where(memory.mask[:, None], scores, scores.dtype.min))
    weights = tf.cast(weights, inner.dtype)
    context = tf.matmul(weights, memory.values)  # [B, K, 2H]
    rows = tf.shape(state)[0]
    return (
        tf.reshape(context, [rows, bahdanau.memory_size]),
        tf.reshape(weights, [rows, tf.shape(weights)[-1]]),
    )
