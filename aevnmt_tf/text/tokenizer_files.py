"""Find and load the files of tokenizers.

    vocab.LANG.model     a SentencePiece model
    vocab.LANG           a vocabulary: <unk>, <s>, </s>, then one word per line
    vocab.LANG.json      the subword_option of that vocabulary

With share_vocab, both languages share a file with `shared` instead of LANG.
"""

from pathlib import Path

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer
from aevnmt_tf.text.tokenizer import PREFIX, Tokenizer
from aevnmt_tf.text.vocabulary_tokenizer import VocabularyTokenizer

SHARED = "shared"


def find(prefix: str | Path, lang: str, *, subword_option: str | None = None) -> Path | None:
    """Return the file PREFIX.LANG.model or PREFIX.LANG, or the shared one.

    Args:
      prefix: The vocab_prefix.
      lang: The language.
      subword_option: "" and "bpe" look for vocabularies only. None and "spm" look for a model
        first, then for a vocabulary. As in TF-NMT, a vocabulary with "spm" means that the text
        is already in pieces.
    """
    endings = (".model", "") if subword_option in (None, "spm") else ("",)
    for name in (lang, SHARED):
        for ending in endings:
            path = Path(f"{prefix}.{name}{ending}")
            if path.is_file():
                return path
    return None


def load(folder: str | Path, lang: str, *, sos: str = "<s>", eos: str = "</s>") -> Tokenizer:
    """Return the tokenizer of a language from a folder such as the text/ of a run."""
    return load_prefix(Path(folder) / PREFIX, lang, sos=sos, eos=eos)


def load_prefix(
    prefix: str | Path,
    lang: str,
    *,
    subword_option: str | None = None,
    sos: str = "<s>",
    eos: str = "</s>",
) -> Tokenizer:
    """Return the tokenizer of PREFIX.LANG.model or PREFIX.LANG.

    Args:
      prefix: The vocab_prefix.
      lang: The language.
      subword_option: See `find`. None: as stored in the .json file of a vocabulary.
      sos: The word for <s> in a vocabulary file.
      eos: The word for </s> in a vocabulary file.
    """
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
            f'subword_option "{subword_option}" does not match {other}, which is {words}: '
            f"set subword_option to {option}, or give another vocab_prefix."
        )
    wanted = f"{prefix}.{lang}.model nor {prefix}.{lang}"
    return (
        f"There is neither {wanted}: correct vocab_prefix, or omit it to learn subword models "
        "from the training text."
    )
