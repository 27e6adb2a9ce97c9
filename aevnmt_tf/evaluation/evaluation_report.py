"""Reports of an evaluation: tables on stdout, and a file with scores per sentence."""

from collections.abc import Iterator, Sequence
from typing import Any

from aevnmt_tf.cli import tables
from aevnmt_tf.evaluation import latent_use, metrics
from aevnmt_tf.evaluation.evaluated_systems import System, SystemScoring
from aevnmt_tf.evaluation.evaluation_sets import ALL, EvaluationSet
from aevnmt_tf.evaluation.significance import LEVEL

TESTS = {"bootstrap": "paired bootstrap", "ar": "approximate randomisation"}
NOTES = {
    "mean": "as in translate",
    "sample": "one sample per sentence",
    "zero": "the mean of the standard prior",
    "other": "the mean z of another sentence",
}


def show(result: dict[str, Any]) -> None:
    """Print the result of evaluation_run.run."""
    _show_scores(result["systems"])
    if "significance" in result:
        _show_significance(result["significance"])
    if "latent" in result:
        _show_latent(result["latent"])


def _show_scores(results: Sequence[dict[str, Any]]) -> None:
    """Print a table with one row per set and system, and the signatures below it."""
    everything = results[0]["all"]["scores"]
    rows = []
    sets = list(results[0]["sets"])
    for set_name in [*sets, ALL] if len(sets) > 1 else sets:
        for result in results:
            found = result["all"] if set_name == ALL else result["sets"][set_name]
            scores = [f"{found['scores'][name]['score']:.2f}" for name in everything]
            rows.append([set_name, result["name"], str(found["lines"]), *scores])
    titles = [f">{metrics.TITLES[name]}" for name in everything]
    tables.show(["set", "system", ">lines", *titles], rows)
    _show_signatures(everything)


def _show_signatures(by_metric: dict[str, dict[str, Any]]) -> None:
    print()
    width = max(6, *(len(metrics.TITLES[name]) for name in by_metric))
    for name, found in by_metric.items():
        print(f"{metrics.TITLES[name]:<{width}}  {found['signature']}")


def _show_significance(tested: dict[str, Any]) -> None:
    """Print the paired tests, one row per set and system."""
    rows = []
    for set_name, by_metric in tested["sets"].items():
        first = next(iter(by_metric.values()))
        for number, system in enumerate(first["systems"]):
            cells = [_tested(found["systems"][system]) for found in by_metric.values()]
            label = f"{system} (baseline)" if number == 0 else system
            rows.append([set_name, label, *cells])
    titles = [f">{metrics.TITLES[name]}" for name in by_metric]
    title = f"{TESTS[tested['kind']]}: * differs from the baseline with p <= {LEVEL}"
    print()
    tables.show(["set", "system", *titles], rows, title=title)
    _show_signatures(by_metric)


def _tested(found: dict[str, Any]) -> str:
    """Return a cell: the score, its interval and its p-value."""
    cell = f"{found['score']:.2f}"
    if found["mean"] is not None:
        cell += f" ({found['mean']:.2f} ± {found['ci']:.2f})"
    if found["p_value"] is not None:
        star = "*" if found["p_value"] <= LEVEL else " "
        cell += f" p = {found['p_value']:.4f}{star}"
    return cell


def _show_latent(found: dict[str, Any]) -> None:
    """Print the result of latent_use.diagnose, with the verdict last."""
    units = sorted(found["kl_by_dimension"], reverse=True)
    shown = " ".join(f"{value:.3f}" for value in units[:8]) + " ..." * (len(units) > 8)
    names = ("iw_log_pxy", "iw_log_py", "iw_log_px")
    bound = next(found[name] for name in names if name in found)
    lines = {
        "sentences": f"{found['lines']}, {found['samples']} draws of z each",
        "KL": f"{found['kl']:.3f} nats per sentence",
        "by dimension": shown,
        "active units": f"{found['active_units']} of {found['z_dim']}",
        "information": f"{found['mutual_information']:.3f} nats between sentence and z (upper "
        f"limit for this many sentences: {found['mutual_information_limit']:.3f}); "
        f"KL(q(z) || p(z)) {found['marginal_kl']:.3f}",
        "bounds": f"ELBO {found['elbo']:.3f}, importance-weighted {bound:.3f}, gap "
        f"{found['iw_gap']:.3f}, effective sample size {found['effective_samples']:.1f}",
    }
    print()
    for name, text in lines.items():
        print(f"{name:<14}{text}")
    print()
    rows = []
    for kind in latent_use.KINDS:
        one = found["z"][kind]
        p = "" if one["p_value"] is None else f"{one['p_value']:.4f}"
        numbers = [one["bleu"], one["log_px"], one["log_py"]]
        cells = [*(f"{number:.2f}" for number in numbers), f"{100 * one['changed']:.1f} %", p]
        rows.append([kind, *cells, NOTES[kind]])
    headers = ["z", ">BLEU", ">log P(x|z)", ">log P(y|x, z)", ">changed", ">p (BLEU)", ""]
    tables.show(headers, rows)
    print(f"\n{found['sentence']}")


def sentence_table(
    systems: Sequence[System], sets: Sequence[EvaluationSet], *, scoring: SystemScoring
) -> Iterator[str]:
    """Yield the lines of a TSV file with the scores of every sentence by every system."""
    names, protocol = scoring.names, scoring.protocol
    yield "\t".join(["system", "set", "line", *names, "source", "reference", "translation"])
    for system in systems:
        for one in sets:
            lines = system.translations[one.name]
            external = system.sentences.get(one.name, {})
            columns = [
                external.get(name)
                or metrics.sentence_scores(lines, one.references, name=name, protocol=protocol)
                for name in names
            ]
            sources = one.sources or [""] * len(one)
            texts = zip(sources, one.references, lines, strict=True)
            rows = zip(texts, *columns, strict=True)
            for number, (text, *scores) in enumerate(rows, 1):
                cells = [system.name, one.name, str(number), *(f"{s:.4f}" for s in scores)]
                yield "\t".join([*cells, *(" ".join(t.split()) for t in text)])
