"""Distributions and draws of z for lines and pairs of lines."""

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator.decode_path import IDS, LENGTHS, PAIRS, SEEDS, Batch, Graph, traced
from aevnmt_tf.translator.line_encoder import LineEncoder, checked, line_seeds


class Embedder:
    """Infers z with the networks of a graph."""

    def __init__(self, graph: Graph, encoder: LineEncoder) -> None:
        self._graph, self._encoder = graph, encoder
        self._embed = traced(graph.embed_batch, [IDS, LENGTHS])
        self._draw = traced(self._draw_z, [IDS, LENGTHS, SEEDS])
        self._posterior = traced(self._infer_z, [PAIRS, SEEDS])

    def embed(self, lines: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and scale [N, Z] of r(z|x), or of q(z|x), for each line."""
        lines = list(checked(lines))
        self._check_z()
        loc, scale = np.zeros([2, len(lines), self._graph.hp.z_dim], np.float32)
        for batch in self._encoder.batches(lines):
            loc[batch.rows], scale[batch.rows] = self._embed(batch.x, batch.x_len)
        return loc, scale

    def draw(self, lines: Iterable[str], *, seed: int = 1) -> np.ndarray:
        """Return the z [N, Z] with which --z sample translates each line."""
        lines = list(checked(lines))
        self._check_z()
        z = np.zeros([len(lines), self._graph.hp.z_dim], np.float32)
        for batch in self._encoder.batches(lines):
            z[batch.rows] = self._draw(batch.x, batch.x_len, line_seeds(seed, batch.rows))
        return z

    def posterior(self, sources: Sequence[str], targets: Sequence[str]) -> list[np.ndarray]:
        """Return mean and scale [N, Z] of q(z|x) or q(z|x, y), and its KL from the prior.

        The KL is [N, Z], or an estimate [N, 1] from one draw if the prior has no KL per
        dimension.
        """
        self._check_z()
        rows, parts = [], []
        for pairs in self._encoder.pair_batches(sources, targets):
            rows.append(pairs.rows)
            parts.append(self._posterior(pairs.batch, line_seeds(1, pairs.rows)))
        order = np.argsort(np.concatenate(rows))
        return [np.concatenate(part)[order] for part in zip(*parts, strict=True)]

    def _check_z(self) -> None:
        if self._graph.model.posterior is None:
            kind = self._graph.hp.model_type
            raise UserError(f"this model (model_type {kind}) has no z to embed sentences with.")

    def _infer_z(self, batch: Batch, seeds: tf.Tensor) -> tuple[tf.Tensor, ...]:
        model = self._graph.model
        q, p = model.infer(batch), model.prior(model.embed(batch))
        z = self._graph.posterior_z(batch, kind="sample", seeds=seeds)
        return q.mean(), q.stddev(), model.prior.kl(q, p, z)

    def _draw_z(self, x: tf.Tensor, x_len: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        return self._graph.z(x, x_len, kind="sample", seeds=seeds)
