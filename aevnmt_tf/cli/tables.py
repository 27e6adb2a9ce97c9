"""Tables: rich's on a terminal, plain columns elsewhere, and Markdown."""

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TextIO


def show(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    file: TextIO | None = None,
    title: str | None = None,
    faint: Collection[int] = (),
) -> None:
    """Print a table.

    Args:
        headers: Headers of the columns; those of right-aligned columns start with ">".
        rows: Rows of cells.
        file: Where to print it; None: stdout.
        title: A line above the table.
        faint: Indices of rows that are dimmed on a terminal.
    """
    file = file or sys.stdout
    if file.isatty():
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table(title=title, title_justify="left", header_style="bold")
        for header in headers:
            is_number = header.startswith(">")
            table.add_column(
                header.lstrip(">"), justify="right" if is_number else "left", no_wrap=True
            )
        for number, row in enumerate(rows):
            table.add_row(*map(escape, row), style="dim" if number in faint else None)
        Console(file=file).print(table)
        return
    if title:
        print(title, file=file)
    plain = [[header.lstrip(">") for header in headers], *rows]
    widths = [max(map(len, column)) for column in zip(*plain, strict=True)]
    for row in plain:
        cells = [
            cell.rjust(width) if header.startswith(">") else cell.ljust(width)
            for cell, width, header in zip(row, widths, headers, strict=True)
        ]
        print("  ".join(cells).rstrip(), file=file)


def markdown(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with a line break after each row; headers as in `show`."""
    marks = ["---:" if header.startswith(">") else "---" for header in headers]
    titles = [header.removeprefix(">") for header in headers]
    # A bar would end the cell, and a line break the row.
    lines = (
        " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row)
        for row in (titles, marks, *rows)
    )
    return "".join(f"| {line} |\n" for line in lines)
