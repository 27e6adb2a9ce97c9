"""A picture of what the latent variable does."""

import numpy as np

from aevnmt_tf.analysis import latent


def draw(found):
    """Draw the KL of each dimension, sorted, beside BLEU with each kind of z.

    Args:
        found: what latent.diagnose returns.

    Returns:
        [height, width, 3] uint8, for plots.save.
    """
    # Without pyplot, which keeps every figure alive and needs a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    kl = np.sort(found["kl_by_dimension"])[::-1]
    left.bar(np.arange(1, len(kl) + 1), kl, width=1.0)
    left.set_xlabel("dimensions of z, sorted")
    left.set_ylabel("KL in nats")
    left.set_title(
        f"KL {found['kl']:.2f}, information {found['mutual_information']:.2f} nats, "
        f"{found['active_units']} of {found['z_dim']} active"
    )
    scores = [found["z"][kind]["bleu"] for kind in latent.KINDS]
    bars = right.bar(latent.KINDS, scores, color=["C0", "C1", "C2", "C3"])
    right.bar_label(bars, fmt="%.1f")
    right.margins(y=0.1)  # room for the numbers
    right.set_xlabel("z")
    right.set_ylabel("BLEU")
    right.set_title(f"verdict: {found['verdict']}")
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()
