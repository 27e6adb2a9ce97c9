"""Learn tokenizers from training text, one per language or one for both."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import working
from aevnmt_tf.storage.text_files import FileLines
from aevnmt_tf.text import sentencepiece_tokenizer
from aevnmt_tf.text.moses import count_words
from aevnmt_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer
from aevnmt_tf.text.tokenizer import Tokenizer
from aevnmt_tf.text.vocabulary_tokenizer import WHITESPACE, VocabularyTokenizer

# More lines do not improve a SentencePiece model, but take memory.
MAX_TRAINING_LINES = 2_000_000
Lines: TypeAlias = Sequence[str] | FileLines

_SPLIT = str.maketrans(dict.fromkeys(WHITESPACE, " "))


def split_words(line: str) -> list[str]:
    """Return the words of a line, split as by VocabularyTokenizer in the graph."""
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
    """Return a tokenizer per language.

    Args:
      texts: The lines of each language.
      subword_option: "spm" learns a SentencePiece model; "bpe" and "" collect the words of
        text that is already in subwords or tokens.
      vocab_size: The number of pieces or words. With "bpe", all subwords are kept.
      share_vocab: Whether the languages share one tokenizer.
      symbols: Words by language that are never split, whether the text contains them or not.
      sos: The word for <s> in a vocabulary.
      eos: The word for </s> in a vocabulary.
      report: Called with a message if the vocabulary is smaller than requested.
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
            f"{name}: the text has only {tokenizer.vocab_size:,} pieces, fewer than vocab_size "
            f"{vocab_size:,}."
        )
    return tokenizer


def _frequent_words(
    lines: Iterable[str], *, limit: int | None, name: str, special: Sequence[str]
) -> list[str]:
    counts = count_words(" ".join(split_words(line)) for line in lines)
    for word in special:
        counts.pop(word, None)
    if not counts:
        raise UserError(f"the training text ({name}) has no words for a vocabulary.")
    words = sorted(counts, key=lambda word: (-counts[word], word))
    return [*special, *words[: None if limit is None else max(limit - len(special), 0)]]
