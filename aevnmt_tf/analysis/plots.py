"""Images of what a model does."""

import numpy as np


def attention(weights, *, source, target):
    """Draw attention as an image: target pieces downwards, source pieces to the right.

    Args:
        weights: [Ty, Tx] attention, each row sums to 1.
        source: Tx pieces.
        target: Ty pieces.

    Returns:
        [height, width, 3] uint8.
    """
    # The figure is made without pyplot, which keeps every figure alive and needs a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    weights = np.asarray(weights)
    size = (1.5 + 0.3 * len(source), 1.5 + 0.3 * len(target))
    figure = Figure(figsize=size, dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(source)), [_label(piece) for piece in source], rotation=90)
    axes.set_yticks(range(len(target)), [_label(piece) for piece in target])
    axes.xaxis.tick_top()
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _label(piece):
    # A dollar sign starts a formula in matplotlib.
    return piece.replace("$", r"\$")
