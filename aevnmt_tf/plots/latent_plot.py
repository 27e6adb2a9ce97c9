"""A plot of the use of the latent variable."""

from typing import TYPE_CHECKING, Any

import numpy as np

from aevnmt_tf.plots import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(found: dict[str, Any]) -> "Figure":
    """Draw the KL per dimension and BLEU per kind of z, from latent_use.diagnose."""
    with figures.new(10, 4) as figure:
        left, right = figure.subplots(1, 2)
        kl = np.sort(found["kl_by_dimension"])[::-1]
        left.bar(np.arange(1, len(kl) + 1), kl, width=1.0, color=figures.BLUE)
        left.set_xlabel("dimensions of z, sorted")
        left.set_ylabel("KL (nats)")
        left.set_title(
            f"KL {found['kl']:.2f}, information {found['mutual_information']:.2f} nats, "
            f"{found['active_units']} of {found['z_dim']} active"
        )
        kinds = list(found["z"])
        colours = [figures.BLUE if kind == "mean" else figures.GREY for kind in kinds]
        bars = right.bar(kinds, [found["z"][kind]["bleu"] for kind in kinds], color=colours)
        right.bar_label(bars, fmt="%.1f", fontsize=8)
        right.margins(y=0.1)  # room for the numbers
        right.set_xlabel("z")
        right.set_ylabel("BLEU")
        right.set_title(f"verdict: {found['verdict']}")
    return figure
