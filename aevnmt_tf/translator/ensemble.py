"""Ensembles: the probability of the next word is the mean over several models."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from aevnmt_tf import search
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator.decode_path import Batch, Graph


class Ensemble(Graph):
    """Graphs with identical vocabularies as one graph; each draws its own z.

    Settings such as beam_width and src_max_len_infer are those of the first model. An ensemble
    translates with any decision rule. It does not score, sample or embed.
    """

    def __init__(self, members: Sequence[Graph]) -> None:
        first = members[0]
        super().__init__(first.model, first.x_tokenizer, first.y_tokenizer, first.hp)
        self._members = list(members)

    @property
    def members(self) -> list[Graph]:
        """The graphs of the models."""
        return list(self._members)

    def word_table(self) -> search.Nest:
        """Return a tuple, one table per model."""
        return tuple(member.word_table() for member in self.members)

    def z(
        self, x: tf.Tensor, x_len: tf.Tensor, *, seeds: tf.Tensor | None = None, **options: Any
    ) -> search.Nest:
        """Return a tuple of z [B, Z] or None, one per model."""
        seeds = tf.zeros_like(x_len) if seeds is None else seeds
        members = self._with_seeds(seeds)
        return tuple(member.z(x, x_len, seeds=own, **options) for member, own in members)

    def prior_z(self, seeds: tf.Tensor, **options: Any) -> search.Nest:
        """Return a tuple of z [B, Z], one per model."""
        members = self._with_seeds(seeds)
        return tuple(member.prior_z(own, **options) for member, own in members)

    def posterior_z(self, batch: Batch, *, kind: str | None, seeds: tf.Tensor) -> search.Nest:
        """Return a tuple of z [B, Z], one per model."""
        members = self._with_seeds(seeds)
        return tuple(member.posterior_z(batch, kind=kind, seeds=own) for member, own in members)

    @property
    def draws_z(self) -> bool:
        """Whether z of at least one model has a distribution to draw from."""
        return any(member.draws_z for member in self.members)

    def begin(
        self, x: tf.Tensor, x_len: tf.Tensor, z: search.Nest, *, width: int, words: Any = None
    ) -> tuple[search.Step, search.Nest, search.Nest]:
        """Return where a search starts; memory and state are tuples, one entry per model."""
        words = words or [None] * len(self.members)
        begun = [
            member.begin(x, x_len, own_z, width=width, words=table)
            for member, own_z, table in zip(self.members, z, words, strict=True)
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
        """Refuse: ensembles do not embed."""
        raise UserError("an ensemble only translates: embed sentences with one of its models.")

    def score_batch(self, *_: Any, **__: Any) -> Any:
        """Refuse: ensembles do not score."""
        raise UserError("an ensemble only translates: score pairs with one of its models.")

    def begin_source(self, *_: Any, **__: Any) -> Any:
        """Refuse: ensembles do not sample pairs."""
        raise UserError("an ensemble only translates: sample pairs with one of its models.")

    def _with_seeds(self, seeds: tf.Tensor) -> Iterator[tuple[Graph, tf.Tensor]]:
        """Return each model with its own seeds [B], derived from those of the sentences."""
        own = tf.unstack(search.split_seeds(seeds, count=len(self.members)), axis=1)
        return zip(self.members, own, strict=True)
