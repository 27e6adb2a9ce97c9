"""How probable pairs of lines are."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import line_encoder, line_windows, traced
from aevnmt_tf.translator.decode_path import Graph
from aevnmt_tf.translator.line_encoder import LineEncoder


@dataclasses.dataclass
class PairScore:
    """What a pair of lines is worth; values by name as in Scorer.score."""

    values: dict[str, float]
    source_tokens: int  # subwords; </s> counts
    target_tokens: int
    source_was_cut: bool = False
    target_was_cut: bool = False


class Scorer:
    """What a graph says about pairs."""

    def __init__(self, graph: Graph, encoder: LineEncoder) -> None:
        self._graph, self._encoder = graph, encoder
        self._functions = traced.TracedFunctions()

    def score(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        samples: int = 10,
        seed: int = 1,
    ) -> dict[str, np.ndarray]:
        """Return log-probabilities and bounds of pairs, in nats: arrays [N] by name.

        log_px and log_py are means over `samples` draws of z ~ q; elbo = log_px + log_py - kl.
        log_py_at_mean is log P(y|x, z) with the z of translation. iw_ are importance-weighted
        bounds with all the samples (iw_log_py, the difference of two of them, is an estimate),
        and ess is how many of the samples count: a bound with a small one is not to be trusted.
        A system without z has log_px and log_py alone, and their sum as elbo; cond has log_py.
        vnmt has elbo = log_py - kl, and its iw_log_py is a bound on log P(y|x). A vae looks at
        the sources alone and has elbo = log_px - kl, log_px, kl, iw_log_px and ess.
        """
        x, y = (list(line_encoder.checked(side)) for side in (sources, targets))
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
        """The names of a pair's scores, which depend on the system."""
        return list(self._score_function().structured_outputs)

    def stream(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        samples: int = 10,
        seed: int = 1,
        window: int | None = None,
        start: int = 0,
    ) -> Iterator[PairScore]:
        """Score pairs in constant memory; scores come in their order.

        Args:
            pairs: source and target, raw text.
            samples: how many draws of z for each pair.
            seed: of the draws; a pair's depend on it and on the pair's number.
            window: how many pairs are read before any is scored, as in Translator.stream.
            start: the number of the first pair, as there.
        """
        if samples < 1:
            raise UserError(f"samples must be 1 or more, not {samples}.")
        size = self._graph.hp.infer_batch_size
        pairs = line_encoder.checked_pairs(pairs)
        read = line_windows.windows(pairs, batch_size=size, window=window, start=start)
        for number, chunk in read:
            yield from self._score(chunk, number, samples=samples, seed=seed)

    def _score(
        self, pairs: Sequence[tuple[str, str]], start: int, *, samples: int, seed: int
    ) -> list[PairScore]:
        """Return the scores of some pairs, the first of which is number `start` (from 0)."""
        run, has_target = self._score_function(), self._graph.model.decoder is not None
        scores: dict[int, PairScore] = {}
        for batch in self._encoder.pair_batches(*zip(*pairs, strict=True)):
            seeds = line_encoder.line_seeds(seed, start + batch.rows)
            found = run(*batch.ids, seeds, samples)
            found = {name: values.numpy().tolist() for name, values in found.items()}
            _, x_len, _, y_len = batch.ids
            x_cut, y_cut = batch.was_cut
            for i, row in enumerate(batch.rows):
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
        """Return log P(x|z) and log P(y|x, z) [N] of pairs with the z [N, Z] that is given."""

        def terms(
            x: tf.Tensor, x_len: tf.Tensor, y: tf.Tensor, y_len: tf.Tensor, z: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor]:
            batch = {"x": x, "x_len": x_len, "y": y, "y_len": y_len}
            found = self._graph.model.loss_terms(batch, z=z)
            return -found.nll_x, -found.nll_y

        signature = [*traced.PAIRS, traced.vectors(self._graph.hp.z_dim)]
        run = self._functions.get("log_probs", terms, signature)
        log_px, log_py = (np.zeros(len(sources), np.float32) for _ in range(2))
        for rows, ids, _ in self._encoder.pair_batches(sources, targets):
            log_px[rows], log_py[rows] = run(*ids, tf.constant(z[rows], tf.float32))
        return log_px, log_py

    def _score_function(self) -> Any:
        def run(
            x: tf.Tensor,
            x_len: tf.Tensor,
            y: tf.Tensor,
            y_len: tf.Tensor,
            seeds: tf.Tensor,
            samples: tf.Tensor,
        ) -> dict[str, tf.Tensor]:
            batch = {"x": x, "x_len": x_len, "y": y, "y_len": y_len}
            return self._graph.score_batch(batch, seeds=seeds, samples=samples)

        number = tf.TensorSpec([], tf.int32)
        return self._functions.get("score", run, [*traced.PAIRS, traced.SEEDS, number])
