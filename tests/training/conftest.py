"""A tiny corpus of ids and the settings of a tiny model, for tests of the loop."""

import keras
import numpy as np
import pytest
import tensorflow as tf

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
    from aevnmt_tf.data.pair_encoding import EncodedPairs, Sequences

    random = np.random.default_rng(3)

    def side():
        parts = []
        for _ in range(30):
            words = random.integers(3, VOCABULARY, random.integers(1, 7))
            ids = np.append(words, 2).astype(np.int32)
            parts.append((ids, np.array([len(ids)])))
        return Sequences.join(parts)

    return EncodedPairs(side(), side())


@pytest.fixture
def training_data(encoded):
    """Return a function that gives the training data of some settings."""
    from aevnmt_tf.data.training_data import TrainingData

    def make(hp):
        return TrainingData(
            [[encoded]],
            batch_size=hp.batch_size,
            num_buckets=hp.num_buckets,
            seed=hp.random_seed,
        )

    return make


class ToyModel(keras.Model):
    """A model with one weight vector and the training interface of the real one.

    Its loss depends on the batch, on the number of batches seen (as noise would) and on the
    weights. Batches whose number is in `bad` give a loss that is not finite.
    """

    def __init__(self, *, bad=(), on_batch=None):
        super().__init__()
        self.bad = tf.constant(list(bad), tf.int64)
        self.on_batch = on_batch
        self.built = True
        self.source_lm = self.posterior = self.decoder = "there"  # so that every report key is
        self.prediction = None
        self.kernel = self.add_weight(shape=(3,), initializer="ones", name="kernel")
        self.batches = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.updates = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.pending_pairs = tf.Variable(0.0, trainable=False)
        self.compile(optimizer=keras.optimizers.Adam(0.01))
        self.optimizer.build(self.trainable_variables)

    def get_config(self):
        return {}

    def counters(self):
        names = ("batches", "updates", "pending_pairs")
        return {name: getattr(self, name) for name in names}

    def train_on(self, batch):
        if self.on_batch is not None:
            tf.py_function(lambda n: self.on_batch(int(n)), [self.batches], [])
        with tf.GradientTape() as tape:
            x = tf.reduce_sum(tf.cast(batch["x"], tf.float32))
            y = tf.reduce_sum(tf.cast(batch["y"], tf.float32))
            noise = tf.random.stateless_normal([], [1, tf.cast(self.batches, tf.int32)])
            features = tf.stack([x / 100.0, y / 100.0, noise])
            loss = tf.reduce_sum(tf.square(self.kernel * features - 1.0))
        is_bad = tf.reduce_any(self.bad == self.batches)
        gradient = tape.gradient(loss, self.kernel) * tf.where(is_bad, 0.0, 1.0)
        self.optimizer.apply_gradients([(gradient, self.kernel)])
        self.batches.assign_add(1)
        self.updates.assign_add(1)
        names = ("nll_x", "nll_y", "kl", "r_divergence", "correct_x", "correct_y")
        return {
            **{name: loss / 4.0 for name in names},
            "loss": tf.where(is_bad, float("nan"), loss),
            "pairs": tf.reduce_sum(batch["weight"]),
            "x_tokens": tf.cast(tf.reduce_sum(batch["x_len"]), tf.float32),
            "y_tokens": tf.cast(tf.reduce_sum(batch["y_len"]), tf.float32),
            "gradient_norm": tf.norm(gradient),
            "kl_weight": tf.constant(1.0),
            "learning_rate": tf.constant(0.01),
            "skipped": tf.cast(is_bad, tf.float32),
        }


@pytest.fixture
def toy_model():
    """Return the class of a model that trains in no time."""
    return ToyModel
