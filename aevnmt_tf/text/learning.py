"""Training text -> tokenizers, one for each language or one for both."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import working
from aevnmt_tf.storage.text_files import FileLines
from aevnmt_tf.text import sentencepiece_tokenizer, tokenizer_files
from aevnmt_tf.text.moses import count_words
from aevnmt_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer
from aevnmt_tf.text.tokenizer import Tokenizer
from aevnmt_tf.text.vocabulary_tokenizer import WHITESPACE, VocabularyTokenizer

# More lines than this teach a SentencePiece model nothing new, but cost memory.
MAX_TRAINING_LINES = 2_000_000
Lines: TypeAlias = Sequence[str] | FileLines

_SPLIT = str.maketrans(dict.fromkeys(WHITESPACE, " "))


def split_words(line: str) -> list[str]:
    """Return the words of a line, as the graph's vocabulary lookup splits them."""
    return [word for word in line.translate(_SPLIT).split(" ") if word]


def learn_tokenizers(
    texts: Mapping[str, Lines],
    *,
    subword_option: str,
    vocab_size: int,
    share_vocab: bool = False,
    symbols: Mapping[str, Sequence[str]] | None = None,
    sos: str = "<s>",
    eos: str = "</s>",
    report: Callable[[str], object] = print,
) -> dict[str, Tokenizer]:
    """Return a tokenizer for each language; the same one where the vocabulary is shared.

    Args:
      texts: the lines of each language.
      subword_option: "spm" learns a SentencePiece model; "bpe" and "" collect the words of
        text that is in subwords or tokens already.
      vocab_size: the number of pieces or words; with "bpe" the merges have decided, and all
        pieces are kept.
      share_vocab: whether the languages share one tokenizer.
      symbols: words that are never split, by language; the text need not have them.
      sos: the word for <s> in a vocabulary.
      eos: the word for </s> in a vocabulary.
      report: called with a sentence where something differs from what was asked for.
    """
    groups = [tuple(texts)] if share_vocab else [(lang,) for lang in texts]
    learnt: dict[str, Tokenizer] = {}
    for group in groups:
        name = " and ".join(group)
        lines = [texts[lang] for lang in group]
        whole = [word for lang in group for word in (symbols or {}).get(lang, ())]
        if subword_option == "spm":
            tokenizer: Tokenizer = _learn_sentencepiece(
                lines, vocab_size, name, report, symbols=whole
            )
        else:
            limit = None if subword_option == "bpe" else vocab_size
            special = ("<unk>", sos, eos, *whole)
            words = _frequent_words(
                itertools.chain(*lines), limit=limit, name=name, special=special
            )
            tokenizer = VocabularyTokenizer(words, subword_option)
        learnt.update(dict.fromkeys(group, tokenizer))
    return learnt


def save_tokenizers(tokenizers: Mapping[str, Tokenizer], folder: Path) -> list[Path]:
    """Write the tokenizers' files, one that the languages share only once; return them."""
    shared = len(set(map(id, tokenizers.values()))) < len(tokenizers)
    written: list[Path] = []
    for lang, tokenizer in tokenizers.items():
        written += tokenizer.save(folder, tokenizer_files.SHARED if shared else lang)
    return written


def _learn_sentencepiece(
    texts: Sequence[Lines],
    vocab_size: int,
    name: str,
    report: Callable[[str], object],
    *,
    symbols: Sequence[str],
) -> SentencePieceTokenizer:
    stride = max(1, -(-sum(map(len, texts)) // MAX_TRAINING_LINES))
    with working(f"SentencePiece model, {name}"):
        proto = sentencepiece_tokenizer.train(
            itertools.chain.from_iterable(lines[::stride] for lines in texts),
            vocab_size=vocab_size,
            symbols=symbols,
            name=f"the training text ({name})",
        )
    tokenizer = SentencePieceTokenizer(proto)
    if tokenizer.vocab_size < vocab_size:
        report(
            f"{name}: the text has {tokenizer.vocab_size:,} pieces, fewer than vocab_size "
            f"{vocab_size:,}; the model has all of them."
        )
    return tokenizer


def _frequent_words(
    lines: Iterable[str], *, limit: int | None, name: str, special: Sequence[str]
) -> list[str]:
    counts = count_words(" ".join(split_words(line)) for line in lines)
    for word in special:
        counts.pop(word, None)
    if not counts:
        raise UserError(f"the training text ({name}) has no words to make a vocabulary from.")
    words = sorted(counts, key=lambda word: (-counts[word], word))
    return [*special, *words[: None if limit is None else max(limit - len(special), 0)]]
