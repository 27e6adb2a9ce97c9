"""The pages of an experiment: table.md, table.tex, results.json and plots.

table.md and table.tex contain only what results.json contains.
"""

import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams
from aevnmt_tf.cli import tables
from aevnmt_tf.experiments.plan_runs import PlanRuns
from aevnmt_tf.experiments.planned_run import cut_by
from aevnmt_tf.experiments.score_tables import METRICS, Labels, Table
from aevnmt_tf.plots import training_curves
from aevnmt_tf.storage import atomic_writes, run_directory

RESULTS, MARKDOWN, LATEX, PLOTS = "results.json", "table.md", "table.tex", "plots"
NOTHING = "–"  # a cell without a score
_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "–": "--",
    "−": "$-$",
}


def write(results: Mapping[str, Any], runs: PlanRuns) -> list[Path]:
    """Write all pages and plots; return the files."""
    out = runs.out
    written = [
        atomic_writes.write_json(out / RESULTS, results),
        atomic_writes.write(out / MARKDOWN, page(results)),
        atomic_writes.write(out / LATEX, latex_page(results)),
    ]
    groups: dict[str, list[dict[str, training_curves.Curve]]] = {}
    for name in results["systems"]:
        read = {
            f"seed {run.seed}": [training_curves.read(run.folder / run_directory.METRICS)]
            for run in runs.final_runs(runs.plan.systems[name])
        }
        groups[name] = [run for found in read.values() for run in found]
        path = out / PLOTS / f"{name}.png"
        if training_curves.draw(read, path, title=name):
            written.append(path)
    path = out / PLOTS / "systems.png"
    if len(groups) > 1 and training_curves.draw(groups, path, title=Path(results["plan"]).stem):
        written.append(path)
    return written


def page(results: Mapping[str, Any]) -> str:
    """Return table.md."""
    parts = [f"# {Path(results['plan']).stem}\n"]
    if results["note"]:
        parts.append(f"{results['note']}\n")
    parts += [section(results), _settings(results)]
    return "\n".join(part for part in parts if part)


def section(results: Mapping[str, Any]) -> str:
    """Return the tables in Markdown with notes on how they were made."""
    parts = []
    for table in results["tables"]:
        if table["caption"]:
            parts.append(f"{table['caption']}\n")
        parts.append(markdown(table) if table["rows"] else "No score yet.\n")
        counts = sorted({len(cell["values"]) for cell in table["cells"]}, reverse=True)
        if counts:
            parts.append(f"{'; '.join(map(_runs, counts))}.\n")
        if table.get("significance"):
            parts.append(_significance(table))
    cut = list(_cut(results))
    if cut:
        parts.append(f"Cut short by a budget: {'; '.join(cut)}.\n")
    if results["missing"]:
        parts.append(f"Not done: {', '.join(results['missing'])}.\n")
    if results["signatures"]:
        signed = results["signatures"].items()
        parts.append("".join(f"- {METRICS[name][0]}: `{text}`\n" for name, text in signed))
    parts.append(_made_by(results))
    return "\n".join(parts)


def _runs(count: int) -> str:
    if count == 1:
        return "a single run: its value"
    return f"{count} runs: mean ({'range' if count == 2 else '1 std'})"


def _significance(table: Table) -> str:
    """Return the list of p-values under a table: one line per pair of systems."""
    lines = [
        "p-values over seeds (exact permutation test), and per seed (paired bootstrap over "
        "sentences):\n\n"
    ]
    compare = table["compare"]
    names = [n for n in (*table["row_names"], *table["column_names"]) if n != compare]
    for test in table["significance"]:
        where = " ".join(_shown(name, test[name]) for name in names)
        over = test["p_over_seeds"]
        found = [f"p = {over:.3f}" if over is not None else "too many runs for a test"]
        found += [f"seed {seed}: {p:.3f}" for seed, p in test["p_per_seed"].items()]
        difference = f"{test['difference']:+.{table['decimals']}f}"
        pair = f"{test[compare]} against {test['baseline']}"
        lines.append(f"- {where}: {pair} {difference}; {', '.join(found)}\n")
    return "".join(lines)


