"""Scores of translations through sacreBLEU, and of the latent variable."""

from typing import NamedTuple

import numpy as np

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
    from sacrebleu import metrics

    classes = {"bleu": metrics.BLEU, "chrf": metrics.CHRF, "ter": metrics.TER}
    scores = {}
    for name in names:
        metric = classes[name]()
        value = metric.corpus_score(list(hypotheses), [list(references)]).score
        scores[name] = Score(value, str(metric.get_signature()))
    return scores


def signatures(names=("bleu", "chrf")):
    """Return sacreBLEU's signature of each score, for one reference."""
    return {name: score.signature for name, score in score(["a"], ["a"], names=names).items()}


def active_units(locs):
    """Return how many dimensions of z are in use: variance of the posterior mean over 0.01.

    The measure of Burda et al. (2016), for locs [N, Z].
    """
    return int(np.sum(np.var(np.asarray(locs, dtype=np.float64), axis=0) > ACTIVE))
