"""Trains on one device and on two from the same start; prints how far the weights are apart.

Run by test_train_step.py with the names of cases, in a process of its own: the number of
logical devices is fixed once TensorFlow has started. Models of different sizes need different
processes, because the collectives of a second strategy have the keys of the first one's.
"""

import json
import sys

import numpy as np
import tensorflow as tf

from aevnmt_tf import hparams
from aevnmt_tf.training import train_step
from aevnmt_tf.training.optimizer import averaged_weights

ROWS, SHARD = 5, 3
# With bn_scale its gradient is 0 up to round-off: normalisation removes what it adds.
WITHOUT_EFFECT = "q_u_out/bias"
CASES = {
    "sgd": {"optimizer": "sgd", "learning_rate": 0.5},
    "adam": {"optimizer": "adam", "learning_rate": 0.01, "ema_decay": 0.9},
    "accumulation": {
        "optimizer": "sgd",
        "learning_rate": 0.5,
        "gradient_accumulation_steps": 3,
    },
    "lstm": {
        "optimizer": "sgd",
        "learning_rate": 0.5,
        "model_type": "cond",
        "unit_type": "lstm",
        "attention": "scaled_luong",
        "num_layers": 2,
        "pass_hidden_state": True,
        "max_gradient_norm": 0.5,
    },
    "consistency": {"optimizer": "sgd", "learning_rate": 0.5, "consistency_weight": 2.0},
    "bn_scale": {"optimizer": "sgd", "learning_rate": 0.5, "bn_scale": 0.6},
    "compiled": {"optimizer": "sgd", "learning_rate": 0.5, "jit_compile": "true"},
}


def batches():
    """Batches of five rows, the last one a filler, as `data` makes them."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        lengths = {side: rng.integers(1, 7, ROWS).astype("int32") for side in "xy"}
        batch = {"weight": np.ones(ROWS, "float32"), "row": np.arange(ROWS, dtype="int32")}
        for side, length in lengths.items():
            length[-1] = 1
            batch[side] = rng.integers(3, 11, (ROWS, 6)).astype("int32")
            batch[f"{side}_len"] = length
        batch["weight"][-1] = 0.0
        yield {name: tf.constant(value) for name, value in batch.items()}


def train(strategy, settings):
    """The weights after three batches, those to evaluate, and the last step's report."""
    hp = hparams.load(
        None,
        num_units=8,
        z_dim=4,
        batch_size=ROWS,
        dropout=0.3,
        word_dropout=0.2,
        output_dropout=0.1,
        **settings,
    )
    with strategy.scope():
        model = train_step.build(hp, 11, 11)
    run = tf.function(lambda batch: strategy.run(model.train_on, (batch,)))
    for batch in batches():
        size = SHARD if strategy.num_replicas_in_sync > 1 else ROWS

        def rows(context, batch=batch, size=size):
            first = context.replica_id_in_sync_group * size
            return {name: value[first : first + size] for name, value in batch.items()}

        report = run(strategy.experimental_distribute_values_from_function(rows))
    report = {n: strategy.experimental_local_results(v)[0] for n, v in report.items()}
    variables = model.trainable_variables
    compared = [v for v in variables if not (hp.bn_scale and v.path.endswith(WITHOUT_EFFECT))]
    statistics = model.non_trainable_variables
    with averaged_weights(model.optimizer, variables, strategy=strategy):
        local = [strategy.experimental_local_results(v.value)[-1] for v in compared]
        evaluated = [part.numpy() for part in local]
    return [*evaluated, *(v.numpy() for v in (*compared, *statistics))], report


def main():
    """Prints one JSON object: for each case the largest relative difference, and the norm."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    devices = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, devices)
    result = {}
    for name in sys.argv[1:]:
        settings = CASES[name]
        one, report = train(tf.distribute.OneDeviceStrategy("CPU:0"), settings)
        two, other = train(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), settings)
        result[name] = {
            "difference": max(
                float(np.abs(a - b).max() / np.abs(a).max())
                for a, b in zip(one, two, strict=True)
            ),
            "reports": max(
                abs(float(report[k]) - float(other[k])) / max(1.0, abs(float(report[k])))
                for k in report
            ),
            "gradient_norm": float(report["gradient_norm"]),
        }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