def _cut(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the runs that a budget ended early."""
    for name, system in results["systems"].items():
        for run in system["runs"]:
            if cut_by(run) is not None:
                wanted = system["settings"]["num_train_steps"]
                yield f"{name}/seed{run['seed']} at step {run['step']} of {wanted}"


def _made_by(results: Mapping[str, Any]) -> str:
    count = results["trained_runs"]
    hours, minutes = divmod(round(results["wall_time_seconds"] / 60), 60)
    time = f"{hours} h {minutes} min" if hours else f"{minutes} min"
    versions = results["versions"]
    named = [f"{n} {versions[n]}" for n in ("aevnmt_tf", "tensorflow") if n in versions]
    sentence = f"Trained in {time} in all ({count} run{'s' * (count != 1)})"
    if results["machines"]:
        sentence += f", on {' and '.join(map(_machine, results['machines']))}"
    if results.get("finished"):
        named.append(results["finished"][:10])
    return f"{', '.join([sentence, *named])}:\n\n    {results['command']}\n"


def _machine(found: Mapping[str, Any]) -> str:
    cores = found["cores"]
    return f"{cores} core{'s' * (cores != 1)} of {found['processor']}"


def _settings(results: Mapping[str, Any]) -> str:
    """Return the settings that all systems share, and those of each system."""
    known = {n: s["settings"] for n, s in results["systems"].items() if "settings" in s}
    if not known:
        return ""
    first = next(iter(known.values()))
    common = {k: v for k, v in first.items() if all(s.get(k) == v for s in known.values())}
    usual = hparams.load().to_dict()
    lines = ["## Settings\n", "\n", "All systems, where they differ from the defaults: "]
    lines.append(_listed({k: v for k, v in common.items() if v != usual.get(k)}))
    lines.append("\n\n")
    for name, settings in known.items():
        own = {k: v for k, v in settings.items() if k not in common and k != "note"}
        lines.append(f"- {name}: {_listed(own)}\n")
    return "".join(lines)


def _listed(settings: Mapping[str, Any]) -> str:
    shown = [f"`{k}` {json.dumps(v, ensure_ascii=False)}" for k, v in settings.items()]
    return ", ".join(shown) or "none"


def latex_page(results: Mapping[str, Any]) -> str:
    """Return table.tex: all tables that have scores."""
    head = f"% {results['plan']}; needs \\usepackage{{booktabs}}\n"
    return head + "\n".join(latex(table) for table in results["tables"] if table["rows"])


def markdown(table: Table) -> str:
    """Return a table in GitHub's Markdown, without the caption."""
    names, cells = table["row_names"], _cells(table)
    heads = [" ".join(map(_shown, table["column_names"], c)) for c in table["columns"]]
    rows = []
    for row in table["rows"]:
        texts = []
        for column in table["columns"]:
            cell = cells.get((*row, *column))
            mean, spread = _mean_and_spread(cell, table["decimals"]) if cell else (NOTHING, "")
            text = f"{mean} ({spread})" if spread else mean
            texts.append(f"**{text}**" if cell and cell["best"] else text)
        rows.append([*map(_shown, names, row), *texts])
    return tables.markdown([*names, *(f">{head}" for head in heads)], rows)


def latex(table: Table) -> str:
    """Return a table in the style of the paper, with its caption and label."""
    width = len(table["row_names"])
    lines = [r"\begin{table}[t]", r"    \centering"]
    lines.append(f"    \\begin{{tabular}}{{{'l' * width}{'c' * len(table['columns'])}}}")
    lines.append(r"    \toprule")
    lines += [f"    {line}" for line in _latex_head(table)]
    before: list[str] = []
    cells = _cells(table)
    for row in table["rows"]:
        same = len(os.path.commonprefix([before, row]))  # leading labels that they share
        if not before or (width > 1 and same == 0):
            lines.append(r"    \midrule")
        names = list(map(escape, map(_shown, table["row_names"], row)))
        texts = [_latex_cell(table, cells.get((*row, *column))) for column in table["columns"]]
        lines.append(f"    {' & '.join([*[''] * same, *names[same:], *texts])} \\\\")
        before = row
    lines += [r"    \bottomrule", r"    \end{tabular}"]
    if table["caption"]:
        lines.append(f"    \\caption{{{escape(table['caption'])}}}")
    if table["label"]:
        lines.append(f"    \\label{{{table['label']}}}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex_head(table: Table) -> Iterator[str]:
    """Yield one line per level of column labels, with rules under all but the last."""
    width, depth = len(table["row_names"]), len(table["column_names"])
    for level, name in enumerate(table["column_names"]):
        # Columns with equal first labels are adjacent.
        spans = Counter(tuple(column[: level + 1]) for column in table["columns"])
        texts = [escape(_shown(name, labels[-1])) for labels in spans]
        if level == depth - 1:
            yield f"{' & '.join([*map(escape, table['row_names']), *texts])} \\\\"
            return
        heads = [
            f"\\multicolumn{{{size}}}{{c}}{{{text}}}"
            for size, text in zip(spans.values(), texts, strict=True)
        ]
        yield f"{' & '.join([*[''] * width, *heads]).lstrip()} \\\\"
        ends = list(itertools.accumulate(spans.values(), initial=width))
        rules = [f"\\cmidrule(lr){{{a + 1}-{b}}}" for a, b in itertools.pairwise(ends)]
        yield " ".join(rules)


def _latex_cell(table: Table, cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "--"
    mean, spread = map(escape, _mean_and_spread(cell, table["decimals"]))
    text = f"{mean}~({spread})" if spread else mean
    if cell["best"]:
        text = f"\\textbf{{{text}}}"
    column = [other for other in table["cells"] if other["column"] == cell["column"]]
    if not spread and any(len(other["values"]) > 2 for other in column):
        # As wide as its neighbours, so that the numbers are aligned.
        text += f"\\phantom{{~({0:.{table['decimals']}f})}}"
    return text


def escape(text: str) -> str:
    """Escape text for LaTeX; a hyphen in front of a number is a minus."""
    text = re.sub(r"(?<!\S)-(?=\d)", "−", text)
    return "".join(_SPECIAL.get(character, character) for character in text)


def _cells(table: Table) -> dict[Labels, dict[str, Any]]:
    return {(*cell["row"], *cell["column"]): cell for cell in table["cells"]}


def _mean_and_spread(cell: Mapping[str, Any], decimals: int) -> tuple[str, str]:
    """Return the mean, and the spread: none for one run, a range for two, else 1 std."""
    mean, low, high = (f"{cell[name]:.{decimals}f}" for name in ("mean", "min", "max"))
    if len(cell["values"]) == 1:
        return mean, ""
    if len(cell["values"]) == 2:
        return mean, f"{low}–{high}" if cell["min"] >= 0 else f"{low} to {high}"
    return mean, f"{cell['std']:.{decimals}f}"


def _shown(name: str, text: str) -> str:
    """Return a label as it is printed: metrics have a title and an arrow."""
    if name != "metric" or text not in METRICS:
        return text
    title, direction = METRICS[text]
    return title + {1: " ↑", -1: " ↓", 0: ""}[direction]
