"""Greedy search, beam search and sampling over a step function; knows no model.

Each sentence stops on its own, at its own limit, and what it gets does not depend on the others
in the batch. Sentences that are done leave the batch once an eighth of it is done, so that no
work is spent on them.
"""

from aevnmt_tf.search.beam_search import beam, length_penalty
from aevnmt_tf.search.problem import (
    MINUS_INFINITY,
    Hypotheses,
    Nest,
    SearchProblem,
    Step,
    sentences,
)
from aevnmt_tf.search.random_numbers import normals, split_seeds, uniforms
from aevnmt_tf.search.sampling import draw, greedy, sample

__all__ = [
    "MINUS_INFINITY",
    "Hypotheses",
    "Nest",
    "SearchProblem",
    "Step",
    "beam",
    "draw",
    "greedy",
    "length_penalty",
    "normals",
    "sample",
    "sentences",
    "split_seeds",
    "uniforms",
]
