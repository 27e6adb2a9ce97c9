"""How training went: dev BLEU and KL over steps, from metrics.jsonl."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

# What is drawn: the key in metrics.jsonl and what the axis is called.
PANELS = {"dev_bleu": "dev BLEU", "dev_kl": "KL on dev (nats)"}

Curve = list[tuple[int, float]]


def read(path) -> dict[str, Curve]:
    """The curves of a metrics.jsonl: (step, value) by key, only those that have points.

    A line that a kill has cut short is left out.
    """
    curves: dict[str, Curve] = {}
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return curves
    for line in text.split("\n"):
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if not isinstance(values, dict) or not isinstance(values.get("step"), int):
            continue
        for key in PANELS:
            value = values.get(key)
            if isinstance(value, int | float) and math.isfinite(value):
                curves.setdefault(key, []).append((values["step"], float(value)))
    # A model without z has no KL, and training writes zeros.
    return {key: curve for key, curve in curves.items() if any(value for _, value in curve)}


def draw(runs: Mapping[str, Sequence[Mapping[str, Curve]]], path, *, title: str = "") -> bool:
    """Draw the curves of runs as a PNG file; return whether there was anything to draw.

    Args:
        runs: by the name in the legend, the curves (as `read` gives them) of one run or of
            several with the same name, which have one colour.
        path: where to write.
        title: stands over the picture.
    """
    # The figure is made without pyplot, which keeps every figure alive and needs a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    keys = [
        key for key in PANELS if any(key in run for group in runs.values() for run in group)
    ]
    if not keys:
        return False
    figure = Figure(figsize=(5.5 * len(keys), 4.0), dpi=110, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    for place, key in enumerate(keys, 1):
        axes = figure.add_subplot(1, len(keys), place)
        for number, (name, group) in enumerate(runs.items()):
            label = _plain(name)
            for curve in (run[key] for run in group if key in run):
                steps, values = zip(*curve, strict=True)
                axes.plot(steps, values, color=f"C{number % 10}", marker=".", label=label)
                label = None  # one entry in the legend
        axes.set_xlabel("step")
        axes.set_ylabel(PANELS[key])
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
    if title:
        figure.suptitle(_plain(title))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    canvas.print_png(str(path))
    return True


def _plain(text: str) -> str:
    # A dollar sign starts a formula in matplotlib, an underscore hides a legend entry.
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
