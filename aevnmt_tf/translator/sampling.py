"""Pairs of sentences out of nothing but z."""

from collections.abc import Iterator

import numpy as np

from aevnmt_tf import search
from aevnmt_tf.errors import UserError
from aevnmt_tf.translator import tensors
from aevnmt_tf.translator.decoding import Decoding
from aevnmt_tf.translator.graph import Z_STREAM


class Sampling:
    """What a Translator makes up."""

    def sample(self, number: int, **options) -> list[tuple[str, str]]:
        """Pairs (x, y) from the prior; options as in sample_stream."""
        return list(self.sample_stream(number, **options))

    def sample_stream(
        self, number: int, *, seed=1, temperature=1.0, top_k=0, top_p=1.0
    ) -> Iterator[tuple[str, str]]:
        """Pairs (x, y) from the prior: z ~ p(z), x ~ P(x|z), y ~ P(y|x, z).

        Args:
            number: how many pairs.
            seed: a pair depends on it and on the pair's number alone.
            temperature: of the words; 1 is the model's own distribution.
            top_k: words are drawn among the k most probable ones; 0: among all.
            top_p: words are drawn among the fewest that have this much probability together.
        """
        decoding = Decoding(
            search="sample", temperature=temperature, top_k=top_k, top_p=top_p, z="mean"
        )
        return self._sample(self._generator(decoding), number, seed=seed)

    def _sample(self, run, number, *, seed):
        size = self.hp.infer_batch_size
        for first in range(0, number, size):
            seeds = tensors.seeds(seed, np.arange(first, min(number, first + size)))
            z = search.normals(seeds, stream=Z_STREAM, count=self.hp.z_dim)
            yield from self._pairs(run(z, seeds))

    def interpolate(self, first: str, last: str, *, steps: int) -> list[tuple[str, str]]:
        """Pairs (x, y), greedily decoded, on the way between two sentences' mean z."""
        if self.model.posterior is None:
            raise UserError(f"a {self.hp.model_type} model has no z to walk through")
        loc, _ = self.embed([first, last])
        share = np.linspace(0, 1, steps, dtype=np.float32)[:, None]
        z = (1 - share) * loc[:1] + share * loc[1:]  # [steps, Z]
        run = self._generator(Decoding(search="greedy"))
        pairs, size = [], self.hp.infer_batch_size
        for start in range(0, steps, size):
            part = z[start : start + size]
            pairs += self._pairs(run(part, tensors.seeds(0, np.arange(len(part)))))
        return pairs

    def _generator(self, decoding):
        if self.model.source_lm is None:
            raise UserError("a cond model has no P(x): only joint and aevnmt can make sources")
        has_z = self.model.posterior is not None

        def generate(z, seeds):
            return self.generate(z if has_z else None, seeds=seeds, decoding=decoding)

        signature = [tensors.vectors(self.hp.z_dim), tensors.SEEDS]
        return self._function(("generate", decoding), generate, signature)

    def _pairs(self, found):
        x, y = (tensors.texts(side.numpy()) for side in found)
        if self._x_moses is not None:
            x, y = map(self._x_moses.inverse, x), map(self._y_moses.inverse, y)
        return list(zip(x, y, strict=True))
