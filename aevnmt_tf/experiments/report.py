"""The pages of an experiment: table.md, table.tex, results.json and plots.

All but the plots are made from what results.json holds, and can be made from it again.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams, hparams_files
from aevnmt_tf.analysis import curves, latex, tables
from aevnmt_tf.experiments.results import curve_files
from aevnmt_tf.experiments.runs import Runs, cut_by

RESULTS, MARKDOWN, LATEX, PLOTS = "results.json", "table.md", "table.tex", "plots"


def write(results: Mapping[str, Any], runs: Runs, *, out: Path) -> list[Path]:
    """Write everything into the folder `out`; return the files."""
    hparams_files.write(out / RESULTS, results)
    _write_text(out / MARKDOWN, page(results))
    _write_text(out / LATEX, latex_page(results))
    written = [out / RESULTS, out / MARKDOWN, out / LATEX]
    groups: dict[str, list] = {}
    for name in results["systems"]:
        files = curve_files(runs, runs.plan.systems[name])
        read = {legend: [curves.read(path)] for legend, path in files.items()}
        groups[name] = [run for found in read.values() for run in found]
        path = out / PLOTS / f"{name}.png"
        if curves.draw(read, path, title=name):
            written.append(path)
    path = out / PLOTS / "systems.png"
    if len(groups) > 1 and curves.draw(groups, path, title=Path(results["plan"]).stem):
        written.append(path)
    return written


def page(results: Mapping[str, Any]) -> str:
    """The whole of table.md."""
    parts = [f"# {Path(results['plan']).stem}\n"]
    if results["note"]:
        parts.append(f"{results['note']}\n")
    parts += [section(results), _settings(results)]
    return "\n".join(part for part in parts if part)


def section(results: Mapping[str, Any]) -> str:
    """The tables in Markdown and what is to be known about them; for a README, too."""
    parts = []
    for table in map(tables.Table.from_dict, results["tables"]):
        if table.caption:
            parts.append(f"{table.caption}\n")
        parts.append(table.to_markdown() if table.rows else "No score yet.\n")
        counts = sorted({len(cell.values) for cell in table.cells.values()}, reverse=True)
        if counts:
            parts.append(f"{'; '.join(map(_runs, counts))}.\n")
    cut = list(_cut(results))
    if cut:
        parts.append(f"Cut short by a budget: {'; '.join(cut)}.\n")
    if results["missing"]:
        parts.append(f"Not done: {', '.join(results['missing'])}.\n")
    if results["signatures"]:
        lines = [f"- {_title(n)}: `{text}`\n" for n, text in results["signatures"].items()]
        parts.append("".join(lines))
    parts.append(_made_by(results))
    return "\n".join(parts)


def _runs(count: int) -> str:
    if count == 1:
        return "a single run: its value"
    return f"{count} runs: mean ({'range' if count == 2 else '1 std'})"


def _cut(results: Mapping[str, Any]) -> Iterator[str]:
    """The runs that did not come to their own end."""
    for name, system in results["systems"].items():
        for run in system["runs"]:
            if cut_by(run) is not None:
                wanted = system["settings"]["num_train_steps"]
                yield f"{name}/seed{run['seed']} at step {run['step']} of {wanted}"


def _title(metric: str) -> str:
    return tables.METRICS[metric][0]


def _made_by(results: Mapping[str, Any]) -> str:
    count = results["trained_runs"]
    hours, minutes = divmod(round(results["wall_time_seconds"] / 60), 60)
    time = f"{hours} h {minutes} min" if hours else f"{minutes} min"
    versions = results["versions"]
    named = [f"{n} {versions[n]}" for n in ("aevnmt_tf", "tensorflow") if n in versions]
    sentence = f"Trained in {time} in all ({count} run{'s' * (count != 1)})"
    if results["machines"]:
        sentence += f", on {' and '.join(map(_machine, results['machines']))}"
    return f"{', '.join([sentence, *named])}:\n\n    {results['command']}\n"


def _machine(found: Mapping[str, Any]) -> str:
    cores = found["cores"]
    return f"{cores} core{'s' * (cores != 1)} of {found['processor']}"


def _settings(results: Mapping[str, Any]) -> str:
    """What the systems have in common, and what each has of its own."""
    known = {n: s["settings"] for n, s in results["systems"].items() if "settings" in s}
    if not known:
        return ""
    first = next(iter(known.values()))
    common = {k: v for k, v in first.items() if all(s.get(k) == v for s in known.values())}
    defaults = {name: setting.default for name, setting in hparams.SETTINGS.items()}
    lines = ["## Settings\n", "\n", "All systems, where they differ from the defaults: "]
    lines.append(_listed({k: v for k, v in common.items() if v != _plain(defaults.get(k))}))
    lines.append("\n\n")
    for name, settings in known.items():
        own = {k: v for k, v in settings.items() if k not in common and k != "note"}
        lines.append(f"- {name}: {_listed(own)}\n")
    return "".join(lines)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _listed(settings: Mapping[str, Any]) -> str:
    shown = [f"`{k}` {json.dumps(v, ensure_ascii=False)}" for k, v in settings.items()]
    return ", ".join(shown) or "none"


def latex_page(results: Mapping[str, Any]) -> str:
    """The whole of table.tex: the tables, one after the other."""
    head = f"% {results['plan']}; needs \\usepackage{{booktabs}}\n"
    found = map(tables.Table.from_dict, results["tables"])
    return head + "\n".join(latex.render(table) for table in found if table.rows)


def _write_text(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
