"""Is the difference between two systems of a table more than chance?

Two questions have two tests. Would another seed turn the result around? An exact permutation
test over the runs of both systems answers that. Would other test sentences? sacreBLEU's paired
bootstrap answers that, for two runs of the same seed.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import evaluation_sets, metrics, significance
from aevnmt_tf.experiments import jobs
from aevnmt_tf.experiments.plan_runs import PlanRuns
from aevnmt_tf.experiments.score_tables import Place, ScoreTable

MOST_SPLITS = 10**6  # of two systems with ten runs each there are 184,756


def permutation_p_value(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the two-sided p-value of a difference of means under all ways to deal the runs.

    It is the share of the splits of all values, into groups as large as these, whose means
    differ at least as much. None where there are too many splits to look at each.
    """
    values = np.asarray([*first, *second], np.float64)
    if math.comb(len(values), len(first)) > MOST_SPLITS:
        return None
    splits = itertools.combinations(range(len(values)), len(first))
    chosen = np.asarray(list(splits))  # [S, len(first)]
    sums = values[chosen].sum(axis=1)  # [S]
    differences = np.abs(sums / len(first) - (values.sum() - sums) / len(second))
    observed = abs(np.mean(first) - np.mean(second))
    # Equal sums may differ in the last bit, by the order of their terms.
    return float(np.mean(differences >= observed - 1e-9 * max(1.0, observed)))


def compare(
    table: ScoreTable, runs: PlanRuns, found: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the tests of each cell against the first of its rivals, as JSON holds them.

    Args:
        table: the table; its cells know their systems and seeds.
        runs: the runs of the plan.
        found: the systems of results.json, whose runs have translated the test sets.
    """
    return [
        _pair(table, rivals[0], other, runs, found)
        for rivals in table.rivals()
        for other in rivals[1:]
    ]


def _pair(
    table: ScoreTable, first: Place, second: Place, runs: PlanRuns, found: Mapping[str, Any]
) -> dict[str, Any]:
    assert table.compare is not None
    baseline, cell = table.cells[first], table.cells[second]
    return {
        "baseline": table.labels(first)[table.compare],
        **table.labels(second),
        "difference": cell.mean - baseline.mean,
        "p_over_seeds": permutation_p_value(baseline.values, cell.values),
        "p_per_seed": {
            str(seed): p_value
            for seed in baseline.seeds
            if seed is not None
            and seed in cell.seeds
            and (p_value := _bootstrap(table, (first, second), seed, runs, found)) is not None
        },
    }


def _bootstrap(
    table: ScoreTable,
    places: tuple[Place, Place],
    seed: int,
    runs: PlanRuns,
    found: Mapping[str, Any],
) -> float | None:
    """Return the p-value of two runs of a seed; None without translations of one test set."""
    cells = [table.cells[place] for place in places]
    metric, test = cells[0].metric, cells[0].test
    if metric not in metrics.NAMES or test != cells[1].test:
        return None
    counted = []
    for cell in cells:
        run = runs.final_run(runs.plan.systems[cell.system], seed=seed)
        prefix = jobs.test_prefixes(runs.plan, run).get(test)
        path = run.folder / jobs.TESTS / f"{test}.txt"
        if prefix is None or not path.is_file():
            return None
        try:
            wanted = evaluation_sets.Subwords(run.hp, str(run.folder)).undone(
                evaluation_sets.from_prefix(prefix, src=run.hp.src, tgt=run.hp.tgt)
            )
            lines = evaluation_sets.read_lines(path)
        except UserError:
            return None  # the test set is gone
        if len(lines) != len(wanted):
            return None
        counted.append((cell.system, metrics.statistics(lines, wanted.references, name=metric)))
    tested = significance.paired(counted, name=metric, kind="bootstrap")
    return tested["systems"][cells[1].system]["p_value"]
