"""Linear probes: Bayesian logistic and linear regression on standardised features.

Weights have independent Gaussian priors. The posterior of linear regression has a closed form.
That of logistic regression is sampled in whitened coordinates u, in which it is close to a
standard normal. This changes the coordinates, not the posterior.

    X      features, standardised on the training set, and a column of ones         [N, P]
    theta  weights and intercept, for each of M contrasts between classes           [P, M]
    u      whitened coordinates: theta = centre + stretch u                         [P, M]
"""

import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from aevnmt_tf.probing import hmc_chains

INTERCEPT_SCALE = 5.0  # standard deviation of the prior of the intercept
NOISE = (1.0, 1.0)  # Gamma prior of the precision of a standardised target: shape and rate

_ASCENT = 200  # steps towards the mode, which need not be exact
_LARGEST = 3000  # rows of the largest `stretch`, which is multiplied with in every step


class Design(NamedTuple):
    """The standardisation of features."""

    mean: np.ndarray  # [D]
    scale: np.ndarray  # [D]

    @classmethod
    def of(cls, features: np.ndarray) -> "Design":
        """Return the standardisation of training features [N, D]; constants are not scaled."""
        features = np.asarray(features, np.float64)
        scale = features.std(axis=0)
        return cls(features.mean(axis=0), np.where(scale > 1e-8, scale, 1.0))

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Turn features [N, D] into X [N, P], P = D + 1."""
        x = (np.asarray(features, np.float64) - self.mean) / self.scale
        return np.concatenate([x, np.ones([len(x), 1])], axis=1)


def prior_precisions(size: int, *, prior_scale: float) -> np.ndarray:
    """Return the prior precisions of D weights and the intercept: [P]."""
    scales = np.append(np.full(size, prior_scale), INTERCEPT_SCALE)
    return scales**-2.0


class Posterior(NamedTuple):
    """Posterior draws of a probe's parameters."""

    design: Design
    weights: np.ndarray  # theta [S, C, P, M]; M is 1 for two classes and for regression
    diagnostics: hmc_chains.Diagnostics
    draws: hmc_chains.Draws
    log_variance: np.ndarray | None = None  # of the noise of a regression [S, C]
    unit: tuple[float, float] = (0.0, 1.0)  # mean and standard deviation of the targets

    def flat(self) -> np.ndarray:
        """Return theta as [S * C, P, M]."""
        return self.weights.reshape(-1, *self.weights.shape[2:])


def contrasts(num_classes: int) -> np.ndarray:
    """Return the matrix that turns M columns of X theta into the logits of K classes: [K, M].

    Of two classes, the first has the logit 0. For more, the M = K - 1 orthonormal contrasts
    make logits that sum to 0. The direction that is left out adds the same to all logits and
    changes no probability.
    """
    if num_classes == 2:
        return np.array([[0.0], [1.0]])
    basis = np.concatenate([np.ones([num_classes, 1]), np.eye(num_classes)[:, 1:]], axis=1)
    return np.linalg.qr(basis)[0][:, 1:]


def classify(
    features: np.ndarray,
    labels: np.ndarray,
    *,
    num_classes: int,
    prior_scale: float,
    options: hmc_chains.SamplerOptions,
) -> Posterior:
    """Return the posterior of logistic or, for more than two classes, softmax regression.

    theta ~ N(0, prior_scale^2), the intercept ~ N(0, INTERCEPT_SCALE^2)
    P(label) = softmax(X theta contrasts'), which is sigmoid(X theta) for two classes

    Args:
        features: [N, D].
        labels: [N] class indices.
        num_classes: Number of classes, at least two.
        prior_scale: Standard deviation of the prior of a weight.
        options: Number and length of the chains.
    """
    design = Design.of(features)
    x, y = design(features), np.eye(num_classes)[np.asarray(labels)]
    precisions = prior_precisions(x.shape[1] - 1, prior_scale=prior_scale)
    centre, stretch = _near_normal(x, y, precisions)
    log_prob = class_log_posterior(x, y, precisions, centre=centre, stretch=stretch)
    draws = hmc_chains.sample(log_prob, centre.shape, options=options)
    columns = np.moveaxis(draws.values, (2, 3), (0, 1)).reshape(len(stretch), -1)
    weights = (stretch @ columns).reshape(*centre.shape, *draws.values.shape[:2])
    weights = centre + np.moveaxis(weights, (0, 1), (2, 3))  # [S, C, P, M]
    return Posterior(design, weights, hmc_chains.diagnose(weights), draws)


