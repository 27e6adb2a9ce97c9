"""Images of what a model does."""

import warnings

import numpy as np

MOST_PIXELS = 4000  # of a side: a picture of hundreds of words has smaller ones


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
    dpi = min(100.0, MOST_PIXELS / max(size))
    figure = Figure(figsize=size, dpi=dpi, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(source)), [_label(piece) for piece in source], rotation=90)
    axes.set_yticks(range(len(target)), [_label(piece) for piece in target])
    axes.xaxis.tick_top()
    with warnings.catch_warnings():
        # The font does not have every script; a box stands for what it lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def save(image, path):
    """Write an image [height, width, 3] as a PNG file."""
    from matplotlib import image as images

    images.imsave(path, image, format="png")


def _label(piece):
    # A dollar sign starts a formula in matplotlib.
    return piece.replace("$", r"\$")
