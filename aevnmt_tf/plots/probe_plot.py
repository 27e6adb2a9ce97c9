"""Plots of probes: scores per kind of features, and predicted against true numbers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from aevnmt_tf.plots import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Of the room probing, which imports this one: comparison.ProbeResult, probe_task.ProbeTask.
ProbeResult: TypeAlias = Any
ProbeTask: TypeAlias = Any

COLOURS = {False: figures.BLUE, True: figures.GREY}  # is_baseline


def draw(results: Sequence[ProbeResult], task: ProbeTask) -> "Figure":
    """Draw the main measure of each probe, and predicted against true numbers."""
    panels = []
    if task.classes is None:
        panels = [result for result in results if result.posterior is not None]
    width, height = 6.0 + 3.2 * len(panels), max(3.4, 1.6 + 0.45 * len(results))
    with figures.new(width, height) as figure:
        ratios = [6.0] + [3.2] * len(panels)
        first, *others = figure.subplots(1, len(ratios), width_ratios=ratios, squeeze=False)[0]
        _intervals(first, results, task)
        for axes, result in zip(others, panels, strict=True):
            _predictions(axes, result, task)
    return figure


def _intervals(axes: "Axes", results: Sequence[ProbeResult], task: ProbeTask) -> None:
    """Draw means with intervals over posterior draws (thick) and for new sentences (thin)."""
    name, title = next(iter(task.titles.items()))
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
    )
    classes = "" if task.classes is None else f": {', '.join(task.classes)}"
    axes.set_title(figures.words(f"{task.name}{classes}"))
    axes.grid(axis="x")


def _words(result: ProbeResult) -> str:
    size = "" if result.dimensions is None else f" ({result.dimensions})"
    return figures.words(f"{result.name}{size}")


def _predictions(axes: "Axes", result: ProbeResult, task: ProbeTask) -> None:
    """Draw predicted against true numbers, with the diagonal."""
    means, low, high = result.predictions
    colour = COLOURS[result.is_baseline]
    axes.vlines(task.test, low, high, colors=colour, linewidth=0.5, alpha=0.15)
    axes.plot(task.test, means, ".", color=colour, markersize=3)
    ends = [np.min(task.test), np.max(task.test)]
    axes.plot(ends, ends, color="black", linewidth=0.8)
    r2 = result.measures["r2"].averaged
    axes.set_title(figures.words(f"{result.name}, R^2 {r2:.2f}"))
    axes.set_xlabel(figures.words(task.name))
    axes.set_ylabel("predicted")
