"""Significance of the difference between two systems of a table.

An exact permutation test over the runs of both systems tells whether other seeds could reverse
the result. sacreBLEU's paired bootstrap, for two runs with the same seed, tells whether other
test sentences could.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import evaluation_sets, metrics, significance
from aevnmt_tf.experiments import score_tables
from aevnmt_tf.experiments.plan_runs import PlanRuns
from aevnmt_tf.experiments.planned_run import TESTS
from aevnmt_tf.experiments.score_tables import LabelledScore, Table

MOST_SPLITS = 10**6  # two systems with ten runs each have 184,756


def permutation_p_value(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the two-sided p-value of a difference of means in an exact permutation test.

    It is the proportion of splits of all values into groups of these sizes whose means differ
    at least as much. None if there are too many splits.
    """
    values = np.asarray([*first, *second], np.float64)
    if math.comb(len(values), len(first)) > MOST_SPLITS:
        return None
    splits = itertools.combinations(range(len(values)), len(first))
    chosen = np.asarray(list(splits))  # [S, len(first)]
    sums = values[chosen].sum(axis=1)  # [S]
    differences = np.abs(sums / len(first) - (values.sum() - sums) / len(second))
    observed = abs(np.mean(first) - np.mean(second))
    # Equal sums may differ in the last bit because of the order of their terms.
    return float(np.mean(differences >= observed - 1e-9 * max(1.0, observed)))


def compare(
    table: Table, scores: Sequence[LabelledScore], runs: PlanRuns
) -> list[dict[str, Any]]:
    """Compare each cell of a table with the first of its rivals, for results.json."""
    rows, columns = table["row_names"], table["column_names"]
    places = score_tables.by_place(scores, rows=rows, columns=columns)
    found = []
    for group in score_tables.rivals(table):
        first, *others = (places[tuple(one["row"]), tuple(one["column"])] for one in group)
        for other in others:
            labels = {name: other[0].labels[name] for name in (*rows, *columns)}
            baseline = first[0].labels[table["compare"]]
            found.append({"baseline": baseline, **labels, **_tests(first, other, runs)})
    return found


def _tests(
    first: Sequence[LabelledScore], second: Sequence[LabelledScore], runs: PlanRuns
) -> dict[str, Any]:
    """Return the difference of two cells and its p-values."""
    values = [[score.value for score in cell] for cell in (first, second)]
    seeds = {score.seed for score in second}
    per_seed = {
        str(score.seed): _bootstrap(first[0].labels, second[0].labels, score.seed, runs)
        for score in first
        if score.seed is not None and score.seed in seeds
    }
    return {
        "difference": statistics.fmean(values[1]) - statistics.fmean(values[0]),
        "p_over_seeds": permutation_p_value(*values),
        "p_per_seed": {seed: p for seed, p in per_seed.items() if p is not None},
    }


def _bootstrap(
    first: Mapping[str, str], second: Mapping[str, str], seed: int, runs: PlanRuns
) -> float | None:
    """Return the p-value of two runs with a seed; None without translations of one test set.

    `first` and `second` are the labels of their scores.
    """
    metric, test = first["metric"], first["test"]
    if metric not in metrics.NAMES or test != second["test"]:
        return None
    counted = []
    for name in (first["system"], second["system"]):
        run = runs.run(runs.plan.systems[name], seed=seed)
        prefix = runs.test_prefixes(run).get(test)
        path = run.folder / TESTS / f"{test}.txt"
        if prefix is None or not path.is_file():
            return None
        try:
            wanted = evaluation_sets.Subwords(run.hp, str(run.folder)).undone(
                evaluation_sets.from_prefix(prefix, src=run.hp.src, tgt=run.hp.tgt)
            )
            lines = evaluation_sets.read_lines(path)
        except UserError:
            return None  # the test set no longer exists
        if len(lines) != len(wanted):
            return None
        counted.append((name, metrics.statistics(lines, wanted.references, name=metric)))
    tested = significance.paired(counted, name=metric, kind="bootstrap")
    return tested["systems"][second["system"]]["p_value"]
