"""Log-probabilities of pairs of lines."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import line_batches
from aevnmt_tf.translator.decode_path import PAIRS, SEEDS, Batch, Graph, traced
from aevnmt_tf.translator.line_encoder import LineEncoder, checked, line_seeds


@dataclasses.dataclass
class PairScore:
    """The scores of a pair by name, as in Scorer.score."""

    values: dict[str, float]
    source_tokens: int  # subwords, including </s>
    target_tokens: int
    source_was_cut: bool = False
    target_was_cut: bool = False


class Scorer:
    """Scores pairs with a graph."""

    def __init__(self, graph: Graph, encoder: LineEncoder) -> None:
        self._graph, self._encoder = graph, encoder

    def score(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        samples: int = 10,
        seed: int = 1,
    ) -> dict[str, np.ndarray]:
        """Return log-probabilities and bounds of pairs in nats: arrays [N] by name.

        log_px and log_py are means over `samples` draws of z ~ q; elbo = log_px + log_py - kl.
        log_py_at_mean is log P(y|x, z) with the z that translation uses. The iw_ scores are
        importance-weighted bounds from all samples, except for iw_log_py, which is a difference
        of two bounds and thus an estimate. ess is the effective sample size: do not trust a
        bound if it is small.

        A system without z has log_px, log_py and their sum as elbo; cond has log_py only. vnmt
        has elbo = log_py - kl, and its iw_log_py is a bound on log P(y|x). A vae scores the
        sources only and has elbo = log_px - kl, log_px, kl, iw_log_px and ess.
        """
        x, y = (list(checked(side)) for side in (sources, targets))
        if len(x) != len(y):
            raise UserError(
                f"{len(x)} sources but {len(y)} targets: give one target per source."
            )
        scores = list(self.stream(zip(x, y, strict=True), samples=samples, seed=seed))
        return {
            name: np.array([score.values[name] for score in scores], np.float32)
            for name in self.names
        }

    @property
    def names(self) -> list[str]:
        """The names of the scores, which depend on the system."""
        return list(self._score_batch.structured_outputs)

    def stream(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        samples: int = 10,
        seed: int = 1,
        start: int = 0,
    ) -> Iterator[PairScore]:
        """Score pairs in constant memory, and yield the scores in order.

        Args:
            pairs: Source and target, raw text.
            samples: The number of draws of z per pair.
            seed: The random seed. The draws depend on it and on the number of the pair.
            start: The number of the first pair, as in Translator.stream.
        """
        if samples < 1:
            raise UserError(f"samples must be 1 or more, not {samples}.")
        size = self._graph.hp.infer_batch_size
        for number, chunk in line_batches.windows(pairs, batch_size=size, start=start):
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

    @functools.cached_property
    def _log_probs(self) -> Any:
        def log_probs(batch: Batch, z: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            found = self._graph.model.loss_terms(batch, z=z)
            return -found.nll_x, -found.nll_y

        return traced(log_probs, [PAIRS, tf.TensorSpec([None, self._graph.hp.z_dim])])

    @functools.cached_property
    def _score_batch(self) -> Any:
        def score(
            batch: Batch, seeds: tf.Tensor, samples: tf.Tensor
        ) -> dict[str, tf.Tensor]:
            return self._graph.score_batch(batch, seeds=seeds, samples=samples)

        return traced(score, [PAIRS, SEEDS, tf.TensorSpec([], tf.int32)])
