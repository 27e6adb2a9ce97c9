"""TF-NMT vocabulary files: words separated by spaces, one id a word."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import atomic_writes, text_files
from aevnmt_tf.text import subwords, tokenizer_files
from aevnmt_tf.text.tokenizer import UNK, Ids, Strings, Tokenizer

SUBWORD_OPTIONS = ("", "bpe", "spm")
NUM_SPECIAL = 3
# What tf.strings.split splits at. A no-break space, for one, is part of a word.
WHITESPACE = " \t\n\v\f\r"


class VocabularyTokenizer(Tokenizer):
    """Pre-tokenised text; a word that is not in the vocabulary is <unk>.

    Args:
      words: the words in the order of their ids, <unk>, <s> and </s> first.
      subword_option: "" for words, "bpe" where `@@` at a word's end joins it to the next, "spm"
        for SentencePiece's pieces, where U+2581 starts a word.
    """

    def __init__(self, words: Sequence[str], subword_option: str = ""):
        super().__init__(name="vocabulary_tokenizer")
        if subword_option not in SUBWORD_OPTIONS:
            raise UserError(
                f'subword_option "{subword_option}" does not go with a vocabulary file: '
                'use "", "bpe" or "spm".'
            )
        self._words = tuple(words)
        self._subword_option = subword_option
        # DEVIATION: TF-NMT looks <s> and </s> up like any word, so that text which spells them
        # ends its own sentence. Here they are unknown words.
        keys = tf.constant(self._words)
        ids = [UNK] * NUM_SPECIAL + list(range(NUM_SPECIAL, len(self._words)))
        initializer = tf.lookup.KeyValueTensorInitializer(keys, tf.constant(ids, tf.int64))
        self._ids = tf.lookup.StaticHashTable(initializer, default_value=UNK)
        self._pieces = keys

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        subword_option: str | None = None,
        sos: str = "<s>",
        eos: str = "</s>",
    ) -> "VocabularyTokenizer":
        """Return the tokenizer of a vocabulary file.

        Args:
          path: the file; without <unk>, sos and eos, these three come first.
          subword_option: "", "bpe" or "spm"; None = what PATH.json says, else "".
          sos: the word for <s>.
          eos: the word for </s>.
        """
        words = read_vocabulary(path, sos=sos, eos=eos)
        start = subwords.PIECE_START
        if subword_option == "spm" and not any(start in word for word in words):
            raise UserError(
                f"{path} has no SentencePiece pieces, because no line has a {start}: set "
                'subword_option to "" (words) or "bpe".'
            )
        if subword_option is None:
            subword_option = _stored_option(f"{path}.json")
        return cls(words, subword_option)

    @property
    def vocab_size(self) -> int:
        """The number of ids."""
        return len(self._words)

    @property
    def takes_raw_text(self) -> bool:
        """False: words or subwords with spaces between them."""
        return False

    @property
    def words(self) -> tuple[str, ...]:
        """The words in the order of their ids."""
        return tuple(self._words)

    @property
    def subword_option(self) -> str:
        """How words are written: "", "bpe" or "spm"."""
        return self._subword_option

    @property
    def fingerprint(self) -> str:
        """A digest of all that decides the ids."""
        return hashlib.sha256("\n".join(self._words).encode()).hexdigest()

    def encode(self, text: Strings) -> tf.RaggedTensor:
        """Return ragged int32 ids [B, None] of the strings [B], without <s> and </s>."""
        words = tf.strings.split(text)  # [B, None]
        ids = self._ids.lookup(words.flat_values)
        return words.with_flat_values(tf.cast(ids, tf.int32))

    def pieces(self, ids: Ids) -> Ids:
        """Return the piece of every id, in the shape of ids: for tables and plots."""
        if not isinstance(ids, tf.RaggedTensor):
            ids = tf.convert_to_tensor(ids)
        return tf.gather(self._pieces, self._existing(ids))

    def save(self, folder: str | Path, lang: str) -> list[Path]:
        """Write vocab.LANG and vocab.LANG.json into the folder."""
        path = Path(folder) / f"{tokenizer_files.PREFIX}.{lang}"
        option = json.dumps({"subword_option": self._subword_option}) + "\n"
        words = "".join(f"{word}\n" for word in self._words)
        return [
            atomic_writes.write(f"{path}.json", option),
            atomic_writes.write(path, words),
        ]

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        words = ids.with_flat_values(tf.gather(self._pieces, ids.flat_values))
        text = tf.strings.reduce_join(words, axis=1, separator=" ")  # [B]
        if self._subword_option == "bpe":
            text = tf.strings.regex_replace(text, subwords.BPE_END, r"\1")
        if self._subword_option == "spm":
            text = tf.strings.regex_replace(text, " ", "")
            text = tf.strings.regex_replace(text, subwords.PIECE_START, " ")
            text = tf.strings.strip(text)
        return text


def read_vocabulary(path: str | Path, *, sos: str = "<s>", eos: str = "</s>") -> list[str]:
    """Return the words of a vocabulary file, checked."""
    words = list(text_files.read_lines(path))
    special = ("<unk>", sos, eos)
    # As in TF-NMT, a file without them gets them.
    has_none = bool(words) and not any(word in special for word in words)
    for number, expected in enumerate(() if has_none else special, 1):
        found = words[number - 1] if len(words) >= number else "the end of the file"
        if found != expected:
            raise UserError(
                f"{path}, line {number}: found {found} where {expected} must be; a vocabulary "
                f"starts with the lines {', '.join(special)}."
            )
    seen: dict[str, int] = {}
    for number, word in enumerate(words, 1):
        if not word or any(character in WHITESPACE for character in word):
            raise UserError(
                f"{path}, line {number}: a line must contain one word without spaces."
            )
        if word in seen:
            raise UserError(
                f"{path}, line {number}: {word} is also on line {seen[word]}: remove one."
            )
        seen[word] = number
    return [*special, *words] if has_none else words


def _stored_option(path: str | Path) -> str:
    try:
        option = json.loads(Path(path).read_text(encoding="utf-8"))["subword_option"]
    except FileNotFoundError:
        return ""
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f'{path} must read {{"subword_option": "bpe"}} or have "" there.'
        ) from None
    return option
