"""Beam search."""

import functools
from typing import NamedTuple

import tensorflow as tf

from aevnmt_tf.search.problem import MINUS_INFINITY, Hypotheses, Nest, SearchProblem
from aevnmt_tf.search.vocabulary import best_continuations
from aevnmt_tf.search.word_loop import WordLoop, run

SMALLEST = 1e-30  # attention with a finite logarithm in float32


def beam(
    problem: SearchProblem,
    *,
    width: int,
    n_best: int = 1,
    length_penalty_weight: float = 0.0,
    coverage_penalty_weight: float = 0.0,
) -> Hypotheses:
    """Run beam search, with finished and live hypotheses kept apart.

    A hypothesis finishes if it is among the `width` best candidates of its step. The search
    for a sentence stops when no live hypothesis can still become one of the n_best, or at its
    limit. Unfinished hypotheses are returned only if none has finished. A beam of width 1 stops
    as soon as its hypothesis finishes, which makes it greedy search. A coverage penalty needs
    the source_mask of the problem.
    """
    if not 1 <= n_best <= width:
        raise ValueError(f"n_best must be from 1 to the beam width {width}, not {n_best}.")
    batch = tf.size(problem.limits)
    zeros = tf.zeros([batch, n_best], tf.int32)
    nothing = tf.fill([batch, n_best], MINUS_INFINITY)
    ends = _Ends(scores=nothing, log_probs=nothing, step=zeros - 1, word=zeros, parent=zeros)
    carry = _Beam(
        live=tf.zeros([batch, 1]), num_finished=tf.zeros([batch], tf.int32), ends=ends
    )

    advance = functools.partial(
        _advance,
        problem=problem,
        width=width,
        weight=length_penalty_weight,
        coverage=coverage_penalty_weight,
    )
    if coverage_penalty_weight:
        problem = _counting(problem)
    loop = run(problem, advance, carry=carry, width=width)
    return _trace_back(problem, loop)


class _Ends(NamedTuple):
    """The best hypotheses that have ended, as pointers into the history."""

    scores: tf.Tensor  # [A, N]
    log_probs: tf.Tensor  # [A, N]
    step: tf.Tensor  # [A, N] the step of the last word; -1 without a hypothesis
    word: tf.Tensor  # [A, N] the last word
    parent: tf.Tensor  # [A, N] the place in the beam that it continues


class _Beam(NamedTuple):
    """What beam search keeps per sentence."""

    live: tf.Tensor  # [A, K] log-probabilities of the live hypotheses, best first
    num_finished: tf.Tensor  # [A]
    ends: _Ends


def _advance(
    logits: tf.Tensor,
    loop: WordLoop,
    *,
    problem: SearchProblem,
    width: int,
    weight: float,
    coverage: float,
) -> tuple[tf.Tensor, tf.Tensor, _Beam, tf.Tensor]:
    """Extend the live hypotheses, and collect those that end here."""
    beam, length = loop.carry, loop.t + 1
    n_best = beam.ends.scores.shape[1]
    log_probs, words, parents = _candidates(logits, loop, problem=problem, count=2 * width)
    ends_here = words == problem.eos
    penalty = length_penalty(length, weight=weight)

    # 2K candidates include K live ones, because each hypothesis has at most one that ends it.
    # Only candidates among the K best may finish, so that a beam of 1 is greedy search.
    # DEVIATION: TF-NMT keeps finished hypotheses in the beam, where they take places from live
    # ones, and stops when the whole beam has finished. Ours leave the beam, and the search
    # stops when no live hypothesis can still win.
    finishes = (ends_here & (log_probs > MINUS_INFINITY) & ~loop.done[:, None])[:, :width]
    new = _Ends(
        scores=tf.where(finishes, log_probs[:, :width] / penalty, MINUS_INFINITY)
        + _coverage_penalty(loop, parents[:, :width], weight=coverage),
        log_probs=log_probs[:, :width],
        step=tf.where(finishes, loop.t, -1),  # [A, K]
        word=words[:, :width],
        parent=parents[:, :width],
    )
    both = _Ends(*(tf.concat(pair, 1) for pair in zip(beam.ends, new, strict=True)))
    _, best = tf.math.top_k(both.scores, n_best)
    ends = _Ends(*(tf.gather(x, best, batch_dims=1) for x in both))
    num_finished = beam.num_finished + tf.reduce_sum(tf.cast(finishes, tf.int32), 1)

    live, best = tf.math.top_k(tf.where(ends_here, MINUS_INFINITY, log_probs), width)
    words, parents = (tf.gather(x, best, batch_dims=1) for x in (words, parents))  # [A, K]

    at_limit = length >= loop.limits
    unfinished = _Ends(
        scores=live / penalty + _coverage_penalty(loop, parents, weight=coverage),
        log_probs=live,
        step=tf.fill(tf.shape(live), loop.t),
        word=words,
        parent=parents,
    )
    take_them = (at_limit & (num_finished == 0) & ~loop.done)[:, None]
    ends = _Ends(
        *(tf.where(take_them, x[:, :n_best], y) for x, y in zip(unfinished, ends, strict=True))
    )
    # At best, a hypothesis reaches the highest length penalty without losing probability, and
    # has no coverage penalty.
    highest = tf.maximum(
        length_penalty(length + 1, weight=weight), length_penalty(loop.limits, weight=weight)
    )
    cannot_win = live[:, 0] / highest <= ends.scores[:, -1]
    done = loop.done | at_limit | cannot_win
    if width == 1:
        done |= num_finished > 0
    return words, parents, _Beam(live=live, num_finished=num_finished, ends=ends), done


