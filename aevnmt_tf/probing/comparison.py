"""Probes of several kinds of features on the same held-out sentences, and baselines."""

import dataclasses
from typing import Any

import numpy as np

from aevnmt_tf.probing import hmc_chains, linear_models, probe_scores
from aevnmt_tf.probing.features import Features
from aevnmt_tf.probing.probe_task import ProbeTask


@dataclasses.dataclass(frozen=True)
class ProbeResult:
    """The result of a probe of one kind of features.

    Predictions are P(class) [N, K], or a number and the ends of its interval [3, N].
    """

    name: str
    dimensions: int | None  # None for a baseline without features
    is_baseline: bool
    measures: dict[str, probe_scores.Measure]
    predictions: np.ndarray  # for the held-out sentences
    posterior: linear_models.Posterior | None = None  # None for a baseline without features

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt the result."""
        if self.posterior is None:
            return []
        found, r_hat = [], self.posterior.diagnostics.r_hat
        if r_hat > hmc_chains.LARGEST_R_HAT:
            found.append(
                f"{self.name}: R-hat is {r_hat:.3f}, so the chains have not converged: "
                "increase --num_warmup and --num_draws"
            )
        if self.posterior.draws.divergences:
            found.append(
                f"{self.name}: {self.posterior.draws.divergences} draws diverged, so the "
                "intervals may be too narrow: increase --num_warmup"
            )
        return found


def learn(
    features: Features,
    task: ProbeTask,
    *,
    options: hmc_chains.SamplerOptions,
    prior_scale: float,
) -> ProbeResult:
    """Train and test a probe; the other arguments are those of linear_models.classify."""
    train, test = (features.values[rows] for rows in (~task.held_out, task.held_out))
    how: dict[str, Any] = {"options": options, "prior_scale": prior_scale}
    if task.classes is None:
        posterior = linear_models.regress(train, task.train, **how)
        found = probe_scores.number_scores(posterior, test, task.test, seed=options.seed)
    else:
        count = len(task.classes)
        posterior = linear_models.classify(train, task.train, num_classes=count, **how)
        found = probe_scores.class_scores(posterior, test, task.test, seed=options.seed)
    size = features.values.shape[1]
    return ProbeResult(features.name, size, features.is_baseline, *found, posterior)


def without_features(task: ProbeTask, *, seed: int) -> ProbeResult:
    """Return the baseline that ignores the sentence: the majority class, or the mean."""
    if task.classes is None:
        found = probe_scores.mean_scores(task.train, task.test, seed=seed)
        return ProbeResult("mean", None, True, *found)
    count = len(task.classes)
    found = probe_scores.majority_scores(task.train, task.test, num_classes=count, seed=seed)
    return ProbeResult("majority class", None, True, *found)
