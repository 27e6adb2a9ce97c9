"""Draws and their diagnostics."""

import numpy as np
import pytest

from aevnmt_tf.probing import hmc_chains


def test_draws_are_a_function_of_the_seed(monkeypatch):
    monkeypatch.setattr(hmc_chains, "SEGMENT", 10)

    def log_prob(u):
        return -0.5 * (u[:, 0] ** 2)

    def values(seed):
        seen = []
        options = hmc_chains.SamplerOptions(
            chains=2,
            num_warmup=10,
            num_draws=15,
            seed=seed,
            track=lambda segments: (seen.append(i) or i for i in segments),
        )
        draws = hmc_chains.sample(log_prob, [1], options=options)
        assert seen == [0, 1, 2]  # 25 steps
        return draws.values

    first = values(1)
    assert first.shape == (15, 2, 1)
    np.testing.assert_array_equal(first, values(1))
    assert (first != values(2)).any()


def test_diagnostics_of_made_up_draws():
    dice = np.random.default_rng(1)
    good = dice.normal(size=[1000, 4, 3])
    assert hmc_chains.diagnose(good).r_hat == pytest.approx(1.0, abs=0.01)
    assert hmc_chains.diagnose(good).ess > 2500
    stuck = good.copy()
    stuck[:, 0, 1] += 5.0  # one parameter of one chain is elsewhere
    assert hmc_chains.diagnose(stuck).r_hat > 3
    assert hmc_chains.diagnose(stuck).ess < 50
    drifting = good + np.linspace(0, 10, 1000)[:, None, None]  # all chains alike, but not there
    assert hmc_chains.diagnose(drifting).r_hat > 2
    still = np.broadcast_to(np.arange(4.0)[:, None], [100, 4, 1])
    assert hmc_chains.diagnose(still).r_hat == np.inf
    far = hmc_chains.diagnose(1e6 + good)  # not lost in rounding
    assert far.r_hat == pytest.approx(hmc_chains.diagnose(good).r_hat, abs=1e-3)


def test_effective_sample_size_of_correlated_draws():
    """x' = a x + noise has (1 - a) / (1 + a) independent draws for each of its own."""
    dice, a = np.random.default_rng(1), 0.8
    draws = np.zeros([4000, 4, 1])
    for step in range(1, 4000):
        draws[step] = a * draws[step - 1] + dice.normal(size=[4, 1])
    assert hmc_chains.diagnose(draws).ess == pytest.approx(16000 * (1 - a) / (1 + a), rel=0.15)
    swinging = np.tile([[[1.0]], [[-1.0]]], [50, 2, 1])
    assert hmc_chains.diagnose(swinging).ess == pytest.approx(200 * np.log10(200))
