"""Pairs of sentences out of nothing but z."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf import search, text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import decision, traced
from aevnmt_tf.translator.decode_path import Graph
from aevnmt_tf.translator.embedder import Embedder
from aevnmt_tf.translator.line_encoder import LineEncoder, decoded, line_seeds
from aevnmt_tf.translator.rules import Decoding


class Sampler:
    """What a graph makes up."""

    def __init__(self, graph: Graph, encoder: LineEncoder, embedder: Embedder) -> None:
        self._graph, self._encoder, self._embedder = graph, encoder, embedder
        self._functions = traced.TracedFunctions()

    def stream(
        self, number: int, *, seed: int = 1, **drawing: Any
    ) -> Iterator[tuple[str, str]]:
        """Return pairs (x, y) from the prior: z ~ p(z), x ~ P(x|z), y ~ P(y|x, z).

        Args:
            number: how many pairs.
            seed: a pair depends on it and on the pair's number alone.
            drawing: of words: temperature, top_k, top_p and epsilon, as in Decoding.
        """
        decoding = Decoding(search="sample", z="mean", **drawing)
        run = self._generator(decoding)
        return self._stream(run, number, seed=seed)

    def _stream(
        self, run: Callable[..., list[tf.Tensor]], number: int, *, seed: int
    ) -> Iterator[tuple[str, str]]:
        size = self._graph.hp.infer_batch_size
        for first in range(0, number, size):
            seeds = line_seeds(seed, np.arange(first, min(number, first + size)))
            z = tf.zeros([len(seeds), self._graph.hp.z_dim])  # for a system without z
            if self._graph.model.prior is not None:
                z = self._graph.prior_z(seeds, kind="sample")
            yield from self._pairs(run(z, seeds))

    def interpolate(self, first: str, last: str, *, steps: int) -> list[tuple[str, str]]:
        """Return pairs (x, y), greedily decoded, on the way between two sentences' mean z."""
        loc, _ = self._embedder.embed([first, last])
        share = np.linspace(0, 1, steps, dtype=np.float32)[:, None]
        z = (1 - share) * loc[:1] + share * loc[1:]  # [steps, Z]
        run = self._generator(Decoding(search="greedy"))
        pairs, size = [], self._graph.hp.infer_batch_size
        for start in range(0, steps, size):
            part = z[start : start + size]
            pairs += self._pairs(run(part, line_seeds(0, np.arange(len(part)))))
        return pairs

    def _generator(self, decoding: Decoding) -> Callable[..., list[tf.Tensor]]:
        """Return a traced function from z [B, Z] and seeds [B] to pairs."""
        model = self._graph.model
        if model.source_lm is None:
            kind = self._graph.hp.model_type
            raise UserError(
                f"a {kind} model has no P(x): only joint and aevnmt models sample pairs."
            )

        def run(z: tf.Tensor, seeds: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            z = None if model.posterior is None else z
            return generate(self._graph, z, seeds=seeds, decoding=decoding)

        signature = [traced.vectors(self._graph.hp.z_dim), traced.SEEDS]
        return self._functions.get(decoding, run, signature)

    def _pairs(self, found: list[tf.Tensor]) -> list[tuple[str, str]]:
        x, y = (decoded(side.numpy()) for side in found)
        raw_x, raw_y = map(self._encoder.raw_source, x), map(self._encoder.raw_target, y)
        return list(zip(raw_x, raw_y, strict=True))


def generate(
    graph: Graph, z: search.Nest, *, seeds: tf.Tensor, decoding: Decoding
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return pairs of texts [B] from z [B, Z] or None: x by P(x|z), y by P(y|x, z).

    The y of a VAE is empty.
    """
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
