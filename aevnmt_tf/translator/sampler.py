"""Sentence pairs generated from z."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf import search, text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import decision
from aevnmt_tf.translator.decode_path import SEEDS, Graph, traced
from aevnmt_tf.translator.line_encoder import LineEncoder, decoded, line_seeds
from aevnmt_tf.translator.rules import Decoding


class Sampler:
    """Generates sentence pairs with a graph."""

    def __init__(self, graph: Graph, encoder: LineEncoder) -> None:
        self._graph, self._encoder = graph, encoder
        self._generator = functools.cache(self._trace)

    def stream(
        self, number: int, *, seed: int = 1, **drawing: Any
    ) -> Iterator[tuple[str, str]]:
        """Return pairs drawn from the model: z ~ p(z), x ~ P(x|z), y ~ P(y|x, z).

        Args:
            number: The number of pairs.
            seed: The random seed. A pair depends only on it and on the number of the pair.
            **drawing: Options of sampling words: temperature, top_k, top_p and epsilon.
        """
        run = self._generator(Decoding(search="sample", z="mean", **drawing))
        all_seeds = (line_seeds(seed, rows) for rows in self._batches(number))
        return (pair for seeds in all_seeds for pair in self._pairs(run, self._z(seeds), seeds))

    def interpolate(
        self, first: np.ndarray, last: np.ndarray, *, steps: int
    ) -> list[tuple[str, str]]:
        """Return pairs decoded greedily at equal steps from one z [Z] to another."""
        share = np.linspace(0, 1, steps, dtype=np.float32)[:, None]
        z = (1 - share) * first + share * last  # [steps, Z]
        run, pairs = self._generator(Decoding(search="greedy")), []
        for rows in self._batches(steps):
            pairs += self._pairs(run, z[rows], line_seeds(0, rows))
        return pairs

    def _batches(self, number: int) -> Iterator[np.ndarray]:
        size = self._graph.hp.infer_batch_size
        return (np.arange(at, min(number, at + size)) for at in range(0, number, size))

    def _z(self, seeds: tf.Tensor) -> tf.Tensor:
        """Return z [B, Z] from the prior; zeros, which are not used, for a system without z."""
        if self._graph.model.prior is None:
            return tf.zeros([len(seeds), self._graph.hp.z_dim])
        return self._graph.prior_z(seeds, kind="sample")

    def _trace(self, decoding: Decoding) -> Callable[..., list[tf.Tensor]]:
        """Return a traced function from z [B, Z] and seeds [B] to pairs of texts."""
        model = self._graph.model
        if model.source_lm is None:
            kind = self._graph.hp.model_type
            raise UserError(
                f"a {kind} model has no P(x): only joint and aevnmt models sample pairs."
            )

        def run(z: tf.Tensor, seeds: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return self._generate(None if model.posterior is None else z, seeds, decoding)

        signature = [tf.TensorSpec([None, self._graph.hp.z_dim]), SEEDS]
        return traced(run, signature).get_concrete_function()  # now, for its errors

    def _generate(
        self, z: search.Nest, seeds: tf.Tensor, decoding: Decoding
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return pairs of texts [B]: x by P(x|z), y by P(y|x, z); for a VAE, y is empty."""
        graph = self._graph
        seeds = search.split_seeds(seeds, count=2)  # [B, 2]
        limits = tf.fill([tf.shape(seeds)[0]], graph.hp.src_max_len + 1)
        problem = search.SearchProblem(
            *graph.begin_source(z, limits), limits, sos=text.SOS, eos=text.EOS
        )
        x = decision.run(problem, seeds=seeds[:, 0], decoding=decoding)
        ids, x_len = search.sentences(x, eos=text.EOS)  # [B, Tx], [B]
        if graph.model.decoder is None:
            return graph.x_tokenizer.decode(ids), tf.fill(tf.shape(x_len), "")
        y = decision.search_with(graph, z, ids, x_len, seeds=seeds[:, 1], decoding=decoding)
        return graph.x_tokenizer.decode(ids), graph.translations(y, x_len)[0][:, 0]

    def _pairs(
        self, run: Callable[..., list[tf.Tensor]], z: search.Nest, seeds: tf.Tensor
    ) -> list[tuple[str, str]]:
        x, y = (decoded(side.numpy()) for side in run(z, seeds))
        raw_x, raw_y = map(self._encoder.raw_source, x), map(self._encoder.raw_target, y)
        return list(zip(raw_x, raw_y, strict=True))
