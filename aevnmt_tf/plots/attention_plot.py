"""Pictures of attention: which source pieces the decoder looks at for each target piece."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from aevnmt_tf.plots import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PIECE = 0.3  # inches


def draw(weights: np.ndarray, *, source: Sequence[str], target: Sequence[str]) -> "Figure":
    """Draw attention: target pieces downwards, source pieces to the right.

    Args:
        weights: [Ty, Tx] attention, each row sums to 1.
        source: Tx pieces.
        target: Ty pieces.
    """
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
    """Return the picture of `draw` as an image [height, width, 3] uint8."""
    return figures.pixels(draw(weights, source=source, target=target))
