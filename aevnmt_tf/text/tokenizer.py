"""What every tokenizer offers: encode, decode and pieces, graph operations, and samples."""

import abc
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import tensorflow as tf

from aevnmt_tf.cli.errors import UserError

UNK, SOS, EOS = 0, 1, 2

Ids: TypeAlias = "tf.Tensor | tf.RaggedTensor"
Strings: TypeAlias = "tf.Tensor | Sequence[str]"


def append_eos(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Return the ragged ids [B, None] with one </s> more at the end of each row."""
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
    """Text to ids and back; an attribute of an exported tf.Module is saved with it.

    The ids 0, 1 and 2 are <unk>, <s> and </s>; </s> is also the padding.
    """

    @property
    @abc.abstractmethod
    def vocab_size(self) -> int:
        """The number of ids."""

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """A digest of all that decides the ids."""

    @property
    def takes_raw_text(self) -> bool:
        """Whether text goes in as people write it; else it must be in tokens already."""
        return True

    @abc.abstractmethod
    def encode(self, text: Strings) -> tf.RaggedTensor:
        """Return ragged int32 ids [B, None] of the strings [B], without <s> and </s>."""

    def sample(self, lines: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """Return the ids of each line, cut into subwords at random; same seed, same ids.

        Only tokenizers that know several segmentations can do it.

        Args:
          lines: text.
          alpha: a segmentation is drawn with probability proportional to P^alpha.
          seed: of the draws.
        """
        raise UserError(
            "subword_sampling needs a SentencePiece model of the type unigram, which knows "
            "more than one segmentation."
        )

    def decode(self, ids: Ids) -> tf.Tensor:
        """Return the strings [...] of ids [..., T] (dense) or [B, None] (ragged).

        A row ends at its first </s>; <s> is left out; an id that does not exist reads <unk>.
        """
        if isinstance(ids, tf.RaggedTensor):
            return self._join(self._existing(cut_at_eos(ids)))
        ids = tf.convert_to_tensor(ids)
        shape = tf.shape(ids)
        rows = tf.reshape(ids, [tf.reduce_prod(shape[:-1]), shape[-1]])  # [rows, T]
        text = tf.reshape(self._join(self._existing(cut_at_eos(rows))), shape[:-1])
        text.set_shape(ids.shape[:-1])
        return text

    @abc.abstractmethod
    def pieces(self, ids: Ids) -> Ids:
        """Return the piece of every id, in the shape of ids: for tables and plots."""

    @abc.abstractmethod
    def save(self, folder: str | Path, lang: str) -> list[Path]:
        """Write the tokenizer's files for a language into the folder and return them."""

    @abc.abstractmethod
    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Return the strings [B] of ragged ids [B, None] that are all real pieces."""

    def _existing(self, ids: Ids) -> Ids:
        """Return the ids with those outside the vocabulary replaced by <unk>.

        The SentencePiece kernel ends the process on an id that it does not know.
        """
        values = tf.cast(ids.flat_values if isinstance(ids, tf.RaggedTensor) else ids, tf.int32)
        known = (values >= 0) & (values < self.vocab_size)
        values = tf.where(known, values, UNK)
        return ids.with_flat_values(values) if isinstance(ids, tf.RaggedTensor) else values
