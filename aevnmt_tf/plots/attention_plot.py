"""Plots of attention: the weight of each source piece for each target piece."""

import itertools
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.plots import figures
from aevnmt_tf.storage import disk_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PIECE = 0.3  # inches


def draw(weights: np.ndarray, *, source: Sequence[str], target: Sequence[str]) -> "Figure":
    """Draw attention weights [Ty, Tx] with source pieces on the x-axis."""
    width, height = 3.0 + PIECE * len(source), 2.2 + PIECE * len(target)
    with figures.new(max(4.5, width), max(3.0, height)) as figure:
        axes = figure.add_subplot()
        image = axes.imshow(np.asarray(weights), cmap="Blues", vmin=0.0, vmax=1.0)
        axes.set_xticks(range(len(source)), map(figures.words, source), rotation=90)
        axes.set_yticks(range(len(target)), map(figures.words, target))
        axes.spines[:].set_visible(True)
        axes.set_xlabel("source")
        axes.set_ylabel("translation")
        axes.set_title("attention")
        figure.colorbar(image, ax=axes, label="weight", shrink=0.8, aspect=15)
    return figure


def attention(
    weights: np.ndarray, *, source: Sequence[str], target: Sequence[str]
) -> np.ndarray:
    """Return the plot of `draw` as an image [height, width, 3] uint8."""
    return figures.pixels(draw(weights, source=source, target=target))


class AlignmentFiles:
    """The PNG files of alignments; there are none if `path` is None.

    FILE.png is for a single line. Any other path is a folder for 000001.png and so on.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._is_file = path is not None and path.lower().endswith(".png")

    def allowed(self, lines: Iterable[str]) -> Iterable[str]:
        """Return the lines; a UserError if there are several for a single file."""
        if not self._is_file:
            return lines
        first = list(itertools.islice(lines, 2))
        if len(first) > 1:
            raise UserError(
                f"--attention {self._path} is a single file, but there are several lines: "
                "give a folder, such as alignments/."
            )
        return first

    def make_folder(self) -> None:
        """Create the folder, if the path is one."""
        if self._path is not None and not self._is_file:
            with disk_errors.explained(f"write {self._path}"):
                os.makedirs(self._path, exist_ok=True)

    def draw(
        self,
        number: int,
        weights: np.ndarray | None,
        *,
        source: Sequence[str] | None,
        target: Sequence[str] | None,
    ) -> None:
        """Draw the alignment of line `number`, unless its translation is empty."""
        if self._path is None or weights is None or not source or not target:
            return
        path = self._path if self._is_file else os.path.join(self._path, f"{number:06d}.png")
        figures.save(draw(weights, source=source, target=target), path, kind="png")
