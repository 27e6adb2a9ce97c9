"""Scores of translations through sacreBLEU, as it is and as papers report them.

bleu, chrf, ter   as the sacrebleu command has them, with its options
ter_13a           TER of text that the 13a tokenizer has tokenised, as the AEVNMT paper has it
multi_bleu        BLEU of Moses-tokenised, lower-cased text, as multi-bleu.perl has it: what
                  papers on Multi30k report
rouge, accuracy, word_accuracy    TF-NMT's, see tf_nmt_metrics.py
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aevnmt_tf.cli.errors import UserError, did_you_mean
from aevnmt_tf.cli.settings import Setting

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

DEFAULT = ("bleu", "chrf", "ter")
NAMES = (*DEFAULT, "ter_13a", "multi_bleu", "rouge", "accuracy", "word_accuracy")
TITLES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "ter_13a": "TER-13a",
    "multi_bleu": "multi-BLEU",
    "rouge": "ROUGE-L",
    "accuracy": "accuracy",
    "word_accuracy": "word accuracy",
    "meteor": "METEOR",
    "beer": "BEER",
}

ACTIVE = 0.01  # a dimension of z is active where its posterior mean varies by more than this

Rows = list[list[float]]  # what sacreBLEU counts in each sentence

_TOKENIZERS = (
    *("13a", "none", "zh", "intl", "char", "ja-mecab", "ko-mecab", "spm"),
    *("flores101", "flores200", "spBLEU-1K"),
)
_bleu, _chrf, _ter = (partial(Setting, group=kind) for kind in DEFAULT)
# sacreBLEU's own options; its command has dashes in the names. A group is a kind of metric.
OPTIONS = (
    _bleu("tokenize", str, None, "BLEU: the tokenizer (default: 13a)", _TOKENIZERS),
    _bleu("lowercase", bool, False, "BLEU: ignore case"),
    _bleu("smooth_method", str, "exp", "BLEU: smoothing", ("exp", "floor", "add-k", "none")),
    _bleu("smooth_value", float, None, "BLEU: of floor and add-k", at_least=0),
    _chrf("chrf_char_order", int, 6, "chrF: longest character n-gram", at_least=1),
    _chrf("chrf_word_order", int, 0, "chrF: longest word n-gram, 2: chrF++", at_least=0),
    _chrf("chrf_beta", int, 2, "chrF: weight of recall", at_least=1),
    _chrf("chrf_lowercase", bool, False, "chrF: ignore case"),
    _chrf("chrf_whitespace", bool, False, "chrF: count spaces"),
    _ter("ter_case_sensitive", bool, False, "TER: do not ignore case"),
    _ter("ter_asian_support", bool, False, "TER: split Asian characters"),
    _ter("ter_no_punct", bool, False, "TER: leave punctuation out"),
    _ter("ter_normalized", bool, False, "TER: tercom's own tokenisation"),
)
# Whose options a metric takes. multi_bleu is a fixed protocol and takes none.
_TAKES = {"bleu": "bleu", "chrf": "chrf", "ter": "ter", "ter_13a": "ter"}


@dataclass(frozen=True)
class Protocol:
    """How translations are scored.

    Attributes:
        options: sacreBLEU's options that differ from its defaults, by name; see OPTIONS.
        language: of the translations, for multi_bleu.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    language: str | None = None

    def of(self, name: str) -> dict[str, Any]:
        """Return the options of a metric, as the arguments of sacreBLEU's class."""
        kind = _TAKES.get(name, "")
        return {
            option.name.removeprefix(f"{kind}_"): self.options[option.name]
            for option in OPTIONS
            if option.group == kind and option.name in self.options
        }

    def check(self, names: Collection[str]) -> None:
        """Raise a UserError where a metric cannot be computed or an option changes nothing."""
        for name in names:
            metric(name, protocol=self)
            prepared([], name=name, protocol=self)
        kinds = {_TAKES.get(name) for name in names}
        for option in OPTIONS:
            if option.name in self.options and option.group not in kinds:
                raise UserError(f"--{option.name} is for {option.group}: add it to --metrics.")


PLAIN = Protocol()


class MetricScore(NamedTuple):
    """A corpus score with the signature that makes it comparable."""

    value: float
    signature: str


def score(
    hypotheses: Iterable[str],
    references: Iterable[str],
    *,
    names: Iterable[str] = ("bleu", "chrf"),
    protocol: Protocol = PLAIN,
) -> dict[str, MetricScore]:
    """Score translations against one reference each.

    Args:
        hypotheses: translations, without subwords.
        references: one for each translation.
        names: some of NAMES.
        protocol: how.

    Returns:
        A MetricScore by name.
    """
    ours, theirs = list(hypotheses), list(references)
    how: dict[str, Any] = {"protocol": protocol}
    return {
        name: from_statistics(statistics(ours, theirs, name=name, **how), name=name, **how)
        for name in names
    }


def signatures(names: Iterable[str] = ("bleu", "chrf")) -> dict[str, str]:
    """Return sacreBLEU's signature of each score, for one reference."""
    return {name: score.signature for name, score in score(["a"], ["a"], names=names).items()}


