"""Figures in one style: how they are made, labelled, turned into pixels and written."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aevnmt_tf.cli.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 110
MOST_PIXELS = 4000  # of a side: a picture of hundreds of words has smaller ones
BLUE, GREY = "#1f4e79", "#8c8c8c"  # of what is shown, of what it is compared with
_STYLE: Any = {
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
}


@contextlib.contextmanager
def new(width: float, height: float) -> Iterator["Figure"]:
    """Give an empty figure of so many inches; what is drawn inside the block has the style."""
    # Without pyplot, which keeps every figure alive and needs a display.
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        dpi = min(DPI, MOST_PIXELS / max(width, height))
        figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def words(text: str) -> str:
    """Return text as matplotlib shows it letter by letter."""
    # A dollar sign starts a formula, an underscore hides a legend's entry.
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def pixels(figure: "Figure") -> np.ndarray:
    """Return the figure as an image [height, width, 3] uint8."""
    canvas: Any = figure.canvas  # of `new`: one that has pixels
    with _missing_glyphs():
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def save(figure: "Figure", path: str | Path, *, kind: str | None = None) -> None:
    """Write the figure as a file of a kind, such as png; None: what the path ends in."""
    try:
        with _missing_glyphs():
            figure.savefig(path, format=kind)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot write {path}: {reason}.") from None


@contextlib.contextmanager
def _missing_glyphs() -> Iterator[None]:
    """Say nothing where the font lacks a script; a box stands for what it lacks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield
