"""Bounds against exact values, on models small enough to integrate over z.

Exact values come from a dense grid in float64 with the NumPy reference: the integrands are
smooth and vanish at the ends, where the trapezoid rule is as exact as the numbers are. Bounds
come from the package.
"""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import objective
from tests import tiny
from tests.reference import Reference, log_normal

EOS = tiny.EOS
PAIRS = [([1, 0, EOS], [1, EOS]), ([EOS], [0, 1, 1, EOS])]
LIMIT = 9.0
# (system, size of z, more settings)
CASES = {
    "source_only, 1": ("source_only", 1, {}),
    "source_only, 2": ("source_only", 2, {"decoder_style": "tf_nmt"}),
    "KLq, 2": ("KLq", 2, {}),
    "l2, 1": ("l2", 1, {}),
}


def grid(limit, step, size):
    """Points [S, size] of a regular grid and the volume of its cells."""
    line = np.arange(-limit, limit + step, step)
    return np.stack(np.meshgrid(*[line] * size), axis=-1).reshape(-1, size), step**size


class Exact:
    """A tiny model and integrals over its z, for each pair."""

    def __init__(self, mode, z_dim, options):
        self.z_dim = z_dim
        self.model = tiny.build(
            mode, vocab_x=3, vocab_y=3, num_units=3, z_dim=z_dim, scale=0.8, seed=3, **options
        )
        layers = tiny.layers(self.model)
        # z has to matter, or every bound is tight; q has to be near, or no weighting works.
        for label in ("init_lm", "init_enc", "init_dec"):
            layers[label]["kernel"].assign(0.8 * layers[label]["kernel"])
        for label in ("q_u_out", "r_u_out"):
            for variable in layers.get(label, {}).values():
                variable.assign(0.2 * variable)
        self.batch = tiny.batch(PAIRS)
        self.grid, self.cell = grid(LIMIT, 0.09, z_dim)
        twin = Reference(tiny.weights(self.model), r_train_mode=mode, **options)
        self.twin = twin
        prior = log_normal(self.grid, 0.0, 1.0)
        log_px = [twin.log_px(x, self.grid) for x, _ in PAIRS]
        log_py = [twin.log_py(x, y, self.grid) for x, y in PAIRS]
        self.log_px = np.array([np.log(self.integral(np.exp(prior + lx))) for lx in log_px])
        self.log_pxy = np.array(
            [
                np.log(self.integral(np.exp(prior + lx + ly)))
                for lx, ly in zip(log_px, log_py, strict=True)
            ]
        )

    def integral(self, values):
        """Over the grid; the values at its border are zero."""
        return values.sum() * self.cell

    def posterior_gaps(self):
        """KL(q || p(z|x, y)) of each pair, over epsilon so that a narrow q is no problem."""
        points, cell = grid(7.0, 0.2, self.z_dim)
        weights = np.exp(log_normal(points, 0.0, 1.0)) * cell
        gaps = []
        for (x, y), evidence in zip(PAIRS, self.log_pxy, strict=True):
            loc, scale = self.twin.posterior(x, y)
            z = loc + points * scale
            log_joint = self.twin.log_px(x, z) + self.twin.log_py(x, y, z)
            log_joint += log_normal(z, 0.0, 1.0)
            gaps.append((log_normal(z, loc, scale) - log_joint + evidence) @ weights)
        return np.array(gaps)

    def elbo(self):
        """The package's ELBO, its expectation over epsilon by quadrature."""
        points, cell = grid(7.0, 0.2, self.z_dim)
        samples = len(points)
        tiled = {name: tf.repeat(value, samples, axis=0) for name, value in self.batch.items()}
        epsilon = tf.tile(tf.constant(points, tf.float32), [len(PAIRS), 1])
        elbos = objective.elbo(self.model.loss_terms(tiled, {"epsilon": epsilon})).numpy()
        weights = np.exp(log_normal(points, 0.0, 1.0)) * cell
        return elbos.astype(np.float64).reshape(len(PAIRS), samples) @ weights

    def widen(self, network, scale):
        """Sets the scale of a Gaussian network, whatever it reads."""
        head = tiny.layers(self.model)[f"{network}_s_out"]
        head["kernel"].assign(tf.zeros_like(head["kernel"]))
        head["bias"].assign(np.full(self.z_dim, np.log(np.expm1(scale))))


@pytest.fixture(scope="module", params=list(CASES))
def exact(request):
    return Exact(*CASES[request.param])


