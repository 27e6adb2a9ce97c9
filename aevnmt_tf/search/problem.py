"""The input and the result of a search."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

MINUS_INFINITY = float("-inf")

Nest = Any  # tensors in tuples, lists and dicts, as in tf.nest
Step = Callable[[Nest, Nest, tf.Tensor], tuple[tf.Tensor, Nest, tf.Tensor]]


class SearchProblem(NamedTuple):
    """What to search: a step function and where it starts.

    A step function gives the logits of the next word for every row:

        step(memory, state, y [N]) -> (logits [N, V] float32, state, attention [N, Tx])

    memory is fixed per sentence: a nest of tensors with B rows. state changes with each word: a
    nest of tensors with N = B * K rows, where row b * K + k is hypothesis k of sentence b. So
    memory is neither tiled nor moved when hypotheses change places. K is 1 for the first word:
    the state given here has B rows.
    """

    step: Step
    memory: Nest  # B rows
    state: Nest  # B rows
    limits: tf.Tensor  # [B] int32: the most words of a hypothesis, including </s>
    min_length: int | None = None  # </s> is forbidden before this length (for benchmarks)
    with_attention: bool = False  # also return the attention of each word
    source_mask: tf.Tensor | None = None  # [B, Tx] true on real tokens; only for coverage
    sos: int = 1
    eos: int = 2


class Hypotheses(NamedTuple):
    """Target sentences, best first (samples: as drawn).

    A finished hypothesis ends in </s>, which is part of its length and also the padding. If
    there are fewer hypotheses than requested, the rest have length 0 and score minus infinity.
    """

    ids: tf.Tensor  # [B, K, T] int32
    lengths: tf.Tensor  # [B, K] int32
    scores: tf.Tensor  # [B, K] float32: log_probs / length penalty
    log_probs: tf.Tensor  # [B, K] float32: log P(y|x, z)
    attention: tf.Tensor | None = None  # [B, K, T, Tx], 0 after the end


def sentences(hypotheses: Hypotheses, *, eos: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the best hypotheses as sentences that end in </s>: ids [B, T], lengths [B].

    One that stopped at its limit has no </s> yet and gets one.
    """
    ids, lengths = hypotheses.ids[:, 0], hypotheses.lengths[:, 0]
    last = tf.gather(ids, lengths - 1, batch_dims=1)
    lengths += tf.cast(last != eos, tf.int32)
    ids = tf.pad(ids, [[0, 0], [0, 1]], constant_values=eos)
    return ids[:, : tf.reduce_max(lengths)], lengths
