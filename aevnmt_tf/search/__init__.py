"""Greedy search, beam search and sampling over a step function, independent of any model.

Each sentence stops on its own, at its own limit, and its result does not depend on the others
in the batch. Finished sentences leave the batch once they are an eighth of it, so that no work
is spent on them.
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
