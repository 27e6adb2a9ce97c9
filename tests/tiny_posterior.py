"""Posteriors of probes that are written down."""

import numpy as np

from aevnmt_tf.probing import hmc_chains, linear_models


def made_up(weights, **options):
    """A posterior of given draws [M, P, K] whose features are used as they are."""
    size = np.shape(weights)[1] - 1
    design = linear_models.Design(np.zeros(size), np.ones(size))
    draws = hmc_chains.Draws(
        None, step_size=1.0, acceptance=0.8, leapfrogs=1.0, divergences=0, seconds=0.0
    )
    diagnostics = options.pop("diagnostics", hmc_chains.Diagnostics(1.0, 100.0))
    return linear_models.Posterior(
        design, np.array(weights, float)[:, None], diagnostics, draws, **options
    )
