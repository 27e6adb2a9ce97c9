"""What z is, given lines."""

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import traced
from aevnmt_tf.translator.decode_path import Graph
from aevnmt_tf.translator.line_encoder import LineEncoder, checked, line_seeds


class Embedder:
    """The distributions of z that a graph's inference networks give."""

    def __init__(self, graph: Graph, encoder: LineEncoder) -> None:
        self._graph, self._encoder = graph, encoder
        self._functions = traced.TracedFunctions()

    def embed(self, lines: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return location and scale [N, Z] of r(z|x), or of q(z|x), for each line."""
        lines = list(checked(lines))
        self._check_z()
        signature = [traced.MATRIX, traced.VECTOR]
        run = self._functions.get("embed", self._graph.embed_batch, signature)
        loc, scale = self._zeros(len(lines)), self._zeros(len(lines))
        for batch in self._encoder.batches(lines):
            loc[batch.rows], scale[batch.rows] = run(batch.x, batch.x_len)
        return loc, scale

    def draw(self, lines: Iterable[str], *, seed: int = 1) -> np.ndarray:
        """Return the z [N, Z] that each line is translated with where z is "sample"."""
        lines = list(checked(lines))
        self._check_z()

        def draw(x: tf.Tensor, x_len: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
            return self._graph.z(x, x_len, kind="sample", seeds=seeds)

        signature = [traced.MATRIX, traced.VECTOR, traced.SEEDS]
        run = self._functions.get("draw", draw, signature)
        z = self._zeros(len(lines))
        for batch in self._encoder.batches(lines):
            z[batch.rows] = run(batch.x, batch.x_len, line_seeds(seed, batch.rows))
        return z

    def posterior(self, sources: Sequence[str], targets: Sequence[str]) -> list[np.ndarray]:
        """Return location and scale [N, Z] of q(z|x), or q(z|x, y), and its KL to the prior.

        The KL is [N, Z]; [N, 1], of one draw, for a prior that has none by dimension.
        """
        self._check_z()
        graph, model = self._graph, self._graph.model

        def infer(
            x: tf.Tensor, x_len: tf.Tensor, y: tf.Tensor, y_len: tf.Tensor, seeds: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            batch = {"x": x, "x_len": x_len, "y": y, "y_len": y_len}
            q, p = model.infer(batch), model.prior(model.embed(batch))
            z = graph.posterior_z(batch, kind="sample", seeds=seeds)
            return q.mean(), q.stddev(), model.prior.kl(q, p, z)

        run = self._functions.get("posterior", infer, [*traced.PAIRS, traced.SEEDS])
        found: dict[int, tuple[np.ndarray, ...]] = {}
        for rows, ids, _ in self._encoder.pair_batches(sources, targets):
            parts = run(*ids, line_seeds(1, rows))
            each = zip(*(part.numpy() for part in parts), strict=True)
            found.update(zip(rows, each, strict=True))
        ordered = (found[row] for row in range(len(sources)))
        return [np.stack(part) for part in zip(*ordered, strict=True)]

    def _zeros(self, count: int) -> np.ndarray:
        return np.zeros([count, self._graph.hp.z_dim], np.float32)

    def _check_z(self) -> None:
        if self._graph.model.posterior is None:
            kind = self._graph.hp.model_type
            raise UserError(f"this model (model_type {kind}) has no z to embed sentences with.")
