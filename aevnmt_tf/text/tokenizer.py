"""The interface of tokenizers."""

import abc
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import tensorflow as tf

from aevnmt_tf.cli.errors import UserError

UNK, SOS, EOS = 0, 1, 2
PREFIX = "vocab"  # of the files of tokenizers, see tokenizer_files

Ids: TypeAlias = "tf.Tensor | tf.RaggedTensor"
Strings: TypeAlias = "tf.Tensor | Sequence[str]"


def append_eos(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Append </s> to each row of ragged ids [B, None]."""
    eos = tf.fill([ids.nrows(), 1], tf.constant(EOS, ids.dtype))  # [B, 1]
    return tf.concat([ids, eos], axis=1)


def cut_at_eos(ids: Ids) -> tf.RaggedTensor:
    """Return ragged ids [B, None]: each row up to its first </s>, without <s>.

    Args:
      ids: a tf.RaggedTensor [B, None] or a dense tensor [B, T].
    """
    if isinstance(ids, tf.RaggedTensor):
        ids = ids.to_tensor(default_value=tf.constant(EOS, ids.dtype))  # [B, T]
    open_row = tf.equal(tf.cumsum(tf.cast(tf.equal(ids, EOS), tf.int32), axis=1), 0)
    return tf.ragged.boolean_mask(ids, open_row & tf.not_equal(ids, SOS))


class Tokenizer(tf.Module, abc.ABC):
    """Text to ids and back. As a tf.Module, it is saved with an export that it is part of.

    The ids 0, 1 and 2 are <unk>, <s> and </s>; </s> is also the padding.

    Attributes:
      vocab_size: The number of ids.
      fingerprint: A digest of everything that determines the ids.
      takes_raw_text: Whether it reads raw text rather than tokens.
    """

    vocab_size: int
    fingerprint: str
    takes_raw_text = True

    @abc.abstractmethod
    def encode(self, text: Strings) -> tf.RaggedTensor:
        """Return ragged int32 ids [B, None] of the strings [B], without <s> and </s>."""

    def sample(self, lines: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """Return the ids of a random segmentation of each line.

        Args:
          lines: The text.
          alpha: Segmentations are drawn with probability proportional to P^alpha.
          seed: The seed.
        """
        raise UserError(
            "subword_sampling needs a SentencePiece model of type unigram: other tokenizers "
            "have only one segmentation."
        )

    def decode(self, ids: Ids) -> tf.Tensor:
        """Return the strings [...] of ids [..., T] (dense) or [B, None] (ragged).

        A row ends at its first </s>. <s> is removed, and unknown ids become <unk>.
        """
        if isinstance(ids, tf.RaggedTensor):
            return self._join(self._existing(cut_at_eos(ids)))
        ids = tf.convert_to_tensor(ids)
        shape = tf.shape(ids)
        rows = tf.reshape(ids, [tf.reduce_prod(shape[:-1]), shape[-1]])  # [rows, T]
        text = tf.reshape(self._join(self._existing(cut_at_eos(rows))), shape[:-1])
        text.set_shape(ids.shape[:-1])
        return text

    def pieces(self, ids: Ids) -> Ids:
        """Return the piece of every id, in the shape of ids."""
        if not isinstance(ids, tf.RaggedTensor):
            ids = tf.convert_to_tensor(ids)
        return self._lookup(self._existing(ids))

    @abc.abstractmethod
    def save(self, folder: str | Path, lang: str) -> list[Path]:
        """Write the files of a language into the folder and return their paths."""

    @abc.abstractmethod
    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Return the strings [B] of ragged ids [B, None] that all exist."""

    @abc.abstractmethod
    def _lookup(self, ids: Ids) -> Ids:
        """Return the pieces of ids that all exist."""

    def _existing(self, ids: Ids) -> Ids:
        """Replace ids outside the vocabulary by <unk>.

        The SentencePiece kernel aborts the process on such ids.
        """
        values = tf.cast(ids.flat_values if isinstance(ids, tf.RaggedTensor) else ids, tf.int32)
        known = (values >= 0) & (values < self.vocab_size)
        values = tf.where(known, values, UNK)
        return ids.with_flat_values(values) if isinstance(ids, tf.RaggedTensor) else values
