"""Pictures of probes: how good each kind of features is, and predictions beside the truth."""

import warnings

import numpy as np

from aevnmt_tf.analysis import probe_table
from aevnmt_tf.errors import UserError

COLOURS = {False: "#1f4e79", True: "#8c8c8c"}  # of z, of baselines


def draw(results, task, path):
    """Draw the main measure of each probe with its intervals, and numbers beside the truth.

    Args:
        results: of probing.Result.
        task: probing.Task.
        path: of the file; its ending says which kind, such as .png or .pdf.
    """
    figure = make(results, task)
    try:
        with warnings.catch_warnings():
            # The font does not have every script; a box stands for what it lacks.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure.savefig(path)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write the plot {path}: {error}") from None


def make(results, task):
    """The figure: one panel of intervals and, for numbers, one more for each probe."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = []
    if task.classes is None:
        panels = [result for result in results if result.posterior is not None]
    width, height = 6.0 + 3.2 * len(panels), max(3.4, 1.6 + 0.45 * len(results))
    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    ratios = [6.0] + [3.2] * len(panels)
    first, *others = figure.subplots(1, len(ratios), width_ratios=ratios, squeeze=False)[0]
    _intervals(first, results, task)
    for axes, result in zip(others, panels, strict=True):
        _predictions(axes, result, task)
    return figure


def _intervals(axes, results, task):
    """Means with two intervals: of posterior draws (thick) and for new sentences (thin)."""
    name, title = next(iter(probe_table.titles(task).items()))
    for place, result in enumerate(reversed(results)):
        measure, colour = result.measures[name], COLOURS[result.is_baseline]
        axes.hlines(place, measure.new_low, measure.new_high, colors=colour, linewidth=1)
        axes.hlines(place, measure.low, measure.high, colors=colour, linewidth=4)
        axes.plot(measure.mean, place, "o", color=colour)
        if result.posterior is not None:
            axes.plot(measure.averaged, place, "|", color=colour, markersize=14)
    axes.set_yticks(range(len(results)), [_words(result) for result in reversed(results)])
    axes.set_ylim(-0.6, len(results) - 0.4)
    axes.set_xlabel(
        f"{title} on {len(task.test)} held-out sentences\n"
        "dot: mean over draws, thick: 95 % of draws,\n"
        "thin: 95 % for new sentences, bar: averaged predictions",
        fontsize=8,
    )
    classes = "" if task.classes is None else f": {', '.join(task.classes)}"
    axes.set_title(_plain(f"{task.name}{classes}"))
    axes.grid(axis="x", alpha=0.3)


def _words(result):
    size = "" if result.dimensions is None else f" ({result.dimensions})"
    return _plain(f"{result.name}{size}")


def _predictions(axes, result, task):
    """Predicted numbers over true ones; the line is where both are equal."""
    means, low, high = result.predictions
    colour = COLOURS[result.is_baseline]
    axes.vlines(task.test, low, high, colors=colour, linewidth=0.5, alpha=0.15)
    axes.plot(task.test, means, ".", color=colour, markersize=3)
    ends = [np.min(task.test), np.max(task.test)]
    axes.plot(ends, ends, color="black", linewidth=0.8)
    r2 = result.measures["r2"].averaged
    axes.set_title(_plain(f"{result.name}, R^2 {r2:.2f}"), fontsize=9)
    axes.set_xlabel(_plain(task.name), fontsize=8)
    axes.set_ylabel("predicted", fontsize=8)


def _plain(text):
    # A dollar sign starts a formula in matplotlib.
    return text.replace("$", r"\$")
