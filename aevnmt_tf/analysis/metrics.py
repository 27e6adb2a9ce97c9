"""Scores of translations through sacreBLEU, and of the latent variable."""

from typing import NamedTuple

import numpy as np

from aevnmt_tf.errors import UserError
from aevnmt_tf.hparams_checks import did_you_mean

NAMES = ("bleu", "chrf", "ter")
TITLES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "meteor": "METEOR", "beer": "BEER"}
LOWER_IS_BETTER = ("ter",)

ACTIVE = 0.01  # a dimension of z is active where its posterior mean varies by more than this


class Score(NamedTuple):
    """A corpus score with the signature that makes it comparable."""

    value: float
    signature: str


def score(hypotheses, references, *, names=("bleu", "chrf")):
    """Score detokenised translations against one reference each.

    Args:
        hypotheses: translations.
        references: one for each translation.
        names: which of bleu, chrf and ter.

    Returns:
        A Score by name.
    """
    return {
        name: from_statistics(statistics(hypotheses, references, name=name), name=name)
        for name in names
    }


def signatures(names=("bleu", "chrf")):
    """Return sacreBLEU's signature of each score, for one reference."""
    return {name: score.signature for name, score in score(["a"], ["a"], names=names).items()}


def metric(name, *, references=None, **options):
    """Return sacreBLEU's metric of a name, with the options of its command line's defaults.

    Args:
        name: bleu, chrf or ter.
        references: one for each translation; the metric keeps what it needs of them.
        options: of the metric's class.
    """
    from sacrebleu import metrics

    classes = {"bleu": metrics.BLEU, "chrf": metrics.CHRF, "ter": metrics.TER}
    check_names([name])
    kept = None if references is None else [list(references)]
    return classes[name](references=kept, **options)


def check_names(names, *, known=NAMES):
    """Raise a UserError where a metric is not known."""
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f": choose from {', '.join(known)}"
            raise UserError(f"there is no metric called {name}{hint}")


def statistics(hypotheses, references, *, name):
    """Return what sacreBLEU counts in each sentence: a list of numbers a sentence.

    The scores of a set, of sets together and of resampled sets follow from these, so that the
    slow part is done once.

    Args:
        hypotheses: translations, any iterable: a progress bar may sit in it.
        references: one for each translation.
        name: bleu, chrf or ter.
    """
    return metric(name)._extract_corpus_statistics(hypotheses, [list(references)])


def from_statistics(rows, *, name):
    """Return the Score that follows from the statistics of sentences."""
    # The signature says how many references there are, so it needs to see one.
    counted = metric(name, references=[""])
    return Score(counted._aggregate_and_compute(rows).score, str(counted.get_signature()))


def sentence_scores(hypotheses, references, *, name):
    """Return the score of each sentence alone, as `sacrebleu --sentence-level` has it."""
    # A sentence may be too short for 4-grams.
    options = {"effective_order": True} if name == "bleu" else {}
    alone = metric(name, **options)
    pairs = zip(hypotheses, references, strict=True)
    return [alone.sentence_score(hypothesis, [y]).score for hypothesis, y in pairs]


def active_units(locs):
    """Return how many dimensions of z are in use: variance of the posterior mean over 0.01.

    The measure of Burda et al. (2016), for locs [N, Z].
    """
    return int(np.sum(np.var(np.asarray(locs, dtype=np.float64), axis=0) > ACTIVE))
