"""Probes of several kinds of features on the same held-out sentences, with their baselines."""

import dataclasses

import numpy as np

from aevnmt_tf.analysis import chains, held_out, probe_scores, probes
from aevnmt_tf.errors import UserError


@dataclasses.dataclass(frozen=True)
class Task:
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
    def train(self):
        """What is learned from."""
        return self.values[~self.held_out]

    @property
    def test(self):
        """What is held out."""
        return self.values[self.held_out]


def class_task(texts, labels, *, name="label", **split):
    """The task of telling labels apart: names of classes by sentence; see held_out.split."""
    names = sorted(set(labels))
    if len(names) < 2:
        raise UserError(
            f"all sentences have the {name} {names[0]}: a probe needs at least two classes; "
            "give another --data NAME=PREFIX, or --labels FILE"
        )
    places = {label: place for place, label in enumerate(names)}
    out = held_out.split(texts, labels, **split)
    held_out.check_classes(labels, out)
    return Task(name, np.array([places[label] for label in labels]), names, out)


def number_task(texts, numbers, *, name, **split):
    """The task of predicting a number; see held_out.split."""
    numbers = np.asarray(numbers, np.float64)
    out = held_out.split(texts, held_out.ranks(numbers), **split)
    task = Task(name, numbers, None, out)
    for part in (task.train, task.test):
        if len(set(part.tolist())) < 2:
            raise UserError(
                f"{name} hardly differs between the sentences, so there is nothing to predict: "
                "give more sentences, or another --target"
            )
    return task


@dataclasses.dataclass(frozen=True)
class Result:
    """A probe of one kind of features.

    Attributes:
        name: of the features.
        dimensions: of the features, None for what looks at none.
        is_baseline: whether this is what others are compared with.
        measures: probe_scores.Measure by name.
        predictions: of the held-out sentences: P(class) [N, K], or a number and the two ends of
            its interval [3, N].
        posterior: probes.Posterior, None for what is not learned by sampling.
    """

    name: str
    dimensions: int | None
    is_baseline: bool
    measures: dict[str, probe_scores.Measure]
    predictions: np.ndarray
    posterior: probes.Posterior | None = None

    @property
    def warnings(self):
        """Sentences about what makes the result doubtful."""
        if self.posterior is None:
            return []
        found, (r_hat, _) = [], self.posterior.diagnostics
        if r_hat > chains.LARGEST_R_HAT:
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


def learn(features, task, *, options, prior_scale=probes.PRIOR_SCALE, track=iter):
    """Learn a probe and test it.

    Args:
        features: features.Features of all sentences.
        task: Task.
        options: chains.Options.
        prior_scale: of the weights.
        track: as in chains.sample.
    """
    train, test = (features.values[rows] for rows in (~task.held_out, task.held_out))
    sampling = {"options": options, "prior_scale": prior_scale, "track": track}
    if task.classes is None:
        posterior = probes.regress(train, task.train, **sampling)
        scores = probe_scores.number_scores
    else:
        count = len(task.classes)
        posterior = probes.classify(train, task.train, num_classes=count, **sampling)
        scores = probe_scores.class_scores
    measures, predictions = scores(posterior, test, task.test, seed=options.seed)
    size = features.values.shape[1]
    return Result(features.name, size, features.is_baseline, measures, predictions, posterior)


def without_features(task, *, seed):
    """What is predicted without a look at the sentence: the majority class, or the mean."""
    if task.classes is None:
        found = probe_scores.mean_scores(task.train, task.test, seed=seed)
        return Result("mean", None, True, *found)
    count = len(task.classes)
    found = probe_scores.majority_scores(task.train, task.test, num_classes=count, seed=seed)
    return Result("majority class", None, True, *found)


def counts(task):
    """How many sentences of each class are learned from and held out; None for numbers."""
    if task.classes is None:
        return None
    parts = {"train": task.train, "held_out": task.test}
    return {
        name: {part: int(np.sum(values == place)) for part, values in parts.items()}
        for place, name in enumerate(task.classes)
    }
