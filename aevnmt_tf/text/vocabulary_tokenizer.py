"""TF-NMT vocabulary files: words separated by spaces, one id per word."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import atomic_writes, text_files
from aevnmt_tf.text import subwords
from aevnmt_tf.text.tokenizer import PREFIX, UNK, Ids, Strings, Tokenizer

SUBWORD_OPTIONS = ("", "bpe", "spm")
NUM_SPECIAL = 3
# Where tf.strings.split splits. A no-break space, for example, is part of a word.
WHITESPACE = " \t\n\v\f\r"


class VocabularyTokenizer(Tokenizer):
    """Tokenised text. Words that are not in the vocabulary become <unk>.

    Args:
      words: The words in the order of their ids, <unk>, <s> and </s> first.
      subword_option: "" for words, "bpe" if `@@` marks subwords that continue, "spm" for
        SentencePiece pieces, where U+2581 marks the start of a word.
    """

    takes_raw_text = False

    def __init__(self, words: Sequence[str], subword_option: str = ""):
        super().__init__(name="vocabulary_tokenizer")
        if subword_option not in SUBWORD_OPTIONS:
            raise UserError(
                f'subword_option "{subword_option}" is not valid for a vocabulary file: '
                'use "", "bpe" or "spm".'
            )
        self._words = tuple(words)
        self.subword_option = subword_option
        self.vocab_size = len(self._words)
        self.fingerprint = hashlib.sha256("\n".join(self._words).encode()).hexdigest()
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
          path: The file. <unk>, sos and eos are added if it has none of them.
          subword_option: "", "bpe" or "spm"; None: as stored in PATH.json, otherwise "".
          sos: The word for <s>.
          eos: The word for </s>.
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
    def words(self) -> tuple[str, ...]:
        """The words in the order of their ids."""
        return tuple(self._words)  # tf.Module wraps tuples

    def encode(self, text: Strings) -> tf.RaggedTensor:
        """Return ragged int32 ids [B, None] of the strings [B], without <s> and </s>."""
        words = tf.strings.split(text)  # [B, None]
        ids = self._ids.lookup(words.flat_values)
        return words.with_flat_values(tf.cast(ids, tf.int32))

    def save(self, folder: str | Path, lang: str) -> list[Path]:
        """Write vocab.LANG and vocab.LANG.json into the folder."""
        path = Path(folder) / f"{PREFIX}.{lang}"
        option = json.dumps({"subword_option": self.subword_option}) + "\n"
        words = "".join(f"{word}\n" for word in self._words)
        return [
            atomic_writes.write(f"{path}.json", option),
            atomic_writes.write(path, words),
        ]

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        words = ids.with_flat_values(tf.gather(self._pieces, ids.flat_values))
        text = tf.strings.reduce_join(words, axis=1, separator=" ")  # [B]
        if self.subword_option == "bpe":
            text = tf.strings.regex_replace(text, subwords.BPE_END, r"\1")
        if self.subword_option == "spm":
            text = tf.strings.regex_replace(text, " ", "")
            text = tf.strings.regex_replace(text, subwords.PIECE_START, " ")
            text = tf.strings.strip(text)
        return text

    def _lookup(self, ids: Ids) -> Ids:
        return tf.gather(self._pieces, ids)


def read_vocabulary(path: str | Path, *, sos: str = "<s>", eos: str = "</s>") -> list[str]:
    """Read and check a vocabulary file."""
    words = text_files.read_lines(path)
    special = ("<unk>", sos, eos)
    # As in TF-NMT, they are added to a file without them.
    has_none = bool(words) and not any(word in special for word in words)
    for number, expected in enumerate(() if has_none else special, 1):
        found = words[number - 1] if len(words) >= number else "the end of the file"
        if found != expected:
            raise UserError(
                f"{path}, line {number}: found {found} instead of {expected}; the first lines "
                f"of a vocabulary must be {', '.join(special)}."
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
            f'{path} must contain {{"subword_option": OPTION}}, where OPTION is "", "bpe" or '
            '"spm".'
        ) from None
    return option
