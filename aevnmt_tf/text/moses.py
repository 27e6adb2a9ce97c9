"""The paper's text pipeline: Moses tokeniser, truecaser and BPE, and its inverse.

It runs in Python, outside the graph, with sacremoses and subword-nmt. Its files:

    moses.LANG.truecaser     in the format of Moses' train-truecaser.perl
    moses.LANG.codes         the merges, in the format of subword-nmt
"""

import contextlib
import io
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import track
from aevnmt_tf.storage import atomic_writes
from aevnmt_tf.text import subwords

_HEADER = "#version: 0.2\n"
# Longer words are segmented in parts, because the time grows quadratically with the length.
LONGEST_WORD = 200


class MosesPipeline:
    """Raw text of one language to subwords and back.

    Args:
      lang: The language.
      truecaser: A trained truecaser of sacremoses.
      codes: BPE merges in the format of subword-nmt; None: do not split words.
    """

    def __init__(self, lang: str, *, truecaser: Any, codes: str | None):
        import sacremoses  # of an extra; see cli.extras
        from subword_nmt import apply_bpe

        self.lang = lang
        self.codes = codes
        self._tokeniser = sacremoses.MosesTokenizer(lang)
        self._detokeniser = sacremoses.MosesDetokenizer(lang)
        self._truecaser = truecaser
        self._detruecaser = sacremoses.MosesDetruecaser()
        self._bpe = None if codes is None else apply_bpe.BPE(io.StringIO(codes))

    def forward(self, line: str) -> str:
        """Tokenise, truecase and segment a raw line."""
        return self.segment(self.truecase(self.tokenise(line)))

    def inverse(self, line: str) -> str:
        """Turn subwords or tokens into raw text."""
        line = subwords.join_bpe(line.strip(" "))
        return self._detokeniser.detokenize(self._detruecaser.detruecase(line))

    def tokenise(self, line: str) -> str:
        """Return the tokens of a raw line, separated by single spaces."""
        return self._tokeniser.tokenize(line, return_str=True)

    def truecase(self, tokens: str) -> str:
        """Give the first word of each sentence its usual case."""
        # As in Moses, known forms inside a sentence keep their case.
        return self._truecaser.truecase(tokens, return_str=True, use_known=True)

    def segment(self, tokens: str) -> str:
        """Split words into subwords; `@@` marks those that continue."""
        if self._bpe is None:
            return tokens
        words = tokens.split(" ")
        if max(map(len, words)) <= LONGEST_WORD:
            return self._bpe.segment(tokens)
        return " ".join("@@ ".join(map(self._bpe.segment, _parts(word))) for word in words)

    def with_codes(self, codes: str) -> "MosesPipeline":
        """Return this pipeline with other BPE merges."""
        return MosesPipeline(self.lang, truecaser=self._truecaser, codes=codes)

    def save(self, folder: str | Path) -> list[Path]:
        """Write the files into a folder and return their paths."""
        casing = _format_casing(self._truecaser.model)
        written = [atomic_writes.write(_truecaser_file(folder, self.lang), casing)]
        if self.codes is not None:
            written.append(atomic_writes.write(_codes_file(folder, self.lang), self.codes))
        return written


def load(folder: str | Path, lang: str) -> MosesPipeline | None:
    """Return the pipeline of a language, or None if the folder has none."""
    path = _truecaser_file(folder, lang)
    if not path.is_file():
        return None
    import sacremoses

    try:
        truecaser = sacremoses.MosesTruecaser(load_from=str(path))
    except (ValueError, OSError) as error:
        raise UserError(f"{path} is not a truecaser model: {error}.") from None
    codes_file = _codes_file(folder, lang)
    codes = codes_file.read_text(encoding="utf-8") if codes_file.is_file() else None
    if codes is not None:
        _check_codes(codes, codes_file)
    return MosesPipeline(lang, truecaser=truecaser, codes=codes)


def learn_truecaser(lang: str, tokenised: Iterable[str]) -> MosesPipeline:
    """Return a pipeline without merges, whose truecaser is trained on tokenised lines."""
    import sacremoses

    truecaser = sacremoses.MosesTruecaser()
    truecaser.train(line.split(" ") for line in tokenised)
    return MosesPipeline(lang, truecaser=truecaser, codes=None)


def learn_codes(words: Mapping[str, int], *, num_merges: int, name: str = "the text") -> str:
    """Return up to num_merges BPE merges, learnt from words and their counts.

    Pairs of symbols that occur only once are not merged.
    """
    from subword_nmt import learn_bpe

    if not any(len(word) > 1 for word in words):
        raise UserError(f"{name} has no words to learn BPE merges from.")
    counts = (f"{word} {count}" for word, count in words.items())
    output, chatter = io.StringIO(), io.StringIO()
    # The library always shows a progress bar; ours appears only on terminals.
    bar = track(range(num_merges), f"BPE merges, {name}", total=num_merges)
    with (
        mock.patch.object(learn_bpe, "tqdm", lambda _: bar),
        contextlib.redirect_stderr(chatter),
        contextlib.closing(bar),
    ):
        learn_bpe.learn_bpe(counts, output, num_merges, is_dict=True)
    if output.getvalue() == _HEADER:
        raise UserError(f"{name} is too small for BPE: no pair of symbols occurs twice.")
    return output.getvalue()


def count_words(lines: Iterable[str]) -> Counter[str]:
    """Count words that are separated by single spaces."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.split(" ") if line else ())
    return counts


def _parts(word: str) -> list[str]:
    return [word[i : i + LONGEST_WORD] for i in range(0, len(word), LONGEST_WORD)]


def _format_casing(model: Mapping[str, Any]) -> str:
    rows = []
    for forms in model["casing"].values():
        (best, count), *others = forms.most_common()
        rest = "".join(f" {form} ({number})" for form, number in others)
        rows.append(f"{best} ({count}/{sum(forms.values())}){rest}\n")
    return "".join(rows)


def _check_codes(codes: str, path: Path) -> None:
    # The library exits on an invalid line.
    for number, line in enumerate(codes.rstrip("\n").split("\n"), 1):
        if not line.startswith("#version:") and len(line.strip("\r\n ").split(" ")) != 2:
            raise UserError(
                f"{path}, line {number}: a merge must be two subwords separated by a space."
            )


def _truecaser_file(folder: str | Path, lang: str) -> Path:
    return Path(folder) / f"moses.{lang}.truecaser"


def _codes_file(folder: str | Path, lang: str) -> Path:
    return Path(folder) / f"moses.{lang}.codes"