def class_log_posterior(
    x: np.ndarray,
    y: np.ndarray,
    precisions: np.ndarray,
    *,
    centre: np.ndarray,
    stretch: np.ndarray,
) -> hmc_chains.LogProb:
    """Return the log posterior of u [C, P, M] as a function.

    Args:
        x: X [N, P].
        y: One-hot labels [N, K].
        precisions: Prior precisions [P].
        centre: Centre of theta [P, M].
        stretch: [P * M, P * M], or [P, P] if all contrasts share it.
    """
    directions, shape = contrasts(y.shape[1]), centre.shape
    x, y, prior, centre, stretch, directions = (
        tf.constant(value, tf.float32)
        for value in (x, y, precisions, centre, stretch, directions)
    )

    def log_prob(u: tf.Tensor) -> tf.Tensor:
        # Two matrix products for all chains together.
        columns = tf.reshape(tf.transpose(u, [1, 2, 0]), [stretch.shape[0], -1])
        theta = tf.reshape(stretch @ columns, [*shape, -1]) + centre[:, :, None]  # [P, M, C]
        products = x @ tf.reshape(theta, [shape[0], -1])  # [N, M * C]
        products = tf.reshape(products, [x.shape[0], shape[1], -1])
        logits = tf.einsum("km,nmc->nkc", directions, products)
        likelihood = tf.reduce_sum(y[:, :, None] * logits, 1) - tf.reduce_logsumexp(logits, 1)
        penalty = tf.reduce_sum(tf.square(theta), 1) * prior[:, None]  # [P, C]
        return tf.reduce_sum(likelihood, 0) - 0.5 * tf.reduce_sum(penalty, 0)

    return log_prob


def probabilities(products: np.ndarray) -> np.ndarray:
    """Return P(class) [..., M + 1] of X theta [..., M]."""
    logits = products @ contrasts(products.shape[-1] + 1).T
    exponents = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponents / exponents.sum(axis=-1, keepdims=True)


def _near_normal(
    x: np.ndarray, y: np.ndarray, precisions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return `centre` and `stretch`, so that the posterior of u is close to N(0, I).

    The centre is near the mode, which is found by monotone steps: the curvature of the
    log-likelihood is at most X'X / 4 for two classes, X'X / 2 for more (Boehning, 1992). The
    curvature at the mode gives the stretch.
    """
    directions = contrasts(y.shape[1])
    bound = 0.25 if y.shape[1] == 2 else 0.5
    ascent = np.linalg.inv(bound * x.T @ x + np.diag(precisions))
    theta = np.zeros([x.shape[1], directions.shape[1]])
    for _ in range(_ASCENT):
        errors = (y - probabilities(x @ theta)) @ directions  # [N, M]
        gradient = x.T @ errors - precisions[:, None] * theta
        step = ascent @ gradient
        theta += step
        if np.sum(step * gradient) < 1e-6:
            break
    return theta, _stretch(_curvature(x, probabilities(x @ theta), directions, precisions))


def _curvature(
    x: np.ndarray, shares: np.ndarray, directions: np.ndarray, precisions: np.ndarray
) -> np.ndarray:
    """Return the negative Hessian of the log posterior [P * M, P * M].

    If that is too large, return its mean over contrasts [P, P].
    """
    (size, count), prior = (x.shape[1], directions.shape[1]), np.diag(precisions)
    means = shares @ directions  # [N, M]
    if size * count > _LARGEST:
        weights = np.mean(shares @ directions**2 - means**2, axis=1)
        return (x.T * weights) @ x + prior
    found = np.zeros([size, count, size, count])
    for i in range(count):
        for j in range(i, count):
            weights = shares @ (directions[:, i] * directions[:, j]) - means[:, i] * means[:, j]
            found[:, i, :, j] = found[:, j, :, i] = (x.T * weights) @ x
        found[:, i, :, i] += prior
    return found.reshape(size * count, size * count)


def _stretch(curvature: np.ndarray) -> np.ndarray:
    """Return a matrix S with S S' = curvature^-1."""
    return np.linalg.inv(np.linalg.cholesky(curvature)).T


def regress(
    features: np.ndarray,
    numbers: np.ndarray,
    *,
    prior_scale: float,
    options: hmc_chains.SamplerOptions,
) -> Posterior:
    """Return independent draws from the posterior of linear regression.

    y = (number - mean) / standard deviation, on the training set
    1 / variance ~ Gamma(*NOISE)
    theta ~ N(0, prior_scale^2 variance), the intercept ~ N(0, INTERCEPT_SCALE^2 variance)
    y ~ N(X theta, variance)

    The prior is conjugate: the posterior of 1 / variance is a Gamma distribution, and that of
    theta given the variance is normal. The arguments are those of `classify`, with the numbers
    [N] to predict; there is no warm-up.
    """
    started = time.monotonic()
    design = Design.of(features)
    x = design(features)
    numbers = np.asarray(numbers, np.float64)
    unit = (float(numbers.mean()), float(numbers.std()) or 1.0)
    y = (numbers - unit[0]) / unit[1]
    precisions = prior_precisions(x.shape[1] - 1, prior_scale=prior_scale)
    curvature = x.T @ x + np.diag(precisions)
    centre = np.linalg.solve(curvature, x.T @ y)  # [P]
    residual = np.sum((y - x @ centre) ** 2) + np.sum(precisions * centre**2)
    dice, (shape, rate) = np.random.default_rng([options.seed, 1]), NOISE
    size = (options.num_draws, options.chains)
    variance = 1 / dice.gamma(shape + len(y) / 2, 1 / (rate + residual / 2), size)  # [S, C]
    u = np.sqrt(variance)[..., None] * dice.normal(size=[*size, x.shape[1]])
    weights = centre + u @ _stretch(curvature).T  # [S, C, P]
    log_variance = np.log(variance)
    everything = np.concatenate([weights, log_variance[..., None]], axis=-1)
    draws = hmc_chains.Draws(everything, seconds=time.monotonic() - started)
    diagnostics = hmc_chains.diagnose(everything)
    return Posterior(design, weights[..., None], diagnostics, draws, log_variance, unit)
