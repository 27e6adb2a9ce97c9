"""Paired tests are sacreBLEU's own, from counts in place of lines."""

import random

import pytest
from sacrebleu.significance import PairedTest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import metrics, significance

WORDS = "the a cat dog sat ran on under mat tree big small , .".split()


def noisy(lines, *, rate, seed):
    """Lines with some words changed."""
    dice = random.Random(seed)
    return [
        " ".join(dice.choice(WORDS) if dice.random() < rate else word for word in line.split())
        for line in lines
    ]


@pytest.fixture(scope="module")
def texts():
    dice = random.Random(0)
    references = [" ".join(dice.choices(WORDS, k=dice.randint(4, 12))) for _ in range(40)]
    return {
        "ref": references,
        "base": noisy(references, rate=0.4, seed=1),
        "better": noisy(references, rate=0.2, seed=2),
        "same": noisy(references, rate=0.4, seed=3),
    }


@pytest.mark.parametrize("kind, count", [("bootstrap", 200), ("ar", 300)])
def test_from_counts_as_from_lines(texts, kind, count, monkeypatch):
    """The numbers of sacreBLEU's own test of the lines, all metrics at once."""
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    labels = ["base", "better", "same"]
    _, expected = PairedTest(
        [(label, texts[label]) for label in labels],
        {name: metrics.metric(name, references=texts["ref"]) for name in metrics.DEFAULT},
        references=None,
        test_type=significance.KINDS[kind],
        n_samples=count,
    )()
    for name, title in (("bleu", "BLEU"), ("chrf", "chrF2"), ("ter", "TER")):
        systems = [
            (label, metrics.statistics(texts[label], texts["ref"], name=name))
            for label in labels
        ]
        found = significance.paired(systems, name=name, kind=kind, resamples=count)
        assert f"|{significance.KINDS[kind]}:{count}|seed:12345|" in found["signature"]
        assert list(found["systems"].values()) == [vars(result) for result in expected[title]]
    assert found["systems"]["better"]["p_value"] < significance.LEVEL
    assert found["systems"]["same"]["p_value"] > significance.LEVEL


@pytest.mark.parametrize("kind", significance.KINDS)
@pytest.mark.parametrize("name", metrics.NAMES)
def test_identical_translations_do_not_differ(texts, kind, name):
    how = {"name": name, "protocol": metrics.Protocol(language="en")}
    rows = metrics.statistics(texts["base"], texts["ref"], **how)
    other = metrics.statistics(texts["better"], texts["ref"], **how)
    systems = [("one", rows), ("copy", rows), ("better", other)]
    found = significance.paired(systems, kind=kind, resamples=50, **how)["systems"]
    assert found["copy"]["p_value"] == 1.0
    assert found["better"]["p_value"] < significance.LEVEL and found["one"]["p_value"] is None


def test_defaults_and_one_system_alone(texts):
    rows = metrics.statistics(texts["base"], texts["ref"], name="bleu")
    found = significance.paired([("a", rows), ("b", rows)], name="bleu", kind="bootstrap")
    assert "|bs:1000|" in found["signature"]
    assert found["systems"]["a"]["p_value"] is None
    assert found["systems"]["a"]["score"] == found["systems"]["b"]["score"]
    with pytest.raises(UserError, match="at least two systems"):
        significance.paired([("a", rows)], name="bleu", kind="ar")
