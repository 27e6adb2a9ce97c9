"""Greedy search and sampling, where hypotheses never change places."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from aevnmt_tf.search.beam_search import length_penalty
from aevnmt_tf.search.problem import MINUS_INFINITY, Hypotheses, SearchProblem
from aevnmt_tf.search.random_numbers import uniforms
from aevnmt_tf.search.vocabulary import best_words, log_normaliser
from aevnmt_tf.search.word_loop import WordLoop, run

COLDEST = 1e-30  # the lowest temperature that float32 can divide by; as good as greedy

# From logits [A * K, V], t and seeds [A] to words and their log-probabilities [A * K].
Choose = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


def greedy(problem: SearchProblem, *, length_penalty_weight: float = 0.0) -> Hypotheses:
    """Always take the most probable next word. The weight only affects the scores."""

    def choose(
        logits: tf.Tensor, t: tf.Tensor, seeds: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        count = 1 if problem.min_length is None else 2
        values, words = (tf.unstack(v, axis=1) for v in best_words(logits, count=count))
        normaliser = log_normaliser(logits, best=values[0], words=words[0])
        if problem.min_length is None:
            return words[0], values[0] - normaliser
        skip = (t + 1 < problem.min_length) & (words[0] == problem.eos)
        word, value = (tf.where(skip, v[1], v[0]) for v in (words, values))
        return word, value - normaliser

    seeds = tf.zeros_like(problem.limits)
    return _generate(problem, choose, seeds=seeds, width=1, weight=length_penalty_weight)


def sample(
    problem: SearchProblem,
    *,
    seeds: tf.Tensor,
    num_samples: int = 1,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    epsilon: float = 0.0,
    length_penalty_weight: float = 0.0,
) -> Hypotheses:
    """Draw ancestral samples. log_probs are those of the model at temperature 1.

    Args:
        problem: what to search.
        seeds: [B] int32 or int64; all randomness of a sentence comes from its seed.
        num_samples: hypotheses per sentence.
        temperature: divides the logits; positive.
        top_k: draw from the k most probable words; 0 means all.
        top_p: draw from the smallest set of words with this total probability.
        epsilon: draw from the words with at least this probability at this temperature; if
            there is none, take the most probable one (Hewitt et al., 2022).
        length_penalty_weight: only affects the scores.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, not {temperature}: use greedy search.")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, not {top_p}.")
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon must be from 0 to 1, not {epsilon}.")

    def choose(
        logits: tf.Tensor, t: tf.Tensor, seeds: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        allowed = logits
        if problem.min_length is not None:
            is_eos = tf.range(logits.shape[1]) == problem.eos  # [V]
            allowed = tf.where((t + 1 < problem.min_length) & is_eos, MINUS_INFINITY, logits)
        u = tf.reshape(uniforms(seeds, stream=t, count=num_samples), [-1])  # [A * K]
        words = draw(
            allowed, u=u, temperature=temperature, top_k=top_k, top_p=top_p, epsilon=epsilon
        )
        return words, tf.gather(logits, words, batch_dims=1) - tf.reduce_logsumexp(logits, 1)

    return _generate(
        problem, choose, seeds=seeds, width=num_samples, weight=length_penalty_weight
    )


class _Samples(NamedTuple):
    """The state of the K hypotheses of a sentence."""

    log_probs: tf.Tensor  # [A, K]
    lengths: tf.Tensor  # [A, K]
    finished: tf.Tensor  # [A, K]
    seeds: tf.Tensor  # [A]


def _generate(
    problem: SearchProblem, choose: Choose, *, seeds: tf.Tensor, width: int, weight: float
) -> Hypotheses:
    """Generate `width` hypotheses per sentence from the words that `choose` returns."""

    def advance(
        logits: tf.Tensor, loop: WordLoop
    ) -> tuple[tf.Tensor, tf.Tensor, _Samples, tf.Tensor]:
        made = loop.carry
        old_width = loop.y.shape[1]
        if old_width != width:
            logits = tf.repeat(logits, width, axis=0)  # [A * K, V]
        words, log_probs = choose(logits, loop.t, made.seeds)
        is_live = ~made.finished
        words = tf.where(is_live, tf.reshape(words, [-1, width]), problem.eos)  # [A, K]
        log_probs = tf.where(is_live, tf.reshape(log_probs, [-1, width]), 0.0)
        made = made._replace(
            log_probs=made.log_probs + log_probs,
            lengths=made.lengths + tf.cast(is_live, tf.int32),
            finished=made.finished | (words == problem.eos),
        )
        done = tf.reduce_all(made.finished, 1) | (loop.t + 1 >= loop.limits)
        places = tf.range(width) if old_width == width else tf.zeros([width], tf.int32)
        # A sentence that is done but still in the batch must not go on.
        made = made._replace(finished=made.finished | done[:, None])
        return words, tf.zeros_like(words) + places, made, done

    zeros = tf.zeros([tf.size(problem.limits), width], tf.int32)
    start = _Samples(
        log_probs=tf.cast(zeros, tf.float32),
        lengths=zeros,
        finished=tf.cast(zeros, tf.bool),
        seeds=tf.convert_to_tensor(seeds),
    )
    loop = run(problem, advance, carry=start, width=width)
    ids = tf.transpose(loop.history[0].stack(), [1, 2, 0])  # [B, K, T]
    made = loop.left
    inside = tf.sequence_mask(made.lengths, tf.shape(ids)[2])  # [B, K, T]
    attention = None
    if problem.with_attention:
        attention = tf.transpose(loop.history[2].stack(), [1, 2, 0, 3])  # [B, K, T, Tx]
        attention = tf.where(inside[..., None], attention, 0.0)
    return Hypotheses(
        ids=tf.where(inside, ids, problem.eos),
        lengths=made.lengths,
        scores=made.log_probs / length_penalty(made.lengths, weight=weight),
        log_probs=made.log_probs,
        attention=attention,
    )


def draw(
    logits: tf.Tensor,
    *,
    u: tf.Tensor,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    epsilon: float = 0.0,
) -> tf.Tensor:
    """Draw words [N] from logits [N, V] by inverse transform of u [N], uniform in [0, 1)."""
    # The highest logit becomes 0, so that a low temperature only makes the others lower.
    logits = (logits - tf.reduce_max(logits, 1, keepdims=True)) / max(temperature, COLDEST)
    if epsilon > 0:
        is_best = logits == 0
        is_allowed = is_best | (tf.nn.softmax(logits) >= epsilon)
        logits = tf.where(is_allowed, logits, MINUS_INFINITY)
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
