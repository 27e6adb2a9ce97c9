"""Posteriors against integrals and closed forms."""

import numpy as np
import pytest

from aevnmt_tf.probing import hmc_chains, linear_models, probe_scores

OPTIONS = hmc_chains.SamplerOptions(chains=4, num_warmup=200, num_draws=1000, seed=1)


def flat(draws):
    return draws.reshape(-1, *draws.shape[2:])


def assert_close_means(draws, expected, *, ess):
    """Means of draws [M, ...] are the expected ones, as far as so few draws can tell."""
    error = draws.std(axis=0) / np.sqrt(ess)
    assert (np.abs(draws.mean(axis=0) - expected) < 4 * error).all()
    assert (4 * error < 0.3 * draws.std(axis=0)).all()  # they can tell something


@pytest.fixture(scope="module")
def two_classes():
    """One feature, two classes, and their posterior."""
    dice = np.random.default_rng(0)
    features = dice.normal(3.0, 2.0, size=[25, 1])
    labels = (features[:, 0] + dice.normal(size=25) > 3.5).astype(int)
    posterior = linear_models.classify(
        features, labels, num_classes=2, prior_scale=1.5, options=OPTIONS
    )
    return features, labels, posterior


def test_logistic_regression_has_the_moments_of_a_grid(two_classes):
    """The same posterior by summing over a fine grid of weights and intercepts."""
    features, labels, posterior = two_classes
    x = (features[:, 0] - features.mean()) / features.std()
    weight, intercept = np.meshgrid(
        np.linspace(-3, 9, 400), np.linspace(-8, 8, 401), indexing="ij"
    )
    log = -(weight**2) / (2 * 1.5**2) - intercept**2 / (2 * linear_models.INTERCEPT_SCALE**2)
    for value, label in zip(x, labels, strict=True):
        logit = value * weight + intercept
        log += label * logit - np.logaddexp(0, logit)
    mass = np.exp(log - log.max())
    mass /= mass.sum()
    assert max(mass[0].sum(), mass[-1].sum(), mass[:, 0].sum(), mass[:, -1].sum()) < 1e-6
    grid = np.stack([weight, intercept], axis=-1)
    mean = np.einsum("ij,ijp->p", mass, grid)
    covariance = np.einsum("ij,ijp,ijq->pq", mass, grid - mean, grid - mean)
    theta = flat(posterior.weights)[:, :, 0]
    assert_close_means(theta, mean, ess=posterior.diagnostics.ess)
    np.testing.assert_allclose(
        np.cov(theta.T), covariance, rtol=0.15, atol=0.1 * covariance.max()
    )


def test_easy_chains_agree(two_classes):
    posterior = two_classes[2]
    assert posterior.weights.shape == (1000, 4, 2, 1)
    assert posterior.diagnostics.r_hat == pytest.approx(1.0, abs=0.02)
    assert posterior.diagnostics.ess > 500
    assert posterior.draws.divergences == 0
    assert 0.1 < posterior.draws.step_size < 3 and posterior.draws.leapfrogs >= 1


@pytest.fixture(scope="module")
def three_classes():
    """One feature, three classes, and their posterior."""
    features = np.array([[-1.0], [-2.0], [0.3], [0.1], [2.0], [1.5], [-1.0], [0.2]])
    labels = np.array([0, 0, 1, 1, 2, 2, 0, 2])
    return (
        features,
        labels,
        linear_models.classify(
            features, labels, num_classes=3, prior_scale=1.0, options=OPTIONS
        ),
    )


def test_softmax_regression_has_the_means_of_weighted_prior_draws(three_classes):
    """The same posterior by importance sampling, with the prior as the proposal."""
    features, labels, posterior = three_classes
    x = (features - features.mean()) / features.std()
    dice = np.random.default_rng(5)
    weights = dice.normal(size=[300_000, 1, 3])
    intercepts = linear_models.INTERCEPT_SCALE * dice.normal(size=[300_000, 1, 3])
    logits = x[None] * weights + intercepts  # [M, N, 3]
    logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    importance = np.exp(logs[:, np.arange(len(labels)), labels].sum(axis=1))
    importance /= importance.sum()
    assert 1 / np.sum(importance**2) > 1200  # enough draws count
    mean = np.einsum("m,mpk->pk", importance, np.concatenate([weights, intercepts], axis=1))
    shares = np.einsum("m,mnk->nk", importance, np.exp(logs))
    theta = flat(posterior.weights).mean(axis=0) @ linear_models.contrasts(3).T
    mean -= mean.mean(axis=1, keepdims=True)  # what is the same for all classes has no effect
    np.testing.assert_allclose(theta[0], mean[0], atol=0.1)
    np.testing.assert_allclose(theta[1], mean[1], atol=0.3)  # their prior has a scale of 5
    _, found = probe_scores.class_scores(posterior, features, labels, seed=1)
    np.testing.assert_allclose(found, shares, atol=0.03)
    assert posterior.diagnostics.r_hat < 1.05


