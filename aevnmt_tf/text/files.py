"""The names of tokenizer files and how they are found and written.

    vocab.LANG.model     a SentencePiece model
    vocab.LANG           a vocabulary: <unk>, <s>, </s>, then one word a line
    vocab.LANG.json      how the words of that vocabulary are written (subword_option)

One file for both languages (share_vocab) has `shared` in the place of LANG.
"""

import contextlib
import errno
import os
import tempfile
from pathlib import Path

from aevnmt_tf.errors import UserError

SHARED = "shared"
PREFIX = "vocab"


@contextlib.contextmanager
def writing(what):
    """Turn a full disk or a missing permission into one sentence: "Cannot write WHAT ..."."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "free some space" if is_full else "choose another folder"
        raise UserError(
            f"Cannot write {what} ({error.strerror or error}): {advice}."
        ) from error


def write(path, content) -> Path:
    """Write text or bytes under a temporary name and rename: no reader sees half a file."""
    path = Path(path)
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, data)
    return path


def _replace(path, data):
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp makes private files; a run's files are as readable as any other.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def lines(content, name) -> list[str]:
    r"""Return the lines of UTF-8 bytes, split at \n alone; an error names the line."""
    rows = content.split(b"\n")
    if rows and not rows[-1]:
        rows.pop()
    decoded = []
    for number, row in enumerate(rows, 1):
        try:
            decoded.append(row.removesuffix(b"\r").decode("utf-8"))
        except UnicodeDecodeError:
            raise UserError(f"{name}, line {number}: not valid UTF-8.") from None
    return decoded


def find(prefix, lang, *, subword_option=None) -> Path | None:
    """Return the tokenizer's file PREFIX.LANG.model or PREFIX.LANG, or the shared one.

    Args:
      prefix: what vocab_prefix names.
      lang: the language, which ends the file's name.
      subword_option: "spm" looks for models only, "" and "bpe" for vocabularies only, None
        for either.
    """
    endings = {None: (".model", ""), "spm": (".model",)}.get(subword_option, ("",))
    for name in (lang, SHARED):
        for ending in endings:
            path = Path(f"{prefix}.{name}{ending}")
            if path.is_file():
                return path
    return None


def load(folder, lang, *, sos="<s>", eos="</s>"):
    """Return the tokenizer of a language from a folder such as a run's text/."""
    return load_prefix(Path(folder) / PREFIX, lang, sos=sos, eos=eos)


def load_prefix(prefix, lang, *, subword_option=None, sos="<s>", eos="</s>"):
    """Return the tokenizer of PREFIX.LANG.model or PREFIX.LANG.

    Args:
      prefix: what vocab_prefix names.
      lang: the language, which ends the file's name.
      subword_option: "spm" for a model, "" or "bpe" for a vocabulary whose words are written
        so; None = what is there, and the .json file beside a vocabulary says how it is written.
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


def _missing(prefix, lang, subword_option) -> str:
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
