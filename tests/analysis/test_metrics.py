"""Scores: sacreBLEU's own numbers, and active units worked by hand."""

import numpy as np
import pytest
import sacrebleu

from aevnmt_tf.analysis import metrics
from aevnmt_tf.errors import UserError


def test_scores_are_those_of_sacrebleu():
    hypotheses = ["the small dog runs fast .", "a cat sat on the mat ."]
    references = ["the small dog ran fast .", "the cat sat on a mat ."]
    scores = metrics.score(hypotheses, references, names=("bleu", "chrf", "ter"))
    expected = sacrebleu.corpus_bleu(hypotheses, [references])
    assert scores["bleu"].value == pytest.approx(expected.score)
    expected = sacrebleu.corpus_chrf(hypotheses, [references])
    assert scores["chrf"].value == pytest.approx(expected.score)
    expected = sacrebleu.corpus_ter(hypotheses, [references])
    assert scores["ter"].value == pytest.approx(expected.score)
    assert scores["bleu"].signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert "version" in scores["chrf"].signature
    assert metrics.signatures()["bleu"] == scores["bleu"].signature


def test_a_perfect_translation_scores_100():
    lines = ["one two three four five .", "six seven eight nine ten ."]
    scores = metrics.score(lines, lines)
    assert scores["bleu"].value == pytest.approx(100.0)
    assert scores["chrf"].value == pytest.approx(100.0)


def test_empty_translations_score_0():
    assert metrics.score(["", ""], ["a b c d e", "f g h i j"])["bleu"].value == 0.0


def test_active_units():
    locs = np.zeros((100, 3))
    locs[:, 0] = np.linspace(-1, 1, 100)  # variance 0.34
    locs[:, 1] = np.linspace(-0.1, 0.1, 100)  # variance 0.0034
    locs[:, 2] = 5.0  # far from zero, but the same for every sentence
    assert metrics.active_units(locs) == 1


def test_sets_together_follow_from_the_counts_of_each():
    first = (["a cat sat on the mat .", "no"], ["the cat sat on the mat .", "yes"])
    second = (["one two three four five six"], ["one two three five four six"])
    joined = [a + b for a, b in zip(first, second, strict=True)]
    for name in metrics.NAMES:
        rows = metrics.statistics(*first, name=name) + metrics.statistics(*second, name=name)
        expected = metrics.score(*joined, names=[name])[name]
        assert metrics.from_statistics(rows, name=name) == expected


def test_sentence_scores():
    hypotheses, references = ["a cat sat on a mat", "", "x"], ["the cat sat on a mat", "a", "x"]
    pairs = list(zip(hypotheses, references, strict=True))
    bleu = [sacrebleu.sentence_bleu(h, [r]).score for h, r in pairs]
    chrf = [sacrebleu.sentence_chrf(h, [r]).score for h, r in pairs]
    ter = [sacrebleu.sentence_ter(h, [r]).score for h, r in pairs]
    for name, expected in (("bleu", bleu), ("chrf", chrf), ("ter", ter)):
        assert metrics.sentence_scores(hypotheses, references, name=name) == expected
    assert bleu[2] == pytest.approx(100)  # too short for 4-grams


def test_an_unknown_metric_is_a_sentence():
    with pytest.raises(UserError, match="no metric called blue; did you mean bleu"):
        metrics.score(["a"], ["a"], names=["blue"])
    with pytest.raises(UserError, match="no metric called xyz: choose from bleu, chrf, ter"):
        metrics.check_names(["xyz"])