def length_penalty(lengths: tf.Tensor, *, weight: float) -> tf.Tensor:
    """Return ((5 + length) / 6) ** weight, of Wu et al. (2016)."""
    # DEVIATION: lengths count </s>, whose log-probability is in the score; TF-NMT leaves </s>
    # out of the length.
    return tf.pow((5.0 + tf.cast(lengths, tf.float32)) / 6.0, weight)


def _counting(problem: SearchProblem) -> SearchProblem:
    """Return the problem with a state that accumulates attention: (state, sums [N, Tx])."""
    if problem.source_mask is None:
        raise ValueError("A coverage penalty needs source_mask.")

    def step(memory: Nest, state: Nest, y: tf.Tensor) -> tuple[tf.Tensor, Nest, tf.Tensor]:
        logits, inner, attention = problem.step(memory, state[0], y)
        return logits, (inner, state[1] + tf.cast(attention, tf.float32)), attention

    # Padding counts as covered.
    start = tf.cast(~problem.source_mask, tf.float32)
    return problem._replace(step=step, state=(problem.state, start))


def _coverage_penalty(
    loop: WordLoop, parents: tf.Tensor, *, weight: float
) -> tf.Tensor | float:
    """Return w sum_i log(min(1, sum_j a_ij)) of hypotheses that continue `parents`: [A, K].

    Wu et al. (2016), Eq. 14.
    """
    # DEVIATION: only hypotheses that end are scored with it; in TF-NMT live ones are, too.
    if not weight:
        return 0.0
    sums = tf.reshape(loop.state[1], [tf.shape(loop.y)[0], loop.y.shape[1], -1])  # [A, k, Tx]
    logs = tf.math.log(tf.clip_by_value(sums, SMALLEST, 1.0))
    return weight * tf.gather(tf.reduce_sum(logs, axis=2), parents, batch_dims=1)


def _candidates(
    logits: tf.Tensor, loop: WordLoop, *, problem: SearchProblem, count: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the best continuations: log-probabilities, words and parents [A, count].

    The best come first. Forbidden ones keep their places, with minus infinity.
    """
    live = loop.carry.live  # [A, k]: one hypothesis before the first word
    found = min(count, live.shape[1] * logits.shape[1])
    log_probs, words, parents = best_continuations(logits, live, count=found)
    if problem.min_length is not None:
        forbidden = (loop.t + 1 < problem.min_length) & (words == problem.eos)
        log_probs = tf.where(forbidden, MINUS_INFINITY, log_probs)
    missing = [[0, 0], [0, count - found]]  # if the beam is wider than the vocabulary
    return (
        tf.pad(log_probs, missing, constant_values=MINUS_INFINITY),
        tf.pad(words, missing, constant_values=problem.eos),
        tf.pad(parents, missing),
    )


def _trace_back(problem: SearchProblem, loop: WordLoop) -> Hypotheses:
    """Collect the words of the hypotheses from the history, from their ends backwards."""
    ends = loop.left.ends
    words, parents = loop.history[0].stack(), loop.history[1].stack()  # [T, B, K]
    steps = tf.range(tf.shape(words)[0])

    def back(
        later: tuple[tf.Tensor, tf.Tensor], now: tuple[tf.Tensor, tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        words, parents, t = now
        place = later[1]  # [B, N]
        at_end, inside = ends.step == t, ends.step > t
        word = tf.where(inside, tf.gather(words, place, batch_dims=1), problem.eos)
        parent = tf.where(inside, tf.gather(parents, place, batch_dims=1), 0)
        return tf.where(at_end, ends.word, word), tf.where(at_end, ends.parent, parent)

    start = (tf.zeros_like(ends.word), tf.zeros_like(ends.parent))
    ids, places = tf.scan(back, (words, parents, steps), start, reverse=True)  # [T, B, N]
    attention = None
    if problem.with_attention:
        attention = tf.gather(loop.history[2].stack(), places, batch_dims=2)  # [T, B, N, Tx]
        inside = steps[:, None, None] <= ends.step
        attention = tf.where(inside[..., None], attention, 0.0)
        attention = tf.transpose(attention, [1, 2, 0, 3])  # [B, N, T, Tx]
    return Hypotheses(
        ids=tf.transpose(ids, [1, 2, 0]),
        lengths=ends.step + 1,
        scores=ends.scores,
        log_probs=tf.where(ends.step < 0, MINUS_INFINITY, ends.log_probs),
        attention=attention,
    )
