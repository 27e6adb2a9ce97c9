"""Several models that translate as one: P(y_j|...) is the mean of theirs."""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from aevnmt_tf import search
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator.decode_path import Batch, Graph


class Ensemble(Graph):
    """A graph made of graphs with equal vocabularies, each with a z of its own.

    Settings such as beam_width and src_max_len_infer are the first one's. It translates by any
    decision rule; scores, samples and embeddings are those of single models.
    """

    def __init__(self, members: Sequence[Graph]) -> None:
        first = members[0]
        super().__init__(first.model, first.x_tokenizer, first.y_tokenizer, first.hp)
        self._members = list(members)

    @property
    def members(self) -> list[Graph]:
        """The graphs that it is made of."""
        return list(self._members)

    def word_table(self) -> search.Nest:
        """Return a tuple, one for each model."""
        return tuple(member.word_table() for member in self.members)

    def z(
        self,
        x: tf.Tensor,
        x_len: tf.Tensor,
        *,
        kind: str | None = "mean",
        seeds: tf.Tensor | None = None,
    ) -> search.Nest:
        """Return what to predict with: a tuple of z [B, Z] or None, one for each model."""
        seeds = self._split(tf.zeros_like(x_len) if seeds is None else seeds)
        members = zip(self.members, seeds, strict=True)
        return tuple(member.z(x, x_len, kind=kind, seeds=seed) for member, seed in members)

    def prior_z(
        self, seeds: tf.Tensor, *, kind: str | None, **source: tf.Tensor
    ) -> search.Nest:
        """Return a tuple of z [B, Z], one for each model."""
        members = zip(self.members, self._split(seeds), strict=True)
        return tuple(member.prior_z(seed, kind=kind, **source) for member, seed in members)

    def posterior_z(self, batch: Batch, *, kind: str | None, seeds: tf.Tensor) -> search.Nest:
        """Return a tuple of z [B, Z], one for each model."""
        members = zip(self.members, self._split(seeds), strict=True)
        return tuple(
            member.posterior_z(batch, kind=kind, seeds=seed) for member, seed in members
        )

    @property
    def draws_z(self) -> bool:
        """Whether a model has a distribution to draw z from."""
        return any(member.draws_z for member in self.members)

    def begin(
        self,
        x: tf.Tensor,
        x_len: tf.Tensor,
        z: search.Nest,
        *,
        width: int,
        words: search.Nest = None,
    ) -> tuple[search.Step, search.Nest, search.Nest]:
        """Return where a search starts: memory and state are tuples, one for each model."""
        words = words or [None] * len(self.members)
        begun = [
            member.begin(x, x_len, one, width=width, words=table)
            for member, one, table in zip(self.members, z, words, strict=True)
        ]
        steps, memories, states = zip(*begun, strict=True)

        def step(memory: search.Nest, state: search.Nest, y: tf.Tensor) -> search.Nest:
            made = [one(m, s, y) for one, m, s in zip(steps, memory, state, strict=True)]
            logits, states, attention = zip(*made, strict=True)
            log_probs = tf.stack([tf.nn.log_softmax(each) for each in logits])  # [M, N, V]
            mean = tf.reduce_logsumexp(log_probs, axis=0) - math.log(len(made))
            attention = tf.add_n([tf.cast(each, tf.float32) for each in attention])
            return mean, states, attention / len(made)

        return step, memories, states

    def embed_batch(self, *_: Any, **__: Any) -> Any:
        """Refuse: this is not for an ensemble."""
        raise UserError("an ensemble only translates: embed sentences with one of its models.")

    def score_batch(self, *_: Any, **__: Any) -> Any:
        """Refuse: this is not for an ensemble."""
        raise UserError("an ensemble only translates: score pairs with one of its models.")

    def begin_source(self, *_: Any, **__: Any) -> Any:
        """Refuse: this is not for an ensemble."""
        raise UserError("an ensemble only translates: sample pairs with one of its models.")

    def _split(self, seeds: tf.Tensor) -> list[tf.Tensor]:
        """Return the seeds of each model, of those [B] of the sentences."""
        return tf.unstack(search.split_seeds(seeds, count=len(self.members)), axis=1)
