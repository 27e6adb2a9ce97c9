"""The results of probes as a table: drawn on a terminal, plain lines elsewhere."""

import math

NOTHING = "-"

# The measure that a probe is judged by, first, and others, with their titles.
CLASS_TITLES = {"accuracy": "accuracy", "log_likelihood": "log-lik."}
NUMBER_TITLES = {"r2": "R^2", "rmse": "RMSE", "log_likelihood": "log-lik."}


def titles(task):
    """Titles of the measures of a task by name, the main one first."""
    return NUMBER_TITLES if task.classes is None else CLASS_TITLES


def cells(results, task):
    """The table's head and rows, as words."""
    main, *others = titles(task)
    head = ["features", "dim", titles(task)[main], "95 %", "new sentences", "averaged"]
    head += [titles(task)[name] for name in others] + ["R-hat", "ESS", "seconds"]
    rows = []
    for result in results:
        measure = result.measures[main]
        rows.append(
            [
                result.name,
                NOTHING if result.dimensions is None else str(result.dimensions),
                _number(measure.mean),
                NOTHING if result.posterior is None else _range(measure.low, measure.high),
                _range(measure.new_low, measure.new_high),
                NOTHING if result.posterior is None else _number(measure.averaged),
                *(_number(result.measures[name].averaged) for name in others),
                *_diagnostics(result),
            ]
        )
    return head, rows


def _number(value):
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"


def _range(low, high):
    return f"{_number(low)} to {_number(high)}"


def _diagnostics(result):
    if result.posterior is None:
        return [NOTHING] * 3
    r_hat, ess = result.posterior.diagnostics
    shown = f"{r_hat:.3f}" if math.isfinite(r_hat) else "inf"
    return [shown, f"{ess:.0f}", f"{result.posterior.draws.seconds:.1f}"]


def plain(results, task):
    """The table in lines of plain text."""
    head, rows = cells(results, task)
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        first, *others = zip(row, widths, strict=True)
        words = [first[0].ljust(first[1]), *(word.rjust(width) for word, width in others)]
        yield "  ".join(words).rstrip()


def rich_table(results, task):
    """The table for a terminal."""
    from rich.table import Table

    head, rows = cells(results, task)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for place, title in enumerate(head):
        table.add_column(title, justify="right" if place else "left", no_wrap=True)
    for result, row in zip(results, rows, strict=True):
        table.add_row(*row, style="dim" if result.is_baseline else None)
    return table
