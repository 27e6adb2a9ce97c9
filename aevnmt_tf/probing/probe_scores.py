"""How good a probe is on held-out sentences, and how sure that is."""

import dataclasses

import numpy as np

from aevnmt_tf.probing import linear_models

LOW, HIGH = 0.025, 0.975  # ends of a 95 % credible interval
_MOST_NUMBERS = 4_000_000  # logits at a time


@dataclasses.dataclass(frozen=True)
class Measure:
    """One number of a probe.

    Attributes:
        mean: over posterior draws.
        low: end of the 95 % interval of posterior draws: what the weights leave open.
        high: its other end.
        averaged: of the predictions that are averaged over draws.
        new_low: end of the 95 % interval for new sentences of the same kind, which also knows
            how few were held out; None where that is not estimated.
        new_high: its other end.
    """

    mean: float
    low: float
    high: float
    averaged: float
    new_low: float | None = None
    new_high: float | None = None

    @classmethod
    def of(
        cls, draws: np.ndarray, *, averaged: float, new: np.ndarray | None = None
    ) -> "Measure":
        """Return that of a value per posterior draw [M], and values for new sentences [any]."""
        low, high = np.quantile(draws, [LOW, HIGH]).tolist()
        new_ends = (None, None) if new is None else np.quantile(new, [LOW, HIGH]).tolist()
        return cls(float(np.mean(draws)), low, high, float(averaged), *new_ends)


Scored = tuple[dict[str, Measure], np.ndarray]  # measures by name, and predictions


def class_scores(
    posterior: linear_models.Posterior, features: np.ndarray, labels: np.ndarray, *, seed: int
) -> Scored:
    """Return accuracy and log-likelihood of a probe of classes, with its predictions.

    Args:
        posterior: of linear_models.classify.
        features: [N, D], held out.
        labels: [N] numbers of classes.
        seed: of the draws for new sentences.

    Returns:
        Measures by name (accuracy, log_likelihood: nats per sentence) and P(class) averaged
        over draws [N, number of classes].
    """
    labels = np.asarray(labels)
    x, theta = posterior.design(features), posterior.flat()
    rows = np.arange(len(labels))
    correct, log_likelihoods, total = [], [], 0.0
    for part in _parts(theta, len(x) * (theta.shape[-1] + 1)):
        shares = linear_models.probabilities(x @ part)  # [m, N, number of classes]
        correct.append(np.mean(shares.argmax(axis=-1) == labels, axis=1))
        log_likelihoods.append(np.mean(_log(shares[:, rows, labels]), axis=1))
        total = total + shares.sum(axis=0)
    averaged = total / len(theta)
    return _class_measures(
        np.concatenate(correct), np.concatenate(log_likelihoods), averaged, labels, seed=seed
    ), averaged


def majority_scores(
    train_labels: np.ndarray, labels: np.ndarray, *, num_classes: int, seed: int
) -> Scored:
    """Return class_scores of the most frequent class, and of frequencies as probabilities.

    One is added to each count, so that no class is impossible.
    """
    labels = np.asarray(labels)
    counts = np.bincount(train_labels, minlength=num_classes)
    shares = np.tile((counts + 1.0) / (counts + 1.0).sum(), [len(labels), 1])
    correct = np.array([np.mean(labels == counts.argmax())])
    log_likelihood = np.array([np.mean(np.log(shares[np.arange(len(labels)), labels]))])
    return _class_measures(correct, log_likelihood, shares, labels, seed=seed), shares


