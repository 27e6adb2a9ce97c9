"""A tiny corpus of ids and the settings of a tiny model, for tests of the loop."""

import numpy as np
import pytest

from aevnmt_tf import hparams

VOCABULARY = 20


@pytest.fixture
def settings(tmp_path):
    """Return a function that gives settings of a tiny run in tmp_path/run."""

    def make(**changes):
        values = {
            "num_units": 8,
            "z_dim": 4,
            "dropout": 0.2,
            "word_dropout": 0.1,
            "KL_annealing_steps": 10,
            "batch_size": 4,
            "learning_rate": 0.01,
            "num_train_steps": 20,
            "check_convergence_every": 0,
            "num_buckets": 2,
            "steps_per_stats": 5,
            "steps_per_external_eval": 10,
            "steps_per_checkpoint": 10,
            "src": "en",
            "tgt": "de",
            "train_prefix": "unused",
            "out_dir": str(tmp_path / "run"),
        }
        return hparams.load(None, **{**values, **changes})

    return make


@pytest.fixture(scope="session")
def encoded():
    """Return 30 random pairs as ids."""
    from aevnmt_tf.data.encode import EncodedPairs, Sequences

    random = np.random.default_rng(3)

    def side():
        parts = []
        for _ in range(30):
            words = random.integers(3, VOCABULARY, random.integers(1, 7))
            ids = np.append(words, 2).astype(np.int32)
            parts.append((ids, np.array([len(ids)])))
        return Sequences.join(parts)

    return EncodedPairs(side(), side(), np.arange(30, dtype=np.int32))


@pytest.fixture
def training_data(encoded):
    """Return a function that gives the training data of some settings."""
    from aevnmt_tf import data

    def make(hp):
        return data.TrainingData(
            [encoded],
            batch_size=hp.batch_size,
            num_buckets=hp.num_buckets,
            seed=hp.random_seed,
        )

    return make
