"""Probes of several kinds of features on the same held-out sentences, with their baselines."""

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.probing import held_out, hmc_chains, linear_models, probe_scores
from aevnmt_tf.probing.features import Features

# The measure that a probe is judged by, first, and others, with their titles.
CLASS_TITLES = {"accuracy": "accuracy", "log_likelihood": "log-lik."}
NUMBER_TITLES = {"r2": "R^2", "rmse": "RMSE", "log_likelihood": "log-lik."}


@dataclasses.dataclass(frozen=True)
class ProbeTask:
    """What is predicted, and on which sentences that is tested.

    Attributes:
        name: of what is predicted, such as label or length.
        values: [N] numbers of classes, or numbers.
        classes: their names, None for numbers.
        held_out: whether a sentence is held out [N].
    """

    name: str
    values: np.ndarray
    classes: list[str] | None
    held_out: np.ndarray

    @property
    def train(self) -> np.ndarray:
        """What is learned from."""
        return self.values[~self.held_out]

    @property
    def test(self) -> np.ndarray:
        """What is held out."""
        return self.values[self.held_out]

    @property
    def titles(self) -> dict[str, str]:
        """Titles of the measures by name, the main one first."""
        return NUMBER_TITLES if self.classes is None else CLASS_TITLES

    def counts(self) -> dict[str, dict[str, int]] | None:
        """Return how many sentences of each class are in each part; None for numbers."""
        if self.classes is None:
            return None
        parts = {"train": self.train, "held_out": self.test}
        return {
            name: {part: int(np.sum(values == place)) for part, values in parts.items()}
            for place, name in enumerate(self.classes)
        }

    def named(self, values: np.ndarray) -> list[Any]:
        """Return the names of classes, or the numbers themselves."""
        if self.classes is None:
            return np.asarray(values).tolist()
        return [self.classes[value] for value in values]


def class_task(
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    share: float,
    seed: int,
    origins: Sequence[Hashable] | None = None,
) -> ProbeTask:
    """Return the task of telling labels apart; other arguments as in held_out.split."""
    names = sorted(set(labels))
    if len(names) < 2:
        raise UserError(
            f"all sentences have the label {names[0]}: a probe needs at least two classes; "
            "give another --data NAME=PREFIX, or --labels FILE."
        )
    out = held_out.split(texts, labels, share=share, seed=seed, origins=origins)
    held_out.check_classes(labels, out)
    return ProbeTask("label", np.array([names.index(label) for label in labels]), names, out)


def number_task(
    texts: Sequence[str],
    numbers: Sequence[float] | np.ndarray,
    *,
    name: str,
    share: float,
    seed: int,
    origins: Sequence[Hashable] | None = None,
) -> ProbeTask:
    """Return the task of predicting a number; other arguments as in held_out.split."""
    numbers = np.asarray(numbers, np.float64)
    strata = held_out.ranks(numbers)
    out = held_out.split(texts, strata, share=share, seed=seed, origins=origins)
    task = ProbeTask(name, numbers, None, out)
    for part in (task.train, task.test):
        if len(set(part.tolist())) < 2:
            raise UserError(
                f"{name} hardly differs between the sentences, so there is nothing to predict: "
                "give more sentences, or another --target."
            )
    return task


@dataclasses.dataclass(frozen=True)
class ProbeResult:
    """A probe of one kind of features.

    Attributes:
        name: of the features.
        dimensions: of the features, None for what looks at none.
        is_baseline: whether this is what others are compared with.
        measures: by name.
        predictions: of the held-out sentences: P(class) [N, K], or a number and the two ends of
            its interval [3, N].
        posterior: None for what is not learned by sampling.
    """

    name: str
    dimensions: int | None
    is_baseline: bool
    measures: dict[str, probe_scores.Measure]
    predictions: np.ndarray
    posterior: linear_models.Posterior | None = None

    @property
    def warnings(self) -> list[str]:
        """Sentences about what makes the result doubtful."""
        if self.posterior is None:
            return []
        found, r_hat = [], self.posterior.diagnostics.r_hat
        if r_hat > hmc_chains.LARGEST_R_HAT:
            found.append(
                f"{self.name}: R-hat is {r_hat:.3f}, so the chains do not agree yet: give more "
                "--num_warmup and --num_draws"
            )
        if self.posterior.draws.divergences:
            found.append(
                f"{self.name}: {self.posterior.draws.divergences} draws diverged, so the "
                "intervals may be too narrow: give more --num_warmup"
            )
        return found


def learn(
    features: Features,
    task: ProbeTask,
    *,
    options: hmc_chains.SamplerOptions,
    prior_scale: float,
    track: hmc_chains.Track = iter,
) -> ProbeResult:
    """Learn a probe from features of all sentences and test it.

    Args:
        features: of all sentences.
        task: what is predicted.
        options: how long the chains run.
        prior_scale: of the weights.
        track: as in hmc_chains.sample.
    """
    train, test = (features.values[rows] for rows in (~task.held_out, task.held_out))
    how: dict[str, Any] = {"options": options, "prior_scale": prior_scale}
    if task.classes is None:
        posterior = linear_models.regress(train, task.train, **how)
        found = probe_scores.number_scores(posterior, test, task.test, seed=options.seed)
    else:
        posterior = linear_models.classify(
            train, task.train, num_classes=len(task.classes), track=track, **how
        )
        found = probe_scores.class_scores(posterior, test, task.test, seed=options.seed)
    size = features.values.shape[1]
    return ProbeResult(features.name, size, features.is_baseline, *found, posterior)


def without_features(task: ProbeTask, *, seed: int) -> ProbeResult:
    """Return what is predicted without a look at the sentence: majority class, or mean."""
    if task.classes is None:
        found = probe_scores.mean_scores(task.train, task.test, seed=seed)
        return ProbeResult("mean", None, True, *found)
    count = len(task.classes)
    found = probe_scores.majority_scores(task.train, task.test, num_classes=count, seed=seed)
    return ProbeResult("majority class", None, True, *found)