def _class_measures(
    correct: np.ndarray,
    log_likelihoods: np.ndarray,
    averaged: np.ndarray,
    labels: np.ndarray,
    *,
    seed: int,
) -> dict[str, Measure]:
    """Return measures from accuracy and log-likelihood by draw [M] and shares [N, K]."""
    dice = np.random.default_rng([seed, 3])
    hits = np.tile(correct, -(-1000 // len(correct))) * len(labels)
    # The held-out sentences are a sample of what there is: a uniform prior on the accuracy.
    new = dice.beta(1 + hits, 1 + len(labels) - hits)
    right = averaged.argmax(axis=1) == labels
    likelihoods = _log(averaged[np.arange(len(labels)), labels])
    return {
        "accuracy": Measure.of(correct, averaged=right.mean(), new=new),
        "log_likelihood": Measure.of(log_likelihoods, averaged=likelihoods.mean()),
    }


def number_scores(
    posterior: linear_models.Posterior, features: np.ndarray, numbers: np.ndarray, *, seed: int
) -> Scored:
    """Return R^2, error and log-likelihood of a probe of numbers, with its predictions.

    Args:
        posterior: of linear_models.regress.
        features: [N, D], held out.
        numbers: [N].
        seed: of the draws for new sentences.

    Returns:
        Measures by name (r2, rmse, log_likelihood: nats per sentence) and predictions:
        their mean and the two ends of the interval in which a sentence's number is, [3, N].
    """
    assert posterior.log_variance is not None
    numbers, (mean, scale) = np.asarray(numbers, np.float64), posterior.unit
    x, theta = posterior.design(features), posterior.flat()[:, :, 0]
    deviations = scale * np.exp(posterior.log_variance.reshape(-1) / 2)  # [M]
    dice = np.random.default_rng([seed, 4])
    r2, rmse, log, new, means, observed, likelihood = [], [], [], [], [], [], 0.0
    for part, deviation in zip(_parts(theta, len(x)), _parts(deviations, len(x)), strict=True):
        predicted = mean + scale * (part @ x.T)  # [m, N]
        squares = (numbers - predicted) ** 2
        logs = _log_normal(squares, deviation[:, None])
        r2.append(_r2(squares, numbers))
        rmse.append(np.sqrt(squares.mean(axis=1)))
        log.append(logs.mean(axis=1))
        new.append(_new_r2(squares, numbers, dice))
        likelihood = likelihood + np.exp(logs).sum(axis=0)
        means.append(predicted)
        observed.append(predicted + deviation[:, None] * dice.normal(size=squares.shape))
    average, ends = np.concatenate(means).mean(axis=0), np.concatenate(observed)
    squares, join = (numbers - average) ** 2, np.concatenate
    own = _r2(squares[None], numbers)[0]
    return {
        "r2": Measure.of(join(r2), averaged=own, new=join(new)),
        "rmse": Measure.of(join(rmse), averaged=np.sqrt(squares.mean())),
        "log_likelihood": Measure.of(join(log), averaged=_log(likelihood / len(theta)).mean()),
    }, np.stack([average, *np.quantile(ends, [LOW, HIGH], axis=0)])


def mean_scores(train_numbers: np.ndarray, numbers: np.ndarray, *, seed: int) -> Scored:
    """Return number_scores of the mean of the numbers that are learned from."""
    numbers = np.asarray(numbers, np.float64)
    mean, deviation = float(np.mean(train_numbers)), float(np.std(train_numbers)) or 1.0
    squares = (numbers[None] - mean) ** 2  # [1, N]
    dice = np.random.default_rng([seed, 4])
    r2, rmse = _r2(squares, numbers), np.sqrt(squares.mean(axis=1))
    logs = _log_normal(squares, deviation).mean(axis=1)
    new = _new_r2(np.tile(squares, [1000, 1]), numbers, dice)
    ends = [np.full(len(numbers), mean + side * 1.96 * deviation) for side in (0, -1, 1)]
    return {
        "r2": Measure.of(r2, averaged=r2[0], new=new),
        "rmse": Measure.of(rmse, averaged=rmse[0]),
        "log_likelihood": Measure.of(logs, averaged=logs[0]),
    }, np.stack(ends)


def _parts(values: np.ndarray, numbers: int) -> list[np.ndarray]:
    """Return values [M, ...] in parts, so that `numbers` for each of them fit into memory."""
    return np.array_split(values, -(-len(values) * numbers // _MOST_NUMBERS))


def _log(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, 1e-300))


def _log_normal(squares: np.ndarray, deviation: np.ndarray | float) -> np.ndarray:
    """Return log N(y; prediction, deviation^2) of squared errors."""
    return -0.5 * squares / deviation**2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)


def _r2(
    squares: np.ndarray, numbers: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return 1 - squared errors [m, N] / squared distances of numbers [N] to the mean: [m]."""
    mean = np.average(np.broadcast_to(numbers, squares.shape), axis=1, weights=weights)
    spread = np.average((numbers - mean[:, None]) ** 2, axis=1, weights=weights)
    return 1.0 - np.average(squares, axis=1, weights=weights) / np.maximum(spread, 1e-300)


def _new_r2(squares: np.ndarray, numbers: np.ndarray, dice: np.random.Generator) -> np.ndarray:
    """Return R^2 [m] on sentences weighted at random: the Bayesian bootstrap (Rubin, 1981)."""
    return _r2(squares, numbers, dice.exponential(size=squares.shape))
