"""p-values of a table: over seeds, and over sentences for each seed."""

import itertools

import numpy as np
import pytest

from aevnmt_tf.evaluation import metrics, significance
from aevnmt_tf.experiments import collected_results, result_pages
from aevnmt_tf.experiments.seed_significance import permutation_p_value


def test_the_permutation_test_counts_all_ways_to_deal_the_runs():
    # 20 splits of 6 values; only the two that separate all of them are as extreme.
    assert permutation_p_value([1, 2, 3], [7, 8, 9]) == pytest.approx(2 / 20)
    assert permutation_p_value([7, 8, 9], [1, 2, 3]) == pytest.approx(2 / 20)
    assert permutation_p_value([5], [6]) == 1.0
    assert permutation_p_value([0.1, 0.2], [0.2, 0.1]) == 1.0
    assert permutation_p_value([0.0] * 20, [1.0] * 20) is None
    values = np.random.default_rng(1).normal(size=7)
    first, second = values[:3], values[3:]
    observed = abs(first.mean() - second.mean())
    extreme = [
        abs(values[list(c)].mean() - np.delete(values, list(c)).mean()) >= observed - 1e-12
        for c in itertools.combinations(range(7), 3)
    ]
    assert permutation_p_value(list(first), list(second)) == pytest.approx(np.mean(extreme))


REFERENCES = [f"the cat number {n} sat on the mat ." for n in range(30)]


def translated(seed, good):
    """Translations, every `good`-th of them right."""
    return [
        y if (n + seed) % good == 0 else "a dog ran off ." for n, y in enumerate(REFERENCES)
    ]


@pytest.fixture
def found(make_runs, finish, tmp_path):
    runs = make_runs(metrics=["bleu", "kl"], tables=[{"significance": True}])
    prefix = str(tmp_path / "test")
    for lang in ("en", "de"):
        (tmp_path / f"test.{lang}").write_text("".join(f"{y}\n" for y in REFERENCES))
    for name, good, bleu in (("cond", 3, 10.0), ("aevnmt", 2, 20.0)):
        for seed in (1, 2):
            run = runs.run(runs.plan.systems[name], seed=seed, point={})
            finish(run, bleu=bleu + seed, tests={"news": (prefix, {"bleu": bleu + seed})})
            lines = translated(seed, good)
            (run.folder / "tests" / "news.txt").write_text("".join(f"{y}\n" for y in lines))
    return runs, collected_results.collect(runs, provenance={})


def test_a_table_has_the_p_values_of_sacrebleu_for_each_seed(found):
    runs, results = found
    news, dev = results["tables"][0]["significance"]
    assert (news["baseline"], news["system"], news["test"]) == ("cond", "aevnmt", "news")
    assert news["difference"] == 10.0 and news["p_over_seeds"] == pytest.approx(2 / 6)
    for seed in (1, 2):
        counted = [
            (name, metrics.statistics(translated(seed, good), REFERENCES, name="bleu"))
            for name, good in (("cond", 3), ("aevnmt", 2))
        ]
        tested = significance.paired(counted, name="bleu", kind="bootstrap")
        assert news["p_per_seed"][str(seed)] == tested["systems"]["aevnmt"]["p_value"]
    assert (dev["test"], dev["p_per_seed"]) == ("dev", {})  # nothing is kept of dev
    page = result_pages.section({**results, "command": "c"})
    p = news["p_per_seed"]["1"]
    said = f"- news BLEU ↑: aevnmt against cond +10.0; p = 0.333, seed 1: {p:.3f}, seed 2: "
    assert said in page


def test_translations_that_are_gone_or_cut_short_have_no_p_value(found):
    runs, _ = found
    for seed, text in ((1, None), (2, "one line\n")):
        run = runs.run(runs.plan.systems["cond"], seed=seed, point={})
        path = run.folder / "tests" / "news.txt"
        path.unlink() if text is None else path.write_text(text)
    results = collected_results.collect(runs, provenance={})
    assert results["tables"][0]["significance"][0]["p_per_seed"] == {}


def test_a_table_without_the_key_has_none(make_runs):
    results = collected_results.collect(make_runs(), provenance={})
    assert "significance" not in results["tables"][0]
