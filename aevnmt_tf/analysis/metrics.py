"""Scores of translations through sacreBLEU, and of the latent variable."""

from typing import NamedTuple

import numpy as np

ACTIVE = 0.01  # a dimension of z is active where its posterior mean varies by more than this


class Scores(NamedTuple):
    """Corpus scores with the signatures that make them comparable."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


def score(hypotheses, references):
    """Score detokenised translations against one reference each."""
    from sacrebleu.metrics import BLEU, CHRF

    bleu, chrf = BLEU(), CHRF()
    return Scores(
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


def active_units(locs):
    """Return how many dimensions of z are in use: variance of the posterior mean over 0.01.

    The measure of Burda et al. (2016), for locs [N, Z].
    """
    return int(np.sum(np.var(np.asarray(locs, dtype=np.float64), axis=0) > ACTIVE))
