"""The names of tokenizer files and how they are found and written.

    vocab.LANG.model     a SentencePiece model
    vocab.LANG           a vocabulary: <unk>, <s>, </s>, then one word a line
    vocab.LANG.json      how the words of that vocabulary are written (subword_option)

One file for both languages (share_vocab) has `shared` in the place of LANG.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from aevnmt_tf.cli.errors import UserError

if TYPE_CHECKING:
    from aevnmt_tf.text.tokenizer import Tokenizer

SHARED = "shared"
PREFIX = "vocab"


def find(prefix: str | Path, lang: str, *, subword_option: str | None = None) -> Path | None:
    """Return the tokenizer's file PREFIX.LANG.model or PREFIX.LANG, or the shared one.

    Args:
      prefix: what vocab_prefix names.
      lang: the language, which ends the file's name.
      subword_option: "" and "bpe" look for vocabularies only; None and "spm" for a model, or
        for a vocabulary, which with "spm" has TF-NMT's form: text is in pieces already.
    """
    endings = (".model", "") if subword_option in (None, "spm") else ("",)
    for name in (lang, SHARED):
        for ending in endings:
            path = Path(f"{prefix}.{name}{ending}")
            if path.is_file():
                return path
    return None


def load(folder: str | Path, lang: str, *, sos: str = "<s>", eos: str = "</s>") -> "Tokenizer":
    """Return the tokenizer of a language from a folder such as a run's text/."""
    return load_prefix(Path(folder) / PREFIX, lang, sos=sos, eos=eos)


def load_prefix(
    prefix: str | Path,
    lang: str,
    *,
    subword_option: str | None = None,
    sos: str = "<s>",
    eos: str = "</s>",
) -> "Tokenizer":
    """Return the tokenizer of PREFIX.LANG.model or PREFIX.LANG.

    Args:
      prefix: what vocab_prefix names.
      lang: the language, which ends the file's name.
      subword_option: "spm" for a model, or a vocabulary of pieces; "" or "bpe" for a vocabulary
        whose words are written so; None = what is there, and the .json file beside a vocabulary
        says how it is written.
      sos: the word for <s> in a vocabulary file.
      eos: the word for </s> in a vocabulary file.
    """
    from aevnmt_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer
    from aevnmt_tf.text.vocabulary_tokenizer import VocabularyTokenizer

    path = find(prefix, lang, subword_option=subword_option)
    if path is None:
        raise UserError(_missing(prefix, lang, subword_option))
    if path.suffix == ".model":
        return SentencePieceTokenizer.from_file(path)
    return VocabularyTokenizer.from_file(path, subword_option=subword_option, sos=sos, eos=eos)


def _missing(prefix: str | Path, lang: str, subword_option: str | None) -> str:
    other = find(prefix, lang)
    if other is not None:
        words = "a SentencePiece model" if other.suffix == ".model" else "a vocabulary"
        option = '"spm"' if other.suffix == ".model" else '"" or "bpe"'
        return (
            f'subword_option "{subword_option}" does not go with {other}, which is {words}: '
            f"set subword_option to {option}, or give another vocab_prefix."
        )
    wanted = f"{prefix}.{lang}.model nor {prefix}.{lang}"
    return (
        f"There is neither {wanted}: give a vocab_prefix that exists, or none: then the "
        "training text makes subword models."
    )
