"""Log-probabilities of pairs of lines."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import line_batches
from aevnmt_tf.translator.decode_path import PAIRS, SEEDS, Batch, Graph, traced
from aevnmt_tf.translator.line_encoder import LineEncoder, line_seeds


@dataclasses.dataclass
class PairScore:
    """The scores of a pair by name, as in Translator.score."""

    values: dict[str, float]
    source_tokens: int  # subwords, including </s>
    target_tokens: int
    source_was_cut: bool = False
    target_was_cut: bool = False


class Scorer:
    """Scores pairs with a graph."""

    def __init__(self, graph: Graph, encoder: LineEncoder) -> None:
        self._graph, self._encoder = graph, encoder
        number, z = tf.TensorSpec([], tf.int32), tf.TensorSpec([None, graph.hp.z_dim])
        self._score_batch = traced(graph.score_batch, [PAIRS, SEEDS, number])
        self._log_probs = traced(self._terms, [PAIRS, z])

    @property
    def names(self) -> list[str]:
        """The names of the scores, which depend on the system."""
        return list(self._score_batch.get_concrete_function().structured_outputs)

    def stream(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        samples: int = 10,
        seed: int = 1,
        **reading: Any,
    ) -> Iterator[PairScore]:
        """Score pairs of raw text in constant memory, and yield the scores in order.

        The draws of z depend on the seed and on the number of the pair. `reading` takes
        `window`, `is_ready` and `start`, as Translator.stream does.
        """
        if samples < 1:
            raise UserError(f"samples must be 1 or more, not {samples}.")
        size = self._graph.hp.infer_batch_size
        for number, chunk in line_batches.windows(pairs, batch_size=size, **reading):
            yield from self._score(chunk, number, samples=samples, seed=seed)

    def _score(
        self, pairs: Sequence[tuple[str, str]], start: int, *, samples: int, seed: int
    ) -> list[PairScore]:
        """Return the scores of pairs, the first of which has the number `start` (from 0)."""
        has_target = self._graph.model.decoder is not None
        scores: dict[int, PairScore] = {}
        for rows, batch, was_cut in self._encoder.pair_batches(*zip(*pairs, strict=True)):
            found = self._score_batch(batch, line_seeds(seed, start + rows), samples)
            found = {name: values.numpy().tolist() for name, values in found.items()}
            x_len, y_len = batch["x_len"].numpy(), batch["y_len"].numpy()
            x_cut, y_cut = was_cut
            for i, row in enumerate(rows):
                scores[row] = PairScore(
                    {name: values[i] for name, values in found.items()},
                    source_tokens=int(x_len[i]),
                    target_tokens=int(y_len[i]) if has_target else 0,
                    source_was_cut=bool(x_cut[i]),
                    target_was_cut=bool(y_cut[i]),
                )
        return [scores[row] for row in range(len(pairs))]

    def log_probs(
        self, sources: Sequence[str], targets: Sequence[str], z: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log P(x|z) and log P(y|x, z) [N] of pairs for given z [N, Z]."""
        log_px, log_py = np.zeros([2, len(sources)], np.float32)
        for rows, batch, _ in self._encoder.pair_batches(sources, targets):
            given = tf.constant(z[rows], tf.float32)
            log_px[rows], log_py[rows] = self._log_probs(batch, given)
        return log_px, log_py

    def _terms(self, batch: Batch, z: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        found = self._graph.model.loss_terms(batch, z=z)
        return -found.nll_x, -found.nll_y
