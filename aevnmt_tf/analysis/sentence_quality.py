"""How good each translation is, by a metric of single sentences."""

import numpy as np

METRICS = ("chrf", "meteor")


def scores(metric, hypotheses, references, *, programs=None):
    """The score of each sentence, in percent: [N].

    Args:
        metric: "chrf", sacreBLEU's of one sentence, or "meteor".
        hypotheses: N sentences.
        references: one for each.
        programs: external_metrics.Programs, for METEOR.
    """
    if metric == "meteor":
        return np.array(programs.score(metric, hypotheses, references).sentences)
    from sacrebleu.metrics import CHRF

    chrf = CHRF()
    pairs = zip(hypotheses, references, strict=True)
    return np.array([chrf.sentence_score(ours, [theirs]).score for ours, theirs in pairs])