@pytest.mark.parametrize("num_classes, is_full", [(2, True), (4, True), (4, False)])
def test_turning_and_stretching_does_not_change_the_posterior(num_classes, is_full):
    """The sampler's density of u is that of theta, written down again, but for a constant."""
    dice = np.random.default_rng(2)
    x, precisions = dice.normal(size=[9, 3]), np.array([1.0, 2.0, 0.5])
    labels = dice.integers(num_classes, size=9)
    y = np.eye(num_classes)[labels]
    centre = dice.normal(size=[3, num_classes - 1])
    side = 3 * (num_classes - 1) if is_full else 3
    stretch = dice.normal(size=[side, side])
    log_prob = linear_models.class_log_posterior(
        x, y, precisions, centre=centre, stretch=stretch
    )
    u = dice.normal(size=[5, 3, num_classes - 1]).astype(np.float32)
    expected = []
    for one in u:
        theta = centre + (stretch @ one.reshape(side, -1)).reshape(3, -1)
        if num_classes == 2:
            logits = np.concatenate([np.zeros([9, 1]), x @ theta], axis=1)
        else:
            logits = x @ theta @ linear_models.contrasts(num_classes).T
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        prior = -0.5 * np.sum(precisions[:, None] * theta**2)
        expected.append(logs[np.arange(9), labels].sum() + prior)
    found = log_prob(u).numpy()
    np.testing.assert_allclose(found - found[0], np.array(expected) - expected[0], atol=1e-3)


@pytest.mark.parametrize("num_classes", [3, 6])
def test_contrasts_leave_out_what_changes_no_probability(num_classes):
    found = linear_models.contrasts(num_classes)
    assert found.shape == (num_classes, num_classes - 1)
    np.testing.assert_allclose(found.T @ found, np.eye(num_classes - 1), atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=0), 0, atol=1e-12)


def test_linear_regression_has_the_moments_of_the_closed_form():
    """The conjugate posterior: normal-inverse-gamma, whose theta has a Student t."""
    dice = np.random.default_rng(3)
    features = dice.normal(size=[40, 3]) @ dice.normal(size=[3, 3]) + 5.0  # they correlate
    numbers = 10 + features @ [1.0, -2.0, 0.0] + 3 * dice.normal(size=40)
    posterior = linear_models.regress(features, numbers, prior_scale=0.7, options=OPTIONS)
    x = (features - features.mean(axis=0)) / features.std(axis=0)
    x = np.concatenate([x, np.ones([40, 1])], axis=1)
    y = (numbers - numbers.mean()) / numbers.std()
    before = np.diag([0.7**-2] * 3 + [linear_models.INTERCEPT_SCALE**-2])
    after = x.T @ x + before
    mean = np.linalg.inv(after) @ x.T @ y
    shape = 1.0 + 40 / 2
    rate = 1.0 + 0.5 * (y @ y - mean @ after @ mean)
    variance = rate / (shape - 1)
    theta, ess = flat(posterior.weights)[:, :, 0], posterior.diagnostics.ess
    assert_close_means(theta, mean, ess=ess)
    assert_close_means(np.exp(flat(posterior.log_variance)), variance, ess=ess)
    covariance = variance * np.linalg.inv(after)
    np.testing.assert_allclose(np.cov(theta.T), covariance, atol=0.15 * covariance.max())
    assert posterior.diagnostics.r_hat == pytest.approx(1.0, abs=0.02)
    assert posterior.unit == (pytest.approx(numbers.mean()), pytest.approx(numbers.std()))
    measures, predicted = probe_scores.number_scores(posterior, features, numbers, seed=1)
    expected = numbers.mean() + numbers.std() * (x @ mean)
    np.testing.assert_allclose(predicted[0], expected, atol=0.1 * numbers.std())
    inside = (predicted[1] < numbers) & (numbers < predicted[2])
    assert 0.85 <= inside.mean() <= 1.0
    r2 = 1 - np.sum((numbers - expected) ** 2) / np.sum((numbers - numbers.mean()) ** 2)
    assert measures["r2"].averaged == pytest.approx(r2, abs=0.02)
    assert measures["r2"].low < measures["r2"].mean < measures["r2"].averaged
