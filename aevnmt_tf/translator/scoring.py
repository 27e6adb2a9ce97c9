"""How probable pairs of lines are."""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from aevnmt_tf.data.length_batches import length_batches
from aevnmt_tf.errors import UserError
from aevnmt_tf.translator import tensors

MOST_WORDS = 4096  # of a side of a batch: the output layers take a vocabulary for each
PAIRS = [tensors.MATRIX, tensors.VECTOR] * 2  # x, x_len, y, y_len


@dataclasses.dataclass
class Score:
    """What a pair of lines is worth; values by name as in Translator.score."""

    values: dict[str, float]
    source_tokens: int  # subwords; </s> counts
    target_tokens: int
    source_was_cut: bool = False
    target_was_cut: bool = False


class Scoring:
    """What a Translator says about pairs."""

    def score(
        self, sources: Iterable[str], targets: Iterable[str], *, samples=10, seed=1
    ) -> dict[str, np.ndarray]:
        """Log-probabilities and bounds of pairs, in nats: arrays [N] by name.

        log_px and log_py are means over `samples` draws of z ~ q; elbo = log_px + log_py - kl.
        log_py_at_mean is log P(y|x, z) with the z of translation. iw_ are importance-weighted
        bounds with all the samples (iw_log_py, the difference of two of them, is an estimate),
        and ess is how many of the samples count. A system without z has log_px and log_py
        alone, and their sum as elbo; cond has log_py.
        """
        sources, targets = (list(tensors.several(side)) for side in (sources, targets))
        if len(sources) != len(targets):
            raise UserError(f"{len(sources)} sources have {len(targets)} targets")
        pairs = zip(sources, targets, strict=True)
        scores = list(self.score_stream(pairs, samples=samples, seed=seed))
        return {
            name: np.array([score.values[name] for score in scores], np.float32)
            for name in self.score_names
        }

    @property
    def score_names(self) -> list[str]:
        """The names of a pair's scores, which depend on the system."""
        return list(self._score_function().structured_outputs)

    def score_stream(
        self, pairs: Iterable[tuple[str, str]], *, samples=10, seed=1, window=None
    ) -> Iterator[Score]:
        """Score pairs in constant memory; scores come in their order.

        Args:
            pairs: source and target, raw text.
            samples: how many draws of z for each pair.
            seed: of the draws; a pair's depend on it and on the pair's number.
            window: how many pairs are read before any is scored, as in `stream`.
        """
        if samples < 1:
            raise UserError(f"samples must be 1 or more, not {samples}")
        size = self.hp.infer_batch_size
        for start, chunk in tensors.windows(pairs, batch_size=size, window=window):
            yield from self._score(chunk, start, samples=samples, seed=seed)

    def _score(self, pairs, start, *, samples, seed):
        """The scores of some pairs, the first of which is number `start` (from 0)."""
        run = self._score_function()
        scores = [None] * len(pairs)
        for rows, sides, was_cut in self._pair_batches(*zip(*pairs, strict=True)):
            found = run(*sides, tensors.seeds(seed, start + rows), samples)
            found = {name: values.numpy().tolist() for name, values in found.items()}
            _, x_len, _, y_len = sides
            x_cut, y_cut = was_cut
            for i, row in enumerate(rows):
                scores[row] = Score(
                    {name: values[i] for name, values in found.items()},
                    source_tokens=int(x_len[i]),
                    target_tokens=int(y_len[i]),
                    source_was_cut=bool(x_cut[i]),
                    target_was_cut=bool(y_cut[i]),
                )
        return scores

    def posterior(self, sources, targets) -> tuple[np.ndarray, np.ndarray]:
        """Location and scale [N, Z] of q(z|x), or of q(z|x, y), for each pair."""
        if self.model.posterior is None:
            raise UserError(f"a {self.hp.model_type} model has no q(z|x)")

        def infer(x, x_len, y, y_len):
            q = self.model.infer({"x": x, "x_len": x_len, "y": y, "y_len": y_len})
            return q.distribution.loc, q.distribution.scale

        run = self._function("posterior", infer, PAIRS)
        loc, scale = (np.zeros([len(sources), self.hp.z_dim], np.float32) for _ in range(2))
        for rows, sides, _ in self._pair_batches(sources, targets):
            loc[rows], scale[rows] = run(*sides)
        return loc, scale

    def log_probs(self, sources, targets, z) -> tuple[np.ndarray, np.ndarray]:
        """log P(x|z) and log P(y|x, z) [N] of pairs with the z [N, Z] that is given."""

        def terms(x, x_len, y, y_len, z):
            batch = {"x": x, "x_len": x_len, "y": y, "y_len": y_len}
            found = self.model.loss_terms(batch, z=z)
            return -found.nll_x, -found.nll_y

        run = self._function("log_probs", terms, [*PAIRS, tensors.vectors(self.hp.z_dim)])
        log_px, log_py = (np.zeros(len(sources), np.float32) for _ in range(2))
        for rows, sides, _ in self._pair_batches(sources, targets):
            log_px[rows], log_py[rows] = run(*sides, tf.constant(z[rows], tf.float32))
        return log_px, log_py

    def _pair_batches(self, sources, targets):
        """Pairs as batches of similar lengths.

        Yields rows (places in the lists), (x, x_len, y, y_len), and whether x and y were cut.
        """
        x, x_len, x_cut = self._ids(sources, moses=self._x_moses, side="source")
        y, y_len, y_cut = self._ids(targets, moses=self._y_moses, side="target")
        size = self.hp.infer_batch_size
        lengths = np.maximum(x_len, y_len)
        for rows in length_batches(lengths, batch_size=size, most_words=MOST_WORDS):
            sides = (
                x[rows, : x_len[rows].max()],
                x_len[rows],
                y[rows, : y_len[rows].max()],
                y_len[rows],
            )
            yield rows, sides, (x_cut[rows], y_cut[rows])

    def _ids(self, lines, *, moses, side):
        """Ids [N, T], lengths [N] and whether a line was cut [N], as arrays."""
        if moses is not None:
            lines = [moses.forward(line) for line in lines]
        encode = {"source": self.encode, "target": self.encode_target}[side]
        run = self._function(("encode", side), encode, [tensors.STRINGS])
        return tuple(value.numpy() for value in run(tensors.strings(lines)))

    def _score_function(self):
        def run(x, x_len, y, y_len, seeds, samples):
            batch = {"x": x, "x_len": x_len, "y": y, "y_len": y_len}
            return self.score_batch(batch, seeds=seeds, samples=samples)

        number = tf.TensorSpec([], tf.int32)
        return self._function("score", run, [*PAIRS, tensors.SEEDS, number])
