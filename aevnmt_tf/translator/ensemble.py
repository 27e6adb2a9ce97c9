"""Several models that translate as one: P(y_j|...) is the mean of theirs."""

import math
import tempfile

import tensorflow as tf

from aevnmt_tf import search
from aevnmt_tf.errors import UserError
from aevnmt_tf.translator.lines import Translator


class Ensemble(Translator):
    """A translator made of translators with equal vocabularies, each with a z of its own.

    Settings such as beam_width and src_max_len_infer are the first one's. It translates by any
    decision rule; scores, samples and embeddings are those of single models.

    Args:
        members: translators.
        names: what errors call them.
    """

    def __init__(self, members, *, names=None):
        first, *others = members
        names = names or [f"model {number}" for number in range(1, len(members) + 1)]
        known = _text_files(first)
        for name, other in zip(names[1:], others, strict=True):
            if _text_files(other) != known:
                raise UserError(
                    f"{name} and {names[0]} cannot be an ensemble: their languages or "
                    "vocabularies differ"
                )
        super().__init__(
            first.model,
            first.x_tokenizer,
            first.y_tokenizer,
            first.hp,
            x_moses=first._x_moses,
            y_moses=first._y_moses,
            is_final=all(member.is_final for member in members),
        )
        self.members = list(members)

    def word_table(self):
        """A tuple, one for each model."""
        return tuple(member.word_table() for member in self.members)

    def z(self, x, x_len, *, kind="mean", seeds=None):
        """What to predict with: a tuple of z [B, Z] or None, one for each model."""
        seeds = self._split(tf.zeros_like(x_len) if seeds is None else seeds)
        members = zip(self.members, seeds, strict=True)
        return tuple(member.z(x, x_len, kind=kind, seeds=seed) for member, seed in members)

    def prior_z(self, seeds, *, kind):
        """A tuple of z [B, Z], one for each model."""
        members = zip(self.members, self._split(seeds), strict=True)
        return tuple(member.prior_z(seed, kind=kind) for member, seed in members)

    def posterior_z(self, batch, *, kind, seeds):
        """A tuple of z [B, Z], one for each model."""
        members = zip(self.members, self._split(seeds), strict=True)
        return tuple(
            member.posterior_z(batch, kind=kind, seeds=seed) for member, seed in members
        )

    @property
    def draws_z(self):
        """Whether a model has a distribution to draw z from."""
        return any(member.draws_z for member in self.members)

    def check_parts(self, decoding):
        """A UserError where a model lacks what the search needs."""
        for member in self.members:
            member.check_parts(decoding)

    def begin(self, x, x_len, z, *, width, words=None):
        """Where a search starts: memory and state are tuples, one for each model."""
        words = words or [None] * len(self.members)
        begun = [
            member.begin(x, x_len, one, width=width, words=table)
            for member, one, table in zip(self.members, z, words, strict=True)
        ]
        steps, memories, states = zip(*begun, strict=True)

        def step(memory, state, y):
            made = [one(m, s, y) for one, m, s in zip(steps, memory, state, strict=True)]
            logits, states, attention = zip(*made, strict=True)
            log_probs = tf.stack([tf.nn.log_softmax(each) for each in logits])  # [M, N, V]
            mean = tf.reduce_logsumexp(log_probs, axis=0) - math.log(len(made))
            attention = tf.add_n([tf.cast(each, tf.float32) for each in attention])
            return mean, states, attention / len(made)

        return step, memories, states

    def embed_batch(self, *_, **__):
        """Not for an ensemble."""
        raise UserError("an ensemble only translates: embed sentences with one of its models")

    def score_batch(self, *_, **__):
        """Not for an ensemble."""
        raise UserError("an ensemble only translates: score pairs with one of its models")

    def generate(self, *_, **__):
        """Not for an ensemble."""
        raise UserError("an ensemble only translates: sample pairs with one of its models")

    def _split(self, seeds):
        """Seeds [B] of a sentence to those of each model."""
        return tf.unstack(search.split_seeds(seeds, count=len(self.members)), axis=1)


def _text_files(translator):
    """All that turns text into ids and back, as files: contents by name, for each side."""
    hp, sides = translator.hp, []
    for lang, parts in (
        (hp.src, (translator.x_tokenizer, translator._x_moses)),
        (hp.tgt, (translator.y_tokenizer, translator._y_moses)),
    ):
        with tempfile.TemporaryDirectory() as folder:
            for part in parts:
                if part is not None:
                    written = part.save(folder, lang) if part is parts[0] else part.save(folder)
                    sides.append({path.name: path.read_bytes() for path in written})
    return sides
