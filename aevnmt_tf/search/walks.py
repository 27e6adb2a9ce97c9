"""Greedy search and sampling: hypotheses that never change places."""

from typing import NamedTuple

import tensorflow as tf

from aevnmt_tf.search.loop import run
from aevnmt_tf.search.random_numbers import uniforms
from aevnmt_tf.search.task import MINUS_INFINITY, Hypotheses, Task, length_penalty
from aevnmt_tf.search.vocabulary import best_words, log_normaliser, log_sum_exp

COLDEST = 1e-30  # what float32 divides by; as good as greedy


def greedy(task: Task, *, length_penalty_weight=0.0) -> Hypotheses:
    """The most probable next word, again and again; the weight matters to the score alone."""

    def choose(logits, t, seeds):
        del seeds
        forced = task.min_length is not None
        values, words = (
            tf.unstack(v, axis=1) for v in best_words(logits, count=2 if forced else 1)
        )
        normaliser = log_normaliser(logits, best=values[0], words=words[0])
        if not forced:
            return words[0], values[0] - normaliser
        skip = (t + 1 < task.min_length) & (words[0] == task.eos)
        word, value = (tf.where(skip, v[1], v[0]) for v in (words, values))
        return word, value - normaliser

    seeds = tf.zeros_like(task.limits)
    return _walk(task, choose, seeds=seeds, width=1, weight=length_penalty_weight)


def sample(
    task: Task,
    *,
    seeds,
    num_samples=1,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    length_penalty_weight=0.0,
) -> Hypotheses:
    """Ancestral samples; log_probs are the model's own, whatever the temperature.

    Args:
        task: what to search.
        seeds: [B] int32 or int64; all randomness of a sentence comes from its seed.
        num_samples: how many hypotheses a sentence gets.
        temperature: divides the logits; positive.
        top_k: draw among the k most probable words; 0: among all.
        top_p: draw among the fewest words that have this much probability together.
        length_penalty_weight: for the scores alone.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, not {temperature}; 0 is greedy search")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, not {top_p}")

    def choose(logits, t, seeds):
        allowed = logits
        if task.min_length is not None:
            is_eos = tf.range(logits.shape[1]) == task.eos  # [V]
            allowed = tf.where((t + 1 < task.min_length) & is_eos, MINUS_INFINITY, logits)
        u = tf.reshape(uniforms(seeds, stream=t, count=num_samples), [-1])  # [A * K]
        words = draw(allowed, u=u, temperature=temperature, top_k=top_k, top_p=top_p)
        return words, tf.gather(logits, words, batch_dims=1) - log_sum_exp(logits)

    return _walk(task, choose, seeds=seeds, width=num_samples, weight=length_penalty_weight)


class _Walk(NamedTuple):
    log_probs: tf.Tensor  # [A, K]
    lengths: tf.Tensor  # [A, K]
    finished: tf.Tensor  # [A, K]
    seeds: tf.Tensor  # [A]


def _walk(task, choose, *, seeds, width, weight):
    """One word after the other by choose(logits [A * K, V], t, seeds [A]) -> words and their
    log-probabilities [A * K]."""

    def advance(logits, loop):
        walk = loop.carry
        old_width = loop.y.shape[1]
        if old_width != width:
            logits = tf.repeat(logits, width, axis=0)  # [A * K, V]
        words, log_probs = choose(logits, loop.t, walk.seeds)
        walks = ~walk.finished
        words = tf.where(walks, tf.reshape(words, [-1, width]), task.eos)  # [A, K]
        log_probs = tf.where(walks, tf.reshape(log_probs, [-1, width]), 0.0)
        walk = walk._replace(
            log_probs=walk.log_probs + log_probs,
            lengths=walk.lengths + tf.cast(walks, tf.int32),
            finished=walk.finished | (words == task.eos),
        )
        done = tf.reduce_all(walk.finished, 1) | (loop.t + 1 >= loop.limits)
        places = tf.range(width) if old_width == width else tf.zeros([width], tf.int32)
        # A sentence that is done but still here must not walk on.
        walk = walk._replace(finished=walk.finished | done[:, None])
        return words, tf.zeros_like(words) + places, walk, done

    zeros = tf.zeros([tf.size(task.limits), width], tf.int32)
    start = _Walk(
        log_probs=tf.cast(zeros, tf.float32),
        lengths=zeros,
        finished=tf.cast(zeros, tf.bool),
        seeds=tf.convert_to_tensor(seeds),
    )
    loop = run(task, advance, carry=start, width=width)
    ids = tf.transpose(loop.history[0].stack(), [1, 2, 0])  # [B, K, T]
    walk = loop.left
    inside = tf.sequence_mask(walk.lengths, tf.shape(ids)[2])  # [B, K, T]
    attention = None
    if task.with_attention:
        attention = tf.transpose(loop.history[2].stack(), [1, 2, 0, 3])  # [B, K, T, Tx]
        attention = tf.where(inside[..., None], attention, 0.0)
    return Hypotheses(
        ids=tf.where(inside, ids, task.eos),
        lengths=walk.lengths,
        scores=walk.log_probs / length_penalty(walk.lengths, weight=weight),
        log_probs=walk.log_probs,
        attention=attention,
    )


def draw(logits, *, u, temperature=1.0, top_k=0, top_p=1.0):
    """Words [N] from logits [N, V] by inversion: one uniform number u [N] in [0, 1) a word."""
    # The highest logit becomes 0, so that a low temperature makes the others low and none high.
    logits = (logits - tf.reduce_max(logits, 1, keepdims=True)) / max(temperature, COLDEST)
    size = logits.shape[1]
    words = None
    if top_p < 1:
        logits, words = tf.math.top_k(logits, min(top_k or size, size))
    elif 0 < top_k < size:
        logits, words = best_words(logits, count=top_k)
    probs = tf.nn.softmax(logits)
    sums = tf.cumsum(probs, axis=1)
    if top_p < 1:
        probs = tf.where(sums - probs < top_p, probs, 0.0)
        sums = tf.cumsum(probs, axis=1)
    places = tf.searchsorted(sums, u[:, None] * sums[:, -1:], side="right")[:, 0]
    return places if words is None else tf.gather(words, places, batch_dims=1)
