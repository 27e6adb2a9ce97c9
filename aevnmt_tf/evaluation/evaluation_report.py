"""Results of an evaluation for people: tables, and a file with every sentence."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from aevnmt_tf.cli import tables
from aevnmt_tf.evaluation import latent_use, metrics
from aevnmt_tf.evaluation.evaluation_sets import ALL, EvaluationSet
from aevnmt_tf.evaluation.significance import LEVEL
from aevnmt_tf.evaluation.translated_sets import System, SystemScoring

NOTES = {
    "mean": "the z of translate",
    "sample": "a draw for each sentence",
    "zero": "the prior's mean",
    "other": "the mean z of another sentence",
}


def show_scores(
    results: Sequence[dict[str, Any]], *, names: Sequence[str], file: TextIO | None = None
) -> None:
    """Print the scores of systems: one row per set and system, and the signatures below."""
    file = file or sys.stdout
    titles = [metrics.TITLES[name] for name in names]
    rows = []
    sets = list(results[0]["sets"])
    for set_name in [*sets, ALL] if len(sets) > 1 else sets:
        for result in results:
            found = result["all"] if set_name == ALL else result["sets"][set_name]
            scores = [f"{found['scores'][name]['score']:.2f}" for name in names]
            rows.append([set_name, result["name"], str(found["lines"]), *scores])
    tables.show(
        ["set", "system", ">lines", *(f">{title}" for title in titles)], rows, file=file
    )
    scores = results[0]["all"]["scores"]
    _show_signatures({name: scores[name]["signature"] for name in names}, file=file)


def _show_signatures(signatures: dict[str, str], *, file: TextIO) -> None:
    print(file=file)
    width = max(6, *(len(metrics.TITLES[name]) for name in signatures))
    for name, signature in signatures.items():
        print(f"{metrics.TITLES[name]:<{width}}  {signature}", file=file)


def show_significance(tested: dict[str, Any], *, file: TextIO | None = None) -> None:
    """Print the paired tests: one row per set and system.

    Args:
        tested: {"kind", "sets": {SET: {METRIC: what significance.paired returns}}}.
        file: where to; None: stdout.
    """
    file = file or sys.stdout
    kind = {"bootstrap": "paired bootstrap", "ar": "approximate randomisation"}[tested["kind"]]
    rows = []
    for set_name, by_metric in tested["sets"].items():
        first = next(iter(by_metric.values()))
        for number, system in enumerate(first["systems"]):
            cells = [_tested(found["systems"][system]) for found in by_metric.values()]
            label = f"{system} (baseline)" if number == 0 else system
            rows.append([set_name, label, *cells])
    titles = [f">{metrics.TITLES[name]}" for name in by_metric]
    print(file=file)
    tables.show(
        ["set", "system", *titles],
        rows,
        file=file,
        title=f"{kind}: * differs from the baseline with p <= {LEVEL}",
    )
    signatures = {name: found["signature"] for name, found in by_metric.items()}
    _show_signatures(signatures, file=file)


def _tested(found: dict[str, Any]) -> str:
    """Return a score with its interval and p-value, as one cell."""
    cell = f"{found['score']:.2f}"
    if found["mean"] is not None:
        cell += f" ({found['mean']:.2f} ± {found['ci']:.2f})"
    if found["p_value"] is not None:
        star = "*" if found["p_value"] <= LEVEL else " "
        cell += f" p = {found['p_value']:.4f}{star}"
    return cell


def show_latent(found: dict[str, Any], *, file: TextIO | None = None) -> None:
    """Print what latent_use.diagnose found, the verdict last."""
    file = file or sys.stdout
    units = sorted(found["kl_by_dimension"], reverse=True)
    shown = " ".join(f"{value:.3f}" for value in units[:8])
    more = " ..." if len(units) > 8 else ""
    limit = found["mutual_information_limit"]
    names = ("iw_log_pxy", "iw_log_py", "iw_log_px")
    bound = next((found[name] for name in names if name in found), None)
    lines = [
        ("sentences", f"{found['lines']}, {found['samples']} draws of z each"),
        ("KL", f"{found['kl']:.3f} nats per sentence"),
        ("by dimension", f"{shown}{more}"),
        ("active units", f"{found['active_units']} of {found['z_dim']}"),
        (
            "information",
            f"{found['mutual_information']:.3f} nats between sentence and z (at most "
            f"{limit:.3f} with so many sentences); KL(q(z) || p(z)) {found['marginal_kl']:.3f}",
        ),
        (
            "bounds",
            f"ELBO {found['elbo']:.3f}, importance-weighted {bound:.3f}, gap "
            f"{found['iw_gap']:.3f}, effective draws {found['effective_samples']:.1f}",
        ),
    ]
    print(file=file)
    for name, text in lines:
        print(f"{name:<14}{text}", file=file)
    print(file=file)
    rows = []
    for kind in latent_use.KINDS:
        one = found["z"][kind]
        p = "" if one["p_value"] is None else f"{one['p_value']:.4f}"
        numbers = [one["bleu"], one["log_px"], one["log_py"]]
        cells = [*(f"{number:.2f}" for number in numbers), f"{100 * one['changed']:.1f} %", p]
        rows.append([kind, *cells, NOTES[kind]])
    headers = ["z", ">BLEU", ">log P(x|z)", ">log P(y|x, z)", ">changed", ">p (BLEU)", ""]
    tables.show(headers, rows, file=file)
    print(f"\n{found['sentence']}", file=file)


def sentence_table(
    systems: Sequence[System], sets: Sequence[EvaluationSet], *, scoring: SystemScoring
) -> Iterator[str]:
    """Yield the lines of a TSV file: every sentence with its scores by every system.

    Args:
        systems: what has been scored.
        sets: on these.
        scoring: by these metrics.
    """
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