def metric(
    name: str,
    *,
    references: Iterable[str] | None = None,
    protocol: Protocol = PLAIN,
    **options: Any,
) -> "Metric":
    """Return sacreBLEU's metric of a name, for text that is `prepared`.

    Args:
        name: one of NAMES.
        references: one for each translation; the metric keeps what it needs of them.
        protocol: how it counts.
        options: further ones, of the metric's class.
    """
    from sacrebleu import metrics

    from aevnmt_tf.evaluation import tf_nmt_metrics

    check_names([name])
    classes = {
        "chrf": metrics.CHRF,
        "ter": metrics.TER,
        "ter_13a": metrics.TER,
        **tf_nmt_metrics.METRICS,
    }
    if name == "multi_bleu":
        options |= {"tokenize": "none", "smooth_method": "none", "force": True}
    kept = None if references is None else [list(references)]
    try:
        made = classes.get(name, metrics.BLEU)(
            references=kept, **{**protocol.of(name), **options}
        )
    except (RuntimeError, ImportError, OSError) as error:  # a tokenizer needs more than we have
        raise UserError(f"sacreBLEU cannot compute {name}: {error}.") from None
    return made


def check_names(names: Iterable[str], *, known: Sequence[str] = NAMES) -> None:
    """Raise a UserError where a metric is not known."""
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f": choose from {', '.join(known)}."
            raise UserError(f"there is no metric called {name}{hint}")


def prepared(
    lines: Iterable[str], *, name: str, protocol: Protocol = PLAIN
) -> Iterator[str] | Iterable[str]:
    """Return lines as a metric reads them: tokenised for ter_13a and multi_bleu."""
    if name == "ter_13a":
        return map(tokeniser_13a(), lines)
    if name != "multi_bleu":
        return lines
    if protocol.language is None:
        raise UserError("multi_bleu needs the language of the text: give --language.")
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(protocol.language)
    return (moses.tokenize(line, return_str=True, escape=False).lower() for line in lines)


def tokeniser_13a() -> Callable[[str], str]:
    """Return what puts single spaces between the words of a line, as sacreBLEU's 13a does."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenize = Tokenizer13a()
    # No line separator of Unicode may survive: Java ends a line at more than a line feed.
    return lambda line: " ".join(tokenize(line).split())


def statistics(
    hypotheses: Iterable[str],
    references: Iterable[str],
    *,
    name: str,
    protocol: Protocol = PLAIN,
) -> Rows:
    """Return what sacreBLEU counts in each sentence: a list of numbers per sentence.

    The scores of a set, of sets together and of resampled sets follow from these, so that the
    slow part is done once.

    Args:
        hypotheses: translations, any iterable: a progress bar may sit in it.
        references: one for each translation.
        name: one of NAMES.
        protocol: how.
    """
    ours, theirs = (
        prepared(side, name=name, protocol=protocol) for side in (hypotheses, references)
    )
    # Any: sacreBLEU asks for a sequence, and goes through it once.
    counting: Any = metric(name, protocol=protocol)
    return counting._extract_corpus_statistics(ours, [list(theirs)])


def from_statistics(rows: Rows, *, name: str, protocol: Protocol = PLAIN) -> MetricScore:
    """Return the score that follows from the statistics of sentences."""
    # The signature says how many references there are, so it needs to see one.
    counted = metric(name, references=[""], protocol=protocol)
    value = counted._aggregate_and_compute(rows).score
    return MetricScore(value, signature(name, str(counted.get_signature()), protocol=protocol))


def signature(name: str, plain: str, *, protocol: Protocol = PLAIN) -> str:
    """Return sacreBLEU's signature with what was done to the text before it was counted."""
    if name == "ter_13a":
        return plain.replace("tok:tercom", "tok:13a+tercom")
    if name == "multi_bleu":
        plain = plain.replace("case:mixed", "case:lc")
        return plain.replace("tok:none", f"tok:moses-{protocol.language}")
    return plain


def sentence_scores(
    hypotheses: Iterable[str],
    references: Iterable[str],
    *,
    name: str,
    protocol: Protocol = PLAIN,
) -> list[float]:
    """Return the score of each sentence alone, as `sacrebleu --sentence-level` has it."""
    # A sentence may be too short for 4-grams.
    options: dict[str, Any] = (
        {"effective_order": True} if name in ("bleu", "multi_bleu") else {}
    )
    alone = metric(name, protocol=protocol, **options)
    sides = (prepared(side, name=name, protocol=protocol) for side in (hypotheses, references))
    return [alone.sentence_score(ours, [y]).score for ours, y in zip(*sides, strict=True)]


def active_units(locs: np.ndarray) -> int:
    """Return how many dimensions of z are in use: variance of the posterior mean over 0.01.

    The measure of Burda et al. (2016), for locs [N, Z].
    """
    return int(np.sum(np.var(np.asarray(locs, dtype=np.float64), axis=0) > ACTIVE))
