"""The pages of an experiment: table.md, table.tex, results.json and plots.

All but the plots are made from what results.json holds, and can be made from it again.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams
from aevnmt_tf.cli import tables
from aevnmt_tf.experiments.plan_runs import PlanRuns, cut_by
from aevnmt_tf.experiments.score_tables import METRICS, Labels, ScoreTable, shown
from aevnmt_tf.plots import training_curves
from aevnmt_tf.storage import atomic_writes, run_directory

RESULTS, MARKDOWN, LATEX, PLOTS = "results.json", "table.md", "table.tex", "plots"
NOTHING = "–"  # in a cell without a score
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


def write(results: Mapping[str, Any], runs: PlanRuns, *, out: Path) -> list[Path]:
    """Write everything into the folder `out`; return the files."""
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
    """Return the whole of table.md."""
    parts = [f"# {Path(results['plan']).stem}\n"]
    if results["note"]:
        parts.append(f"{results['note']}\n")
    parts += [section(results), _settings(results)]
    return "\n".join(part for part in parts if part)


def section(results: Mapping[str, Any]) -> str:
    """Return the tables in Markdown and what is to be known about them; for a README, too."""
    parts = []
    for values in results["tables"]:
        table = ScoreTable.from_dict(values)
        if table.caption:
            parts.append(f"{table.caption}\n")
        parts.append(markdown(table) if table.rows else "No score yet.\n")
        counts = sorted({len(cell.values) for cell in table.cells.values()}, reverse=True)
        if counts:
            parts.append(f"{'; '.join(map(_runs, counts))}.\n")
        if values.get("significance"):
            parts.append(_significance(values["significance"], table))
    cut = list(_cut(results))
    if cut:
        parts.append(f"Cut short by a budget: {'; '.join(cut)}.\n")
    if results["missing"]:
        parts.append(f"Not done: {', '.join(results['missing'])}.\n")
    if results["signatures"]:
        signed = results["signatures"].items()
        lines = [f"- {METRICS[name][0]}: `{text}`\n" for name, text in signed]
        parts.append("".join(lines))
    parts.append(_made_by(results))
    return "\n".join(parts)


def _runs(count: int) -> str:
    if count == 1:
        return "a single run: its value"
    return f"{count} runs: mean ({'range' if count == 2 else '1 std'})"


def _significance(tests: Sequence[Mapping[str, Any]], table: ScoreTable) -> str:
    """Return the p-values under a table: one line for two systems."""
    lines = [
        "p-values over seeds (exact permutation test), and per seed (paired bootstrap over "
        "sentences):\n\n"
    ]
    assert table.compare is not None
    for test in tests:
        names = [n for n in (*table.row_names, *table.column_names) if n != table.compare]
        where = " ".join(shown(name, test[name]) for name in names)
        over = test["p_over_seeds"]
        found = [f"p = {over:.3f}" if over is not None else "too many runs for a test"]
        found += [f"seed {seed}: {p:.3f}" for seed, p in test["p_per_seed"].items()]
        difference = f"{test['difference']:+.{table.decimals}f}"
        pair = f"{test[table.compare]} against {test['baseline']}"
        lines.append(f"- {where}: {pair} {difference}; {', '.join(found)}\n")
    return "".join(lines)


def _cut(results: Mapping[str, Any]) -> Iterator[str]:
    """Return the runs that did not come to their own end."""
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
    """Return what the systems have in common, and what each has of its own."""
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
    """Return the whole of table.tex: the tables, one after the other."""
    head = f"% {results['plan']}; needs \\usepackage{{booktabs}}\n"
    found = map(ScoreTable.from_dict, results["tables"])
    return head + "\n".join(latex(table) for table in found if table.rows)


def markdown(table: ScoreTable) -> str:
    """Return a table in GitHub's Markdown, without the caption."""
    heads = [" ".join(map(shown, table.column_names, column)) for column in table.columns]
    rows = []
    for row in table.rows:
        places = [(row, column) for column in table.columns]
        texts = [table.text(place) or NOTHING for place in places]
        bold = ["**" if place in table.best else "" for place in places]
        cells = [f"{mark}{text}{mark}" for mark, text in zip(bold, texts, strict=True)]
        rows.append([*map(shown, table.row_names, row), *cells])
    return tables.markdown([*table.row_names, *(f">{head}" for head in heads)], rows)


def latex(table: ScoreTable) -> str:
    """Return a table in the form of the paper's, with its caption and label."""
    width = len(table.row_names)
    lines = [r"\begin{table}[t]", r"    \centering"]
    lines.append(f"    \\begin{{tabular}}{{{'l' * width}{'c' * len(table.columns)}}}")
    lines.append(r"    \toprule")
    lines += [f"    {line}" for line in _latex_head(table)]
    before: Labels = ()
    for row in table.rows:
        same = len(os.path.commonprefix([before, row]))  # first labels that they share
        if not before or (width > 1 and same == 0):
            lines.append(r"    \midrule")
        names = list(map(escape, map(shown, table.row_names, row)))
        cells = [_latex_cell(table, row, column) for column in table.columns]
        lines.append(f"    {' & '.join([*[''] * same, *names[same:], *cells])} \\\\")
        before = row
    lines += [r"    \bottomrule", r"    \end{tabular}"]
    if table.caption:
        lines.append(f"    \\caption{{{escape(table.caption)}}}")
    if table.label:
        lines.append(f"    \\label{{{table.label}}}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex_head(table: ScoreTable) -> Iterator[str]:
    """Return one line for each level of column labels, rules under all but the last."""
    width, depth = len(table.row_names), len(table.column_names)
    for level, name in enumerate(table.column_names):
        spans: dict[Labels, int] = {}
        for column in table.columns:  # those with equal first labels stand together
            spans[column[: level + 1]] = spans.get(column[: level + 1], 0) + 1
        texts = [escape(shown(name, labels[-1])) for labels in spans]
        if level == depth - 1:
            yield f"{' & '.join([*map(escape, table.row_names), *texts])} \\\\"
            return
        sizes = list(spans.values())
        heads = [
            f"\\multicolumn{{{size}}}{{c}}{{{text}}}"
            for size, text in zip(sizes, texts, strict=True)
        ]
        yield f"{' & '.join([*[''] * width, *heads]).lstrip()} \\\\"
        first, rules = width + 1, []
        for size in sizes:
            rules.append(f"\\cmidrule(lr){{{first}-{first + size - 1}}}")
            first += size
        yield " ".join(rules)


def _latex_cell(table: ScoreTable, row: Labels, column: Labels) -> str:
    cell = table.cells.get((row, column))
    if cell is None:
        return "--"
    text = escape(f"{cell.mean:.{table.decimals}f}")
    spread = cell.spread(decimals=table.decimals)
    if spread:
        text = f"{text}~({escape(spread)})"
    if (row, column) in table.best:
        text = f"\\textbf{{{text}}}"
    rivals = [other for (_, place), other in table.cells.items() if place == column]
    if not spread and any(len(other.values) > 2 for other in rivals):
        # As wide as its neighbours, so that the numbers stand in line.
        text += f"\\phantom{{~({0:.{table.decimals}f})}}"
    return text


def escape(text: str) -> str:
    """Return the text as LaTeX prints it; a hyphen in front of a number is a minus."""
    text = re.sub(r"(?<!\S)-(?=\d)", "−", text)
    return "".join(_SPECIAL.get(character, character) for character in text)
