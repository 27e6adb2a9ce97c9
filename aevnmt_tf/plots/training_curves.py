"""Training curves: dev BLEU and KL over steps, from metrics.jsonl."""

import contextlib
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aevnmt_tf.plots import figures

# Keys in metrics.jsonl, and the labels of their axes.
PANELS = {"dev_bleu": "dev BLEU", "dev_kl": "KL on dev (nats)"}

Curve = list[tuple[int, float]]


def reports(path: str | Path) -> list[dict[str, Any]]:
    """Return the lines of a metrics.jsonl that have a step; incomplete lines are skipped."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = []
    for line in text.split("\n"):
        with contextlib.suppress(ValueError):
            values = json.loads(line)
            if isinstance(values, dict) and isinstance(values.get("step"), int):
                found.append(values)
    return found


def read(path: str | Path) -> dict[str, Curve]:
    """Return the curves of a metrics.jsonl by key; each is a list of (step, value)."""
    curves: dict[str, Curve] = {}
    for values in reports(path):
        for key in PANELS:
            value = values.get(key)
            if isinstance(value, int | float) and math.isfinite(value):
                curves.setdefault(key, []).append((values["step"], float(value)))
    # For a model without z, training writes a KL of zero.
    return {key: curve for key, curve in curves.items() if any(value for _, value in curve)}


def band(curves: Sequence[Curve]) -> list[tuple[int, float, float, float]]:
    """Return step, minimum, mean and maximum at the steps that all curves share."""
    by_step = [dict(curve) for curve in curves]
    steps = sorted(set.intersection(*map(set, by_step)))
    found = [(step, [curve[step] for curve in by_step]) for step in steps]
    return [(step, min(v), statistics.fmean(v), max(v)) for step, v in found]


def draw(
    runs: Mapping[str, Sequence[Mapping[str, Curve]]], path: str | Path, *, title: str = ""
) -> bool:
    """Draw the curves of runs as a PNG file; return whether there was anything to draw.

    Several runs with one name are drawn as their mean with a band from minimum to maximum, and
    a thin line per run.

    Args:
        runs: Curves of `read` of one or several runs, by their name in the legend.
        path: The file to write.
        title: Title of the figure.
    """
    keys = [
        key for key in PANELS if any(key in run for group in runs.values() for run in group)
    ]
    if not keys:
        return False
    with figures.new(5.5 * len(keys), 4.0) as figure:
        for place, key in enumerate(keys, 1):
            axes = figure.add_subplot(1, len(keys), place)
            for number, (name, group) in enumerate(runs.items()):
                curves = [run[key] for run in group if key in run]
                _draw_group(axes, curves, label=figures.words(name), color=f"C{number % 10}")
            axes.set_xlabel("step")
            axes.set_ylabel(PANELS[key])
            axes.grid(visible=True)
            if axes.get_legend_handles_labels()[0]:
                axes.legend()
        if title:
            figure.suptitle(figures.words(title))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figures.save(figure, path)
    return True


def _draw_group(axes: Any, curves: Sequence[Curve], *, label: str, color: str) -> None:
    shared = band(curves) if len(curves) > 1 else []
    if shared:
        steps, low, mean, high = zip(*shared, strict=True)
        axes.fill_between(steps, low, high, color=color, alpha=0.2, linewidth=0)
        axes.plot(steps, mean, color=color, marker=".", label=label)
    style: dict[str, Any] = {"linewidth": 0.6, "alpha": 0.5} if shared else {"marker": "."}
    for number, curve in enumerate(curves):
        named = number == 0 and not shared  # one legend entry
        axes.plot(
            *zip(*curve, strict=True), color=color, label=label if named else None, **style
        )
