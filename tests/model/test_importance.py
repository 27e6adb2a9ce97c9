"""Bounds against exact values, on models small enough to integrate over z.

Exact values come from a dense grid in float64 with the NumPy reference: the integrands are
smooth and vanish at the ends, where the trapezoid rule is as exact as the numbers are. Bounds
come from the package.
"""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.model import importance, objective
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
    "mixture, 1": ("mixture", 1, {}),
    "mixture, 2": ("mixture", 2, {}),
    "vnmt, 1": ("vnmt", 1, {}),
    "vnmt, 2": ("vnmt", 2, {}),
    # A point has no density: the mixture itself proposes z for x.
    "mixture, l2, 2": ("l2", 2, {"prior": "mixture", "prior_components": 3}),
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
        for label in {"init_lm", "init_enc", "init_dec"} & layers.keys():
            layers[label]["kernel"].assign(0.8 * layers[label]["kernel"])
        for label in ("q_u_out", "r_u_out", "p_u_out"):
            for variable in layers.get(label, {}).values():
                variable.assign(0.2 * variable)
        if "prior" in layers:  # inside the grid
            layers["prior"]["scale"].assign(0.3 * layers["prior"]["scale"])
        self.batch = tiny.batch(PAIRS)
        self.grid, self.cell = grid(LIMIT, 0.09, z_dim)
        style = options.get("decoder_style", "paper")
        twin = Reference(tiny.weights(self.model), r_train_mode=mode, decoder_style=style)
        self.twin = twin
        if mode == "vnmt":  # inside the grid, and near q
            self.widen("p", 0.8)
            twin.w = tiny.weights(self.model)
        prior = [twin.log_prior(self.grid, x) for x, _ in PAIRS]
        # Without P(x|z) all is given x, and log P(x) is 0.
        log_px = [twin.log_px(x, self.grid) if twin.has_lm else 0.0 for x, _ in PAIRS]
        log_py = [twin.log_py(x, y, self.grid) for x, y in PAIRS]
        self.log_px = np.array(
            [np.log(self.integral(np.exp(p + lx))) for p, lx in zip(prior, log_px, strict=True)]
        )
        self.log_pxy = np.array(
            [
                np.log(self.integral(np.exp(p + lx + ly)))
                for p, lx, ly in zip(prior, log_px, log_py, strict=True)
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
            log_joint = self.twin.log_py(x, y, z) + self.twin.log_prior(z, x)
            log_joint += self.twin.log_px(x, z) if self.twin.has_lm else 0.0
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
    prior = exact.twin.log_prior(exact.grid, PAIRS[0][0])
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
    shape = [100_000, len(PAIRS), exact.model.noise_size]
    epsilon = tf.constant(tiny.epsilon(shape, seed=11))
    return exact, importance.weigh(exact.model, exact.batch, epsilon)[1:]


def test_importance_weighting_finds_the_evidence(wide):
    exact, (joint, source) = wide
    found = [(joint, exact.log_pxy)]
    if exact.twin.has_lm:
        found.append((source, exact.log_px))
    for log_w, expected in found:
        error = np.abs(importance.importance_weighted(log_w).numpy() - expected)
        assert np.all(error < 0.01)
        assert np.all(error < 4.0 * standard_error(log_w.numpy().astype(np.float64)))
    if not exact.twin.has_lm:
        return
    conditional = importance.importance_weighted(joint) - importance.importance_weighted(source)
    np.testing.assert_allclose(conditional, exact.log_pxy - exact.log_px, atol=0.02)


def test_one_draw_on_average_is_the_elbo(wide):
    exact, (joint, _) = wide
    runs = np.stack(
        [importance.importance_weighted(joint[s : s + 1]).numpy() for s in range(200)]
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
                importance.importance_weighted(tf.constant(group)).numpy()
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
    shape = [100_000, len(PAIRS), exact.model.noise_size]
    epsilon = tiny.epsilon(shape, seed=11)[0, :, : exact.z_dim]
    q = exact.model.infer(exact.batch)
    z = q.mean() + epsilon * q.stddev()
    terms = exact.model.loss_terms(exact.batch, z=z)
    ratio = exact.model.prior(exact.model.embed(exact.batch)).log_prob(z) - q.log_prob(z)
    np.testing.assert_allclose(joint[0], ratio - terms.nll_x - terms.nll_y, rtol=1e-5)
    if exact.model.prediction is None:
        np.testing.assert_allclose(source[0], ratio - terms.nll_x, rtol=1e-5)


def test_effective_sample_size_is_that_of_the_weights(wide):
    _, (joint, source) = wide
    for log_w in (joint, source):
        w = np.exp(log_w.numpy().astype(np.float64))
        expected = w.sum(axis=0) ** 2 / (w**2).sum(axis=0)
        actual = importance.effective_sample_size(log_w).numpy()
        np.testing.assert_allclose(actual, expected, rtol=1e-3)
        assert np.all(actual > 0.01 * len(w)) and np.all(actual < len(w))


def test_importance_weighted_bound_by_hand():
    log_w = np.log([[1.0, 2.0], [3.0, 2.0], [5.0, 2.0]]).astype(np.float32)
    np.testing.assert_allclose(
        importance.importance_weighted(tf.constant(log_w)), np.log([3.0, 2.0]), rtol=1e-6
    )
    np.testing.assert_allclose(
        importance.effective_sample_size(tf.constant(log_w)), [81.0 / 35.0, 3.0], rtol=1e-6
    )


def test_importance_weighting_survives_small_probabilities():
    log_w = tf.constant([[-1000.0], [-1001.0], [-3000.0]])
    expected = -1000.0 + np.log((1.0 + np.exp(-1.0)) / 3.0)
    np.testing.assert_allclose(importance.importance_weighted(log_w), [expected], rtol=1e-6)
    size = (1.0 + np.exp(-1.0)) ** 2 / (1.0 + np.exp(-2.0))
    np.testing.assert_allclose(importance.effective_sample_size(log_w), [size], rtol=1e-5)


def test_more_draws_never_loosen_the_bound():
    """Jensen, same draws: IW over k S draws is at least the mean of IW over k groups of S."""
    log_w = np.random.default_rng(0).normal(size=(24, 7)).astype(np.float32) * 3.0
    whole = importance.importance_weighted(tf.constant(log_w)).numpy()
    for size in (1, 2, 3, 4, 6, 8, 12):
        groups = [
            importance.importance_weighted(tf.constant(group)).numpy()
            for group in np.split(log_w, 24 // size)
        ]
        assert np.all(whole >= np.mean(groups, axis=0) - 1e-6)
        assert np.any(whole > np.mean(groups, axis=0) + 0.1)


@pytest.mark.parametrize("limits", [{"MOST_TOKENS": 60}, {"MOST_LOGITS": 400}], ids=str)
def test_passes_that_fit_into_memory_make_the_same_draws(limits, monkeypatch):
    """Tokens and the numbers of the output layers both bound a pass."""
    model, batch = tiny.build("KLr"), tiny.batch()
    epsilon = tf.constant(tiny.epsilon([7, 5, model.noise_size]))
    whole = importance.weigh(model, batch, epsilon)
    rows = []

    def count(sides, pairs, z, noise):
        rows.append(tf.shape(z)[0])
        return original(sides, pairs, z, noise)

    original = model.terms_given_z
    monkeypatch.setattr(model, "terms_given_z", count)
    for name, value in limits.items():
        monkeypatch.setattr(importance, name, value)
    parts = importance.sample(model, batch, lambda number: epsilon[number], 7)
    assert max(map(int, rows)) == 5 and len(rows) == 7  # a draw at a time
    for one, other in zip(tf.nest.flatten(whole), tf.nest.flatten(parts), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_without_a_proposal_of_its_own_x_is_weighed_with_the_posterior():
    model, batch = tiny.build("KLr"), tiny.batch()
    epsilon = tf.constant(tiny.epsilon([2, 5, model.noise_size]))
    own, cheap = (
        importance.weigh(model, batch, epsilon, own_proposal=kind) for kind in (True, False)
    )
    np.testing.assert_array_equal(own.log_w_xy, cheap.log_w_xy)
    np.testing.assert_allclose(cheap.log_w_x, cheap.log_w_xy + cheap.terms.nll_y, rtol=1e-5)
    assert np.abs(own.log_w_x - cheap.log_w_x).max() > 1e-3
