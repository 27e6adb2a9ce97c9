"""A recurrent step function whose every hypothesis can be listed."""

import itertools

import numpy as np
import tensorflow as tf

from aevnmt_tf import search

SOS, EOS = 1, 2


class Toy:
    """A recurrent step function with random weights and a source vector for each sentence.

    The state depends on the whole history; `log_prob` is the same written in NumPy.
    """

    def __init__(self, seed, *, vocab=4, units=5, scale=1.5, eos_bias=0.0):
        random = np.random.default_rng(seed)
        self.vocab = vocab
        self.words = random.normal(size=(vocab, units)).astype(np.float32) * 1.5
        self.turn = random.normal(size=(units, units)).astype(np.float32)
        self.out = random.normal(size=(units, vocab)).astype(np.float32) * scale
        self.bias = np.zeros(vocab, np.float32)
        self.bias[EOS] = eos_bias
        self.random = random
        self.units = units

    def sources(self, batch, length=3):
        return self.random.normal(size=(batch, length, self.units)).astype(np.float32)

    def step(self, memory, state, y):
        batch = tf.shape(memory)[0]
        width = tf.shape(y)[0] // tf.maximum(batch, 1)
        query = tf.reshape(state, [batch, width, self.units])
        attention = tf.nn.softmax(tf.matmul(query, memory, transpose_b=True))  # [B, K, Tx]
        context = tf.reshape(tf.matmul(attention, memory), [-1, self.units])
        state = tf.tanh(tf.matmul(state, self.turn) + tf.gather(self.words, y) + context)
        attention = tf.reshape(attention, [batch * width, -1])
        return tf.matmul(state, self.out) + self.bias, state, attention

    def problem(self, sources, limits, **options):
        memory = tf.constant(sources)
        state = tf.zeros([len(sources), self.units])
        limits = tf.constant(limits, tf.int32)
        return search.SearchProblem(self.step, memory, state, limits, **options)

    def follow(self, source, ids):
        """Log-probabilities [T, V] before each word and attention [T, Tx], in NumPy."""
        state, y, log_probs, attention = np.zeros(self.units), SOS, [], []
        for word in ids:
            weights = source @ state
            weights = np.exp(weights - weights.max())
            weights /= weights.sum()
            attention.append(weights)
            state = np.tanh(state @ self.turn + self.words[y] + weights @ source)
            logits = state @ self.out + self.bias
            shift = logits.max()
            log_probs.append(logits - shift - np.log(np.exp(logits - shift).sum()))
            y = word
        return np.array(log_probs), np.array(attention)

    def log_prob(self, source, ids):
        return self.follow(source, ids)[0][np.arange(len(ids)), ids].sum()


def score(log_prob, length, weight):
    return log_prob / ((5 + length) / 6) ** weight


def everything(toy, source, limit, weight):
    """All finished hypotheses, best first: (score, ids)."""
    words = [w for w in range(toy.vocab) if w != EOS]
    found = []
    for length in range(limit):
        for prefix in itertools.product(words, repeat=length):
            ids = [*prefix, EOS]
            found.append((score(toy.log_prob(source, ids), length + 1, weight), ids))
    return sorted(found, key=lambda pair: -pair[0])


def listed(hypotheses):
    """Hypotheses as lists of words, [B][K]."""
    ids, lengths = hypotheses.ids.numpy(), hypotheses.lengths.numpy()
    return [
        [list(i[:n]) for i, n in zip(*pair, strict=True)]
        for pair in zip(ids, lengths, strict=True)
    ]


def graph(run):
    return tf.function(run)()


def run(kind, problem, seed=0):
    if kind == "greedy":
        return search.greedy(problem, length_penalty_weight=0.7)
    if kind == "beam":
        return search.beam(problem, width=4, n_best=3, length_penalty_weight=0.7)
    seeds = tf.range(tf.size(problem.limits)) + seed
    return search.sample(problem, seeds=seeds, num_samples=3, length_penalty_weight=0.7)
