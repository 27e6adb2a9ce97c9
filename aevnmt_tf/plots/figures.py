"""Figures in a common style: creation, labels, pixels and files."""

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
MOST_PIXELS = 4000  # per side; the DPI of large figures is reduced
BLUE, GREY = "#1f4e79", "#8c8c8c"  # for results and for baselines
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
    """Yield an empty figure with a size in inches; use its style inside the block."""
    # Not pyplot, which keeps every figure alive and needs a display.
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        dpi = min(DPI, MOST_PIXELS / max(width, height))
        figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def words(text: str) -> str:
    """Escape text for matplotlib."""
    # A dollar sign starts a formula; an initial underscore hides a legend entry.
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def pixels(figure: "Figure") -> np.ndarray:
    """Return the figure as an image [height, width, 3] uint8."""
    canvas: Any = figure.canvas  # created by `new`
    with _missing_glyphs():
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def save(figure: "Figure", path: str | Path, *, kind: str | None = None) -> None:
    """Write the figure to a file in a format such as png; None: by the file name."""
    try:
        with _missing_glyphs():
            figure.savefig(path, format=kind)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot write {path}: {reason}.") from None


@contextlib.contextmanager
def _missing_glyphs() -> Iterator[None]:
    """Suppress warnings about glyphs that the font lacks; they are drawn as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield
