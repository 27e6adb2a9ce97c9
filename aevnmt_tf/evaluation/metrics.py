"""Metrics of translation quality, computed by sacreBLEU.

bleu, chrf, ter   the scores of the sacrebleu command, with its options
ter_13a           TER on 13a-tokenised text, as in the AEVNMT paper
multi_bleu        BLEU on Moses-tokenised, lower-cased text, as computed by multi-bleu.perl and
                  reported in papers on Multi30k
rouge, accuracy, word_accuracy    the metrics of TF-NMT, see tf_nmt_metrics.py
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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

ACTIVE = 0.01  # a dimension of z is active if the variance of its posterior mean is above this

Rows = list[list[float]]  # sacreBLEU's statistics, one row per sentence

_TOKENIZERS = (
    *("13a", "none", "zh", "intl", "char", "ja-mecab", "ko-mecab", "spm"),
    *("flores101", "flores200", "spBLEU-1K"),
)
_bleu, _chrf, _ter = (partial(Setting, group=kind) for kind in DEFAULT)
# The options of the sacrebleu command. The group of an option is the metric that it is for.
OPTIONS = (
    _bleu("tokenize", str, None, "BLEU: tokenizer (default: 13a)", _TOKENIZERS),
    _bleu("lowercase", bool, False, "BLEU: ignore case"),
    _bleu("smooth_method", str, "exp", "BLEU: smoothing", ("exp", "floor", "add-k", "none")),
    _bleu("smooth_value", float, None, "BLEU: smoothing value of floor and add-k", at_least=0),
    _chrf("chrf_char_order", int, 6, "chrF: maximum character n-gram order", at_least=1),
    _chrf("chrf_word_order", int, 0, "chrF: maximum word n-gram order; 2: chrF++", at_least=0),
    _chrf("chrf_beta", int, 2, "chrF: weight of recall against precision", at_least=1),
    _chrf("chrf_lowercase", bool, False, "chrF: ignore case"),
    _chrf("chrf_whitespace", bool, False, "chrF: include spaces in n-grams"),
    _ter("ter_case_sensitive", bool, False, "TER: distinguish case"),
    _ter(
        "ter_asian_support",
        bool,
        False,
        "TER: special treatment of Asian characters",
    ),
    _ter("ter_no_punct", bool, False, "TER: remove punctuation"),
    _ter("ter_normalized", bool, False, "TER: apply tercom's tokenisation"),
)
# The options that a metric has. multi_bleu is a fixed protocol without options.
_TAKES = {"bleu": "bleu", "chrf": "chrf", "ter": "ter", "ter_13a": "ter"}


@dataclass(frozen=True)
class Protocol:
    """How sacreBLEU scores: its options by name, see OPTIONS, and multi_bleu's language."""

    options: Mapping[str, Any] = field(default_factory=dict)
    language: str | None = None

    def of(self, name: str) -> dict[str, Any]:
        """Return the options of a metric as arguments of sacreBLEU's class."""
        kind = _TAKES.get(name, "")
        return {
            option.name.removeprefix(f"{kind}_"): self.options[option.name]
            for option in OPTIONS
            if option.group == kind and option.name in self.options
        }

    def check(self, names: Collection[str]) -> None:
        """Raise a UserError if a metric cannot be computed or an option has no effect."""
        for name in names:
            metric(name, protocol=self)
            prepared([], name=name, protocol=self)
        kinds = {_TAKES.get(name) for name in names}
        for option in OPTIONS:
            if option.name in self.options and option.group not in kinds:
                raise UserError(
                    f"--{option.name} has no effect without the metric {option.group}: add it "
                    "to --metrics."
                )


PLAIN = Protocol()


class MetricScore(NamedTuple):
    """A corpus score with its signature."""

    value: float
    signature: str


def score(
    hypotheses: Iterable[str],
    references: Iterable[str],
    *,
    names: Iterable[str] = ("bleu", "chrf"),
    protocol: Protocol = PLAIN,
) -> dict[str, MetricScore]:
    """Return the scores of translations without subwords, by metric; see NAMES."""
    ours, theirs = list(hypotheses), list(references)
    how: dict[str, Any] = {"protocol": protocol}
    return {
        name: from_statistics(statistics(ours, theirs, name=name, **how), name=name, **how)
        for name in names
    }


def signatures(names: Iterable[str]) -> dict[str, str]:
    """Return sacreBLEU's signatures of metrics, for one reference."""
    return {name: score.signature for name, score in score(["a"], ["a"], names=names).items()}


