"""Scores: sacreBLEU's own numbers, and active units worked by hand."""

import collections
import math

import numpy as np
import pytest
import sacrebleu

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import metrics


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
    assert metrics.signatures(["bleu"])["bleu"] == scores["bleu"].signature


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
    how = {"protocol": metrics.Protocol(language="en")}
    for name in metrics.NAMES:
        rows = [
            row for one in (first, second) for row in metrics.statistics(*one, name=name, **how)
        ]
        expected = metrics.score(*joined, names=[name], **how)[name]
        assert metrics.from_statistics(rows, name=name, **how) == expected


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


# Protocols of papers.

HYPOTHESES = ['A dog, (big) "runs" fast.', "Don't the Cats sit on the mat today?", "no."]
REFERENCES = ['A big dog ("small") runs.', "Don't cats sit on the old mat today?", "No!"]


def test_tokenised_ter_is_the_papers():
    """13a first, then TER; sacreBLEU's own splits at spaces alone."""
    scores = metrics.score(HYPOTHESES, REFERENCES, names=("ter", "ter_13a"))
    tokenise = sacrebleu.tokenizers.tokenizer_13a.Tokenizer13a()
    ours, theirs = ([tokenise(line) for line in side] for side in (HYPOTHESES, REFERENCES))
    assert scores["ter"].value == sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score
    assert scores["ter_13a"].value == sacrebleu.corpus_ter(ours, [theirs]).score
    assert scores["ter"].value != scores["ter_13a"].value
    assert "|tok:tercom|" in scores["ter"].signature
    assert "|tok:13a+tercom|" in scores["ter_13a"].signature
    alone = metrics.sentence_scores(HYPOTHESES, REFERENCES, name="ter_13a")
    assert alone == [
        sacrebleu.sentence_ter(h, [r]).score for h, r in zip(ours, theirs, strict=True)
    ]


def multi_bleu(hypotheses, references):
    """What multi-bleu.perl does to tokenised text with one reference."""
    matches, totals, lengths = collections.Counter(), collections.Counter(), [0, 0]
    for lines in zip(hypotheses, references, strict=True):
        words = [line.split() for line in lines]
        for n in range(1, 5):
            grams = [
                collections.Counter(tuple(w[i : i + n]) for i in range(len(w) - n + 1))
                for w in words
            ]
            matches[n] += sum((grams[0] & grams[1]).values())
            totals[n] += sum(grams[0].values())
        lengths = [a + len(w) for a, w in zip(lengths, words, strict=True)]
    brevity = min(0.0, 1 - lengths[1] / lengths[0])
    return 100 * math.exp(brevity + sum(math.log(matches[n] / totals[n]) for n in totals) / 4)


def test_multi_bleu_is_that_of_lower_cased_moses_tokens():
    tokens = [
        ['a dog , ( big ) " runs " fast .', "don 't the cats sit on the mat today ?", "no ."],
        ['a big dog ( " small " ) runs .', "don 't cats sit on the old mat today ?", "no !"],
    ]
    protocol = metrics.Protocol(language="en")
    for side, expected in zip((HYPOTHESES, REFERENCES), tokens, strict=True):
        found = list(metrics.prepared(side, name="multi_bleu", protocol=protocol))
        assert found == expected
    found = metrics.score(
        [line.upper() for line in HYPOTHESES],
        REFERENCES,
        names=["multi_bleu"],
        protocol=protocol,
    )["multi_bleu"]
    assert found.value == pytest.approx(multi_bleu(*tokens))
    assert found.signature.startswith("nrefs:1|case:lc|eff:no|tok:moses-en|smooth:none|")
    with pytest.raises(UserError, match="--language"):
        metrics.Protocol().check(["multi_bleu"])


@pytest.mark.parametrize(
    "name, options, arguments, words",
    [
        ("bleu", {"tokenize": "char", "lowercase": True}, {}, "case:lc|eff:no|tok:char"),
        ("bleu", {"smooth_method": "add-k", "smooth_value": 2.0}, {}, "smooth:add-k[2.00]"),
        ("chrf", {"chrf_word_order": 2}, {"word_order": 2}, "nw:2"),
        ("chrf", {"chrf_lowercase": True}, {"lowercase": True}, "case:lc"),
        ("ter", {"ter_case_sensitive": True}, {"case_sensitive": True}, "case:mixed"),
        (
            "ter_13a",
            {"ter_no_punct": True},
            {"no_punct": True},
            "tok:13a+tercom|norm:no|punct:no",
        ),
    ],
)
def test_options_of_sacrebleu(name, options, arguments, words):
    protocol = metrics.Protocol(options)
    protocol.check([name])
    found = metrics.score(HYPOTHESES, REFERENCES, names=[name], protocol=protocol)[name]
    made = {"bleu": "BLEU", "chrf": "CHRF", "ter": "TER", "ter_13a": "TER"}[name]
    theirs = getattr(sacrebleu.metrics, made)(**(arguments or options))
    sides = [
        list(metrics.prepared(side, name=name, protocol=protocol))
        for side in (HYPOTHESES, REFERENCES)
    ]
    assert found.value == theirs.corpus_score(sides[0], [sides[1]]).score
    assert words in found.signature
    assert found.value != metrics.score(HYPOTHESES, REFERENCES, names=[name])[name].value


def test_every_option_is_one_of_sacrebleus_classes():
    for name in metrics.DEFAULT:
        options = [option for option in metrics.OPTIONS if option.group == name]
        assert len(options) >= 4
        values = {o.name: o.default for o in options if o.default is not None}
        metrics.metric(name, protocol=metrics.Protocol(values))
        plain = metrics.score(HYPOTHESES, REFERENCES, names=[name])[name]
        given = metrics.Protocol(values)
        assert (
            metrics.score(HYPOTHESES, REFERENCES, names=[name], protocol=given)[name] == plain
        )


def test_an_option_that_changes_nothing_is_refused():
    with pytest.raises(UserError, match="--lowercase"):
        metrics.Protocol({"lowercase": True}, "en").check(["chrf", "multi_bleu"])
