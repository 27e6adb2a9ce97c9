"""Scores of a probe on held-out sentences, with credible intervals."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from aevnmt_tf.probing import linear_models

LOW, HIGH = 0.025, 0.975  # quantiles of a 95 % credible interval
_MOST_NUMBERS = 4_000_000  # in memory at a time


@dataclasses.dataclass(frozen=True)
class Measure:
    """A score with its 95 % intervals.

    `low` and `high` are over posterior draws: uncertainty about the weights. `new_low` and
    `new_high` are for new sentences: they also account for the size of the held-out set.
    """

    mean: float  # over posterior draws
    low: float
    high: float
    averaged: float  # score of the predictions averaged over draws
    new_low: float | None = None
    new_high: float | None = None

    @classmethod
    def of(
        cls, draws: np.ndarray, *, averaged: float, new: np.ndarray | None = None
    ) -> "Measure":
        """Summarise a score per posterior draw [M], and simulated scores on new sentences."""
        low, high = np.quantile(draws, [LOW, HIGH]).tolist()
        new_ends = (None, None) if new is None else np.quantile(new, [LOW, HIGH]).tolist()
        return cls(float(np.mean(draws)), low, high, float(averaged), *new_ends)


Scored = tuple[dict[str, Measure], np.ndarray]  # measures by name, and predictions


def class_scores(
    posterior: linear_models.Posterior, features: np.ndarray, labels: np.ndarray, *, seed: int
) -> Scored:
    """Return the scores of a classifier on held-out sentences, and its predictions.

    Args:
        posterior: Result of linear_models.classify.
        features: [N, D].
        labels: [N] class indices.
        seed: Seed of the interval for new sentences.

    Returns:
        Measures accuracy and log_likelihood (nats per sentence), and P(class) averaged over
        draws [N, K].
    """
    x, theta = posterior.design(features), posterior.flat()
    parts = _parts(theta, len(x) * (theta.shape[-1] + 1))
    return _class_scores(
        (linear_models.probabilities(x @ part) for part in parts), labels, seed=seed
    )


def majority_scores(
    train_labels: np.ndarray, labels: np.ndarray, *, num_classes: int, seed: int
) -> Scored:
    """Return class_scores of the class frequencies, with add-one smoothing."""
    counts = np.bincount(train_labels, minlength=num_classes) + 1.0
    shares = np.tile(counts / counts.sum(), [1, len(labels), 1])
    return _class_scores([shares], labels, seed=seed)


def _class_scores(parts: Iterable[np.ndarray], labels: np.ndarray, *, seed: int) -> Scored:
    """Return the scores of P(class) [m, N, K], a part of the draws at a time."""
    labels = np.asarray(labels)
    rows = np.arange(len(labels))
    hits, likelihoods, total = [], [], np.zeros(1)
    for shares in parts:
        hits.append(np.sum(shares.argmax(axis=-1) == labels, axis=1))
        likelihoods.append(np.mean(_log(shares[:, rows, labels]), axis=1))
        total = total + shares.sum(axis=0)
    correct = np.concatenate(hits)  # [M]
    averaged = total / len(correct)  # [N, K]
    dice = np.random.default_rng([seed, 3])
    some = np.tile(correct, -(-1000 // len(correct)))
    # The held-out sentences are a sample: the posterior of the accuracy under a uniform prior.
    new = dice.beta(1 + some, 1 + len(labels) - some)
    right = np.mean(averaged.argmax(axis=1) == labels)
    likelihood = np.mean(_log(averaged[rows, labels]))
    return {
        "accuracy": Measure.of(correct / len(labels), averaged=right, new=new),
        "log_likelihood": Measure.of(np.concatenate(likelihoods), averaged=likelihood),
    }, averaged


def number_scores(
    posterior: linear_models.Posterior, features: np.ndarray, numbers: np.ndarray, *, seed: int
) -> Scored:
    """Return the scores of a regression on held-out sentences, and its predictions.

    The arguments are those of class_scores, with the numbers [N] to predict.

    Returns:
        Measures r2, rmse and log_likelihood (nats per sentence), and predictions with the ends
        of their 95 % intervals [3, N].
    """
    assert posterior.log_variance is not None
    mean, scale = posterior.unit
    x, theta = posterior.design(features), posterior.flat()[:, :, 0]
    deviations = scale * np.exp(posterior.log_variance.reshape(-1) / 2)  # [M]
    parts = zip(_parts(theta, len(x)), _parts(deviations, len(x)), strict=True)
    return _number_scores(
        ((mean + scale * (part @ x.T), deviation) for part, deviation in parts),
        numbers,
        seed=seed,
    )


def mean_scores(train_numbers: np.ndarray, numbers: np.ndarray, *, seed: int) -> Scored:
    """Return number_scores of the mean of the training numbers."""
    mean, deviation = float(np.mean(train_numbers)), float(np.std(train_numbers)) or 1.0
    predicted = np.full([1000, len(numbers)], mean)
    return _number_scores([(predicted, np.full(1000, deviation))], numbers, seed=seed)


def _number_scores(
    parts: Iterable[tuple[np.ndarray, np.ndarray]], numbers: np.ndarray, *, seed: int
) -> Scored:
    """Return the scores of predictions [m, N] with deviations [m], a part at a time."""
    numbers = np.asarray(numbers, np.float64)
    dice = np.random.default_rng([seed, 4])
    r2, rmse, log, new, means, observed, likelihood = [], [], [], [], [], [], 0.0
    for predicted, deviation in parts:
        squares = (numbers - predicted) ** 2
        logs = -0.5 * squares / deviation[:, None] ** 2 - np.log(deviation[:, None])
        logs -= 0.5 * np.log(2 * np.pi)  # log N(number; predicted, deviation^2)
        r2.append(_r2(squares, numbers))
        rmse.append(np.sqrt(squares.mean(axis=1)))
        log.append(logs.mean(axis=1))
        # The Bayesian bootstrap of sentences (Rubin, 1981).
        new.append(_r2(squares, numbers, dice.exponential(size=squares.shape)))
        likelihood = likelihood + np.exp(logs).sum(axis=0)
        means.append(predicted)
        observed.append(predicted + deviation[:, None] * dice.normal(size=squares.shape))
    join = np.concatenate
    average, ends = join(means).mean(axis=0), join(observed)
    squares = (numbers - average) ** 2
    densities = likelihood / len(ends)
    return {
        "r2": Measure.of(join(r2), averaged=_r2(squares[None], numbers)[0], new=join(new)),
        "rmse": Measure.of(join(rmse), averaged=np.sqrt(squares.mean())),
        "log_likelihood": Measure.of(join(log), averaged=_log(densities).mean()),
    }, np.stack([average, *np.quantile(ends, [LOW, HIGH], axis=0)])


def _parts(values: np.ndarray, numbers: int) -> list[np.ndarray]:
    """Split values [M, ...] into parts, so that `numbers` per value fit into memory."""
    return np.array_split(values, -(-len(values) * numbers // _MOST_NUMBERS))


def _log(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, 1e-300))


def _r2(
    squares: np.ndarray, numbers: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return R^2 [m] of squared errors [m, N] for numbers [N]."""
    mean = np.average(np.broadcast_to(numbers, squares.shape), axis=1, weights=weights)
    spread = np.average((numbers - mean[:, None]) ** 2, axis=1, weights=weights)
    return 1.0 - np.average(squares, axis=1, weights=weights) / np.maximum(spread, 1e-300)
