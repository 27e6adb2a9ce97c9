"""A table in LaTeX, in the form of the paper's; it needs the package booktabs."""

import re
from collections.abc import Iterator

from aevnmt_tf.analysis.tables import Labels, Table, shown

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


def render(table: Table) -> str:
    """The table with its caption and label."""
    width = len(table.row_names)
    lines = [r"\begin{table}[t]", r"    \centering"]
    lines.append(f"    \\begin{{tabular}}{{{'l' * width}{'c' * len(table.columns)}}}")
    lines.append(r"    \toprule")
    lines += [f"    {line}" for line in _head(table)]
    before = None
    for row in table.rows:
        same = _shared(before, row)
        if before is None or (width > 1 and same == 0):
            lines.append(r"    \midrule")
        names = list(map(escape, map(shown, table.row_names, row)))
        cells = [_cell(table, row, column) for column in table.columns]
        lines.append(f"    {' & '.join([*[''] * same, *names[same:], *cells])} \\\\")
        before = row
    lines += [r"    \bottomrule", r"    \end{tabular}"]
    if table.caption:
        lines.append(f"    \\caption{{{escape(table.caption)}}}")
    if table.label:
        lines.append(f"    \\label{{{table.label}}}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _head(table: Table) -> Iterator[str]:
    """One line for each level of column labels, rules under all but the last."""
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


def _cell(table: Table, row: Labels, column: Labels) -> str:
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


def _shared(before: Labels | None, row: Labels) -> int:
    """How many of the first labels two rows share."""
    count = 0
    for a, b in zip(before or (), row, strict=False):
        if a != b:
            break
        count += 1
    return count


def escape(text: str) -> str:
    """The text as LaTeX prints it; a hyphen in front of a number is a minus."""
    text = re.sub(r"(?<!\S)-(?=\d)", "−", text)
    return "".join(_SPECIAL.get(character, character) for character in text)