def test_the_grid_holds_all_mass(exact):
    prior = log_normal(exact.grid, 0.0, 1.0)
    assert abs(exact.integral(np.exp(prior)) - 1.0) < 1e-10
    assert np.all(exact.log_pxy < exact.log_px)


def test_gap_of_the_elbo_is_the_kl_to_the_exact_posterior(exact):
    gap = exact.log_pxy - exact.elbo()
    expected = exact.posterior_gaps()
    np.testing.assert_allclose(gap, expected, atol=1e-4)
    assert np.all(gap > 0.0) and gap.max() > 0.05


def standard_error(log_w):
    """Of log mean w, by the delta method: [S, B] -> [B]."""
    w = np.exp(log_w - log_w.max(axis=0))
    return w.std(axis=0) / w.mean(axis=0) / np.sqrt(len(w))


@pytest.fixture(scope="module")
def wide(exact):
    """The model with q (and r) at scale 1.2, and 100,000 draws in one pass."""
    exact.widen("q", 1.2)
    if "r_s_out" in tiny.layers(exact.model):
        exact.widen("r", 1.2)
    np.testing.assert_allclose(exact.model.infer(exact.batch).stddev(), 1.2, rtol=1e-6)
    epsilon = tf.constant(tiny.epsilon([100_000, len(PAIRS), exact.z_dim], seed=11))
    return exact, exact.model.log_weights(exact.batch, epsilon)


def test_importance_weighting_finds_the_evidence(wide):
    exact, (joint, source) = wide
    for log_w, expected in ((joint, exact.log_pxy), (source, exact.log_px)):
        error = np.abs(objective.importance_weighted(log_w).numpy() - expected)
        assert np.all(error < 0.01)
        assert np.all(error < 4.0 * standard_error(log_w.numpy().astype(np.float64)))
    conditional = objective.importance_weighted(joint) - objective.importance_weighted(source)
    np.testing.assert_allclose(conditional, exact.log_pxy - exact.log_px, atol=0.02)


def test_one_draw_on_average_is_the_elbo(wide):
    exact, (joint, _) = wide
    runs = np.stack(
        [objective.importance_weighted(joint[s : s + 1]).numpy() for s in range(200)]
    ).astype(np.float64)
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    assert np.all(np.abs(runs.mean(axis=0) - exact.elbo()) < 4.0 * error)
    assert np.all(exact.elbo() <= exact.log_pxy)


def test_more_draws_tighten_the_bound(wide):
    """Same draws: exact, by Jensen. On average between the ELBO and the evidence."""
    exact, (joint, _) = wide
    draws = joint[:9600].numpy().astype(np.float64)
    bounds = {
        size: np.mean(
            [
                objective.importance_weighted(tf.constant(group)).numpy()
                for group in np.split(draws, 9600 // size)
            ],
            axis=0,
        )
        for size in (300, 2400, 9600)
    }
    assert np.all(bounds[300] <= bounds[2400]) and np.all(bounds[2400] <= bounds[9600])
    assert np.all(draws.mean(axis=0) < bounds[300])
    assert np.all(exact.log_pxy - bounds[9600] < exact.log_pxy - draws.mean(axis=0))


def test_one_weight_is_the_density_ratio(wide):
    """IW_1 = log p(x, y|z) + log p(z) - log q(z), from the model's own parts."""
    exact, (joint, source) = wide
    epsilon = tiny.epsilon([100_000, len(PAIRS), exact.z_dim], seed=11)[0]
    q = exact.model.infer(exact.batch)
    z = q.mean() + epsilon * q.stddev()
    terms = exact.model.loss_terms(exact.batch, z=z)
    ratio = objective.prior(q).log_prob(z) - q.log_prob(z)
    np.testing.assert_allclose(joint[0], ratio - terms.nll_x - terms.nll_y, rtol=1e-5)
    if exact.model.prediction is None:
        np.testing.assert_allclose(source[0], ratio - terms.nll_x, rtol=1e-5)


def test_effective_sample_size_is_that_of_the_weights(wide):
    _, (joint, source) = wide
    for log_w in (joint, source):
        w = np.exp(log_w.numpy().astype(np.float64))
        expected = w.sum(axis=0) ** 2 / (w**2).sum(axis=0)
        actual = objective.effective_sample_size(log_w).numpy()
        np.testing.assert_allclose(actual, expected, rtol=1e-3)
        assert np.all(actual > 0.01 * len(w)) and np.all(actual < len(w))
