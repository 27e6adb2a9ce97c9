"""Totals of scores and unknown words, whole and in parts."""

import math

import pytest

from aevnmt_tf.translator.corpus_summaries import CorpusScores, UnknownWords, low_ess

ROW = {"log_py": -2.0, "source_tokens": 3, "target_tokens": 4}


def corpus(*sizes, samples):
    found = CorpusScores(samples=samples)
    for ess in sizes:
        found.add({**ROW, "ess": ess})
    return found


def test_sums_means_and_perplexities():
    first, _, row, ess = corpus(5.0, 7.0, samples=10).lines()
    assert first.startswith("2 pairs, 6 source and 8 target subwords")
    assert row.split() == ["log_py", "-4.000", "-2.000", f"{math.exp(4 / 8):.3f}"]
    assert ess.split() == ["ess", "6.000"], "a sum of them says nothing"


def test_the_elbo_of_a_model_without_a_source_is_about_the_target():
    found = CorpusScores(samples=1)
    found.add({**ROW, "elbo": -3.0})
    row = next(line for line in found.lines() if line.startswith("elbo"))
    assert row.split()[-1] == f"{math.exp(3 / 4):.3f}"


def test_no_pairs():
    assert len(list(corpus(samples=10).lines())) == 1 and not corpus(samples=10).warning()


@pytest.mark.parametrize(
    "samples, ess, is_low",
    [
        (10, 1.9, True),
        (10, 2.1, False),
        (2000, 1.4, True),
        (2000, 19.0, True),
        (2000, 21.0, False),
        (1, 1.0, False),
        (2, 1.0, False),
        (3, 1.4, True),
    ],
)
def test_bounds_that_rest_on_a_few_draws_are_named(samples, ess, is_low):
    """With one draw there is no weight to share, and the bound is the ELBO."""
    warning = corpus(samples / 2 + 1, ess, samples=samples).warning()
    assert bool(warning) == is_low
    if is_low:
        assert "1 of 2 pairs" in warning and "(lines 2)" in warning
        assert f"below {low_ess(samples):g}" in warning and "--samples" in warning


def test_not_all_lines_are_named():
    assert "(lines 1, 2, 3, 4, 5, ...)" in corpus(*[1.0] * 7, samples=10).warning()


def test_systems_without_draws_have_no_warning():
    found = CorpusScores(samples=10)
    found.add(ROW)
    assert found.warning() == ""


def test_parts_are_added():
    whole, sizes = CorpusScores(samples=10), [5.0, 1.0, 7.0, 1.5]
    for part in (sizes[:1], sizes[1:3], sizes[3:]):
        whole.merge(corpus(*part, samples=10).state)
    assert list(whole.lines()) == list(corpus(*sizes, samples=10).lines())
    assert "(lines 2, 4)" in whole.warning()


def about(*counts):
    unknown = UnknownWords("tokens")
    for words, of_them in counts:
        unknown.add({"words": words, "unknown": of_them})
    return unknown


def test_few_are_counted_and_many_explained():
    assert list(about((5, 0), (0, 0)).lines()) == []
    few = "2 of 20 source words are unknown to the model"
    assert list(about((10, 1), (10, 1)).lines()) == [few]
    (many,) = about((10, 0), (10, 3)).lines()
    assert "3 of 20" in many and "takes tokens" in many


def test_unknown_words_of_parts_are_added():
    whole = UnknownWords()
    for part in (about((10, 0)), about((10, 3))):
        whole.merge(part.state)
    assert list(whole.lines()) == list(about((10, 0), (10, 3)).lines())
