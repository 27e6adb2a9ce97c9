#!/usr/bin/env python3
"""Draws the picture of README.md: the graphical model, and dev BLEU over training on Multi30k.

    python tools/overview_figure.py             writes docs/_static/overview-{light,dark}.svg

The curves are read from results/runs/multi30k: the mean over seeds, with a band from the
lowest to the highest where there are several.
"""

import json
import pathlib
import sys

import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

ROOT = pathlib.Path(__file__).resolve().parents[1]
RUNS = ROOT / "results" / "runs" / "multi30k"
SYSTEMS = {"cond": "COND", "aevnmt": "AEVNMT"}
INK = {"light": "#1f2328", "dark": "#e6edf3"}
COLOURS = {
    "light": {"cond": "#8c959f", "aevnmt": "#0969da"},
    "dark": {"cond": "#8b949e", "aevnmt": "#58a6ff"},
}


def curves(system: str) -> tuple[np.ndarray, np.ndarray]:
    """Return updates [T] and dev BLEU by seed [S, T] of a system's runs."""
    found = []
    for path in sorted(RUNS.glob(f"{system}/seed*/metrics.jsonl")):
        reports = [json.loads(line) for line in path.read_text().splitlines()]
        found.append({r["step"]: r["dev_bleu"] for r in reports if "dev_bleu" in r})
    steps = sorted(set.intersection(*(set(one) for one in found)))
    return np.array(steps), np.array([[one[step] for step in steps] for one in found])


def draw_model(axes, ink: str) -> None:
    """Draw z -> x, z -> y and x -> y in a plate over sentence pairs."""
    places = {"z": (1.5, 2.3), "x": (0.7, 0.8), "y": (2.3, 0.8)}
    for name, place in places.items():
        fill = (*_rgb(ink), 0.15) if name != "z" else "none"
        axes.add_patch(Circle(place, 0.36, edgecolor=ink, facecolor=fill, linewidth=1.6))
        axes.text(*place, f"${name}$", ha="center", va="center", color=ink, fontsize=17)
    for start, end in (("z", "x"), ("z", "y"), ("x", "y")):
        axes.add_patch(_arrow(places[start], places[end], ink, style="-"))
    axes.add_patch(_arrow(places["x"], places["z"], ink, style="--", bend=-0.45))
    axes.text(0.0, 1.75, r"$q(z|x)$", color=ink, fontsize=12, ha="center")
    axes.text(2.75, 1.75, r"$P(y|x,z)$", color=ink, fontsize=12, ha="center")
    axes.text(1.5, 1.4, r"$P(x|z)$", color=ink, fontsize=12, ha="center")
    axes.add_patch(
        Rectangle((-0.55, 0.1), 4.0, 2.85, fill=False, edgecolor=ink, linewidth=1, alpha=0.5)
    )
    axes.text(3.35, 0.2, "sentence pairs", color=ink, fontsize=10, ha="right", alpha=0.8)
    axes.set_xlim(-0.7, 3.6)
    axes.set_ylim(0, 3.05)
    axes.set_aspect("equal")
    axes.axis("off")


def draw_curves(axes, theme: str) -> None:
    """Draw dev BLEU over updates for each system."""
    ink = INK[theme]
    for system, label in SYSTEMS.items():
        steps, bleu = curves(system)
        colour = COLOURS[theme][system]
        seeds = f" ({len(bleu)} seeds)" if len(bleu) > 1 else ""
        axes.plot(steps, bleu.mean(0), color=colour, linewidth=2.2, label=label + seeds)
        if len(bleu) > 1:
            axes.fill_between(steps, bleu.min(0), bleu.max(0), color=colour, alpha=0.25)
    axes.set_xlabel("updates", color=ink)
    axes.set_ylabel("dev BLEU", color=ink)
    axes.set_title("Multi30k, English to German", color=ink, fontsize=11)
    axes.tick_params(colors=ink)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, labelcolor=ink, loc="lower right")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(ink)


def make(theme: str) -> Figure:
    """Return the figure for a light or a dark page."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    FigureCanvasSVG(figure)
    figure.patch.set_alpha(0)
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.25])
    right.patch.set_alpha(0)
    draw_model(left, INK[theme])
    draw_curves(right, theme)
    return figure


def _arrow(start, end, ink: str, *, style: str, bend: float = 0.0) -> FancyArrowPatch:
    return FancyArrowPatch(
        start,
        end,
        arrowstyle="-|>",
        mutation_scale=15,
        shrinkA=27,
        shrinkB=27,
        color=ink,
        linestyle=style,
        linewidth=1.4,
        connectionstyle=f"arc3,rad={bend}",
    )


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def main() -> int:
    """Write both pictures; return the exit code."""
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "aevnmt"  # the same picture gives the same file
    for theme in INK:
        path = ROOT / "docs" / "_static" / f"overview-{theme}.svg"
        make(theme).savefig(path, metadata={"Date": None})
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