def metric(
    name: str,
    *,
    references: Iterable[str] | None = None,
    protocol: Protocol = PLAIN,
    **options: Any,
) -> "Metric":
    """Return the sacreBLEU metric of a name, for text that is `prepared`.

    The metric caches `references`. `options` are further arguments of its class.
    """
    from sacrebleu import metrics

    from aevnmt_tf.evaluation import tf_nmt_metrics

    check_names([name])
    classes: dict[str, Any] = {
        "bleu": metrics.BLEU,
        "multi_bleu": metrics.BLEU,
        "chrf": metrics.CHRF,
        "ter": metrics.TER,
        "ter_13a": metrics.TER,
        **tf_nmt_metrics.METRICS,
    }
    if name in ("bleu", "multi_bleu"):
        options["force"] = True  # tokenised text is fine: no advice to pass `force`
    if name == "multi_bleu":
        options |= {"tokenize": "none", "smooth_method": "none"}
    options["references"] = None if references is None else [list(references)]
    try:
        return classes[name](**{**protocol.of(name), **options})
    except (RuntimeError, ImportError, OSError) as error:  # a tokenizer lacks a package or file
        raise UserError(f"sacreBLEU cannot compute {name}: {error}.") from None


def check_names(names: Iterable[str], *, known: Sequence[str] = NAMES) -> None:
    """Raise a UserError if a metric is unknown."""
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f": choose from {', '.join(known)}."
            raise UserError(f"there is no metric called {name}{hint}")


def prepared(lines: Iterable[str], *, name: str, protocol: Protocol = PLAIN) -> Iterable[str]:
    """Return lines as a metric reads them: tokenised for ter_13a and multi_bleu."""
    if name == "ter_13a":
        return map(tokeniser_13a(), lines)
    if name != "multi_bleu":
        return lines
    if protocol.language is None:
        raise UserError("the metric multi_bleu needs the target language: give --language.")
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(protocol.language)
    return (moses.tokenize(line, return_str=True, escape=False).lower() for line in lines)


def tokeniser_13a() -> Callable[[str], str]:
    """Return a function that tokenises a line with sacreBLEU's 13a tokenizer."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenize = Tokenizer13a()
    # Unicode's line separators become spaces, because Java treats them as the end of a line.
    return lambda line: " ".join(tokenize(line).split())


def statistics(
    hypotheses: Iterable[str],
    references: Iterable[str],
    *,
    name: str,
    protocol: Protocol = PLAIN,
) -> Rows:
    """Return sacreBLEU's statistics: a list of numbers per sentence.

    Scores of a set, of several sets together and of resampled sets are computed from these, so
    the slow part runs once. `hypotheses` may be an iterable with a progress bar.
    """
    ours, theirs = (
        prepared(side, name=name, protocol=protocol) for side in (hypotheses, references)
    )
    # Any: the type is a sequence, but sacreBLEU iterates over it only once.
    counting: Any = metric(name, protocol=protocol)
    return counting._extract_corpus_statistics(ours, [list(theirs)])


def from_statistics(rows: Rows, *, name: str, protocol: Protocol = PLAIN) -> MetricScore:
    """Return the score computed from the statistics of sentences."""
    # The signature contains the number of references, so the metric needs to see one.
    counted = metric(name, references=[""], protocol=protocol)
    value = counted._aggregate_and_compute(rows).score
    return MetricScore(value, signature(name, str(counted.get_signature()), protocol=protocol))


def signature(name: str, plain: str, *, protocol: Protocol = PLAIN) -> str:
    """Return sacreBLEU's signature, extended by the preprocessing of the text."""
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
    """Return the score of each sentence, as `sacrebleu --sentence-level` computes it."""
    # A sentence may be too short for 4-grams.
    is_bleu = name in ("bleu", "multi_bleu")
    options: dict[str, Any] = {"effective_order": True} if is_bleu else {}
    alone = metric(name, protocol=protocol, **options)
    sides = (prepared(side, name=name, protocol=protocol) for side in (hypotheses, references))
    return [alone.sentence_score(ours, [y]).score for ours, y in zip(*sides, strict=True)]


def active_units(locs: np.ndarray) -> int:
    """Return the number of dimensions of locs [N, Z] with a variance above ACTIVE.

    These are the active units of Burda et al. (2016).
    """
    return int(np.sum(np.var(np.asarray(locs, dtype=np.float64), axis=0) > ACTIVE))
