"""The training step: the update it makes, on one device and on two, and what it leaves out."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import hparams
from aevnmt_tf import model as models
from aevnmt_tf.model import objective
from aevnmt_tf.training import train_step
from aevnmt_tf.training.optimizer import APPLY, Adam

V = 11


def settings(**overrides):
    small = {"num_units": 6, "z_dim": 3, "batch_size": 4, "dropout": 0.0, "optimizer": "sgd"}
    return hparams.load(None, **{**small, "learning_rate": 0.5, **overrides})


def batch(seed=0, rows=4):
    rng = np.random.default_rng(seed)
    made = {"weight": np.ones(rows, "float32"), "row": np.arange(rows, dtype="int32")}
    for side in "xy":
        made[side] = rng.integers(3, V, (rows, 5)).astype("int32")
        made[f"{side}_len"] = rng.integers(1, 6, rows).astype("int32")
    return {name: tf.constant(value) for name, value in made.items()}


def build(**overrides):
    return train_step.build(settings(**overrides), V, V)


def weights(model):
    return [v.numpy() for v in model.trainable_variables]


def expected_update(model, data, *, limit, kl_weight=1.0):
    """Gradient of the mean loss, clipped by global norm, through TensorFlow's own functions."""
    noise = model.noise(data, model.batches)
    with tf.GradientTape() as tape:
        losses = objective.loss(model.loss_terms(data, noise), kl_weight=kl_weight)
        mean = tf.reduce_sum(data["weight"] * losses) / tf.reduce_sum(data["weight"])
    gradients = tape.gradient(mean, model.trainable_variables)
    return tf.clip_by_global_norm(gradients, limit)


def test_sgd_moves_by_the_clipped_mean_gradient():
    limit = 0.1
    model, data = build(max_gradient_norm=limit), batch()
    data["weight"] = tf.constant([1.0, 1.0, 0.0, 1.0])
    gradients, norm = expected_update(model, data, limit=limit)
    before = weights(model)
    report = tf.function(model.train_on)(data)
    assert float(norm) > limit
    assert float(report["gradient_norm"]) == pytest.approx(float(norm), rel=1e-5)
    for old, new, g in zip(before, weights(model), gradients, strict=True):
        np.testing.assert_allclose(new, old - 0.5 * g.numpy(), rtol=1e-5, atol=1e-6)


def test_accumulated_gradients_are_those_of_one_large_batch():
    parts = [batch(1), batch(2)]
    whole = {name: tf.concat([p[name] for p in parts], axis=0) for name in parts[0]}
    limit = 1000.0  # so that nothing is clipped
    model = build(gradient_accumulation_steps=2, model_type="joint", max_gradient_norm=limit)
    gradients, norm = expected_update(model, whole, limit=limit)
    assert 0.1 < float(norm) < limit
    before = weights(model)
    run = tf.function(model.train_on)
    run(parts[0])
    assert all((a == b).all() for a, b in zip(before, weights(model), strict=True))
    assert (int(model.updates), int(model.batches)) == (0, 1)
    run(parts[1])
    assert (int(model.updates), int(model.batches)) == (1, 2)
    for old, new, g in zip(before, weights(model), gradients, strict=True):
        np.testing.assert_allclose(new, old - 0.5 * g.numpy(), rtol=1e-5, atol=1e-6)


def test_adam_is_kingma_and_ba_s():
    variable = tf.Variable([1.0, -2.0])
    holder = build(optimizer="adam").optimizer
    assert holder.epsilon == 1e-8

    kept = keras.Variable(variable)
    optimizer = Adam(0.1)
    optimizer.build([kept])
    m = v = np.zeros(2)
    value = np.array([1.0, -2.0])
    for t, gradient in enumerate(([0.5, -1.0], [0.1, 3.0], [0.0, -2.0]), start=1):
        optimizer.update(
            [tf.constant(gradient)],
            [kept],
            scale=tf.constant(2.0),
            action=tf.constant(APPLY),
            learning_rate=tf.constant(0.1),
        )
        g = 2.0 * np.array(gradient)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        rate = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        value = value - rate * m / (np.sqrt(v) + 1e-8)
        np.testing.assert_allclose(kept.numpy(), value, rtol=1e-5)
    assert int(optimizer.iterations) == 3


@pytest.mark.parametrize("accumulation", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_step_that_is_not_finite_changes_nothing(accumulation):
    model = build(optimizer="adam", gradient_accumulation_steps=accumulation)
    run = tf.function(model.train_on)
    run(batch(1))
    bad = batch(2)
    bad["weight"] = tf.constant([1.0, np.nan, 1.0, 1.0])
    before = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    report = run(bad)
    after = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    assert all((a == b).all() for a, b in zip(before, after, strict=True))
    assert report["skipped"] == 1.0
    assert report["loss"] == 0.0 and np.isfinite(report["gradient_norm"])
    assert int(model.batches) == 2
    assert run(batch(3))["skipped"] == 0.0


def test_a_skipped_batch_leaves_the_statistics_of_bn_scale():
    """They move with the forward pass, which is finite up to q here; the loss is not."""
    model, bad = build(bn_scale=0.6), batch(2)
    run = tf.function(model.train_on)
    run(batch(1))
    statistics = [v.numpy() for v in model.posterior.non_trainable_variables]
    assert len(statistics) == 2 and np.all(statistics[0] != 0.0)
    model.emb_y.embeddings.assign(np.nan * model.emb_y.embeddings)
    assert run(bad)["skipped"] == 1.0
    after = [v.numpy() for v in model.posterior.non_trainable_variables]
    np.testing.assert_array_equal(after, statistics)


def test_schedules_follow_the_updates_done():
    model = build(KL_annealing_steps=4, warmup_steps=2, learning_rate=0.1)
    run = tf.function(model.train_on)
    reports = [run(batch()) for _ in range(6)]
    assert [float(r["kl_weight"]) for r in reports] == [0, 0.25, 0.5, 0.75, 1, 1]
    rates = [float(r["learning_rate"]) for r in reports[:3]]
    assert rates == pytest.approx([0.001, 0.01, 0.1])


@pytest.mark.slow
def test_noise_changes_with_the_batch_and_not_with_the_run():
    runs = []
    for _ in range(2):
        model = build(dropout=0.5, learning_rate=1e-12)
        run = tf.function(model.train_on)
        runs.append([float(run(batch())["loss"]) for _ in range(3)])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 3


@pytest.mark.slow
def test_compiled_and_not_are_the_same_step():
    results = []
    for jit in ("true", "false"):
        model = build(jit_compile=jit, dropout=0.3, output_dropout=0.2)
        report = tf.function(model.train_on)(batch())
        results.append((report, weights(model)))
        concrete = model.gradients.get_concrete_function(
            batch(), model.noise(batch(), 0), tf.constant(1.0)
        )
        attributes = concrete.function_def.attr
        assert attributes["_XlaMustCompile"].b == (jit == "true")
    (one, ones), (other, others) = results
    assert float(one["loss"]) == pytest.approx(float(other["loss"]), rel=1e-5)
    for a, b in zip(ones, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [["sgd", "adam", "accumulation", "compiled"], ["lstm"], ["consistency"], ["bn_scale"]],
)
def test_one_device_and_two_make_the_same_update(names):
    script = Path(__file__).with_name("two_devices.py")
    done = subprocess.run([sys.executable, script, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert list(result) == names
    for name in names:
        tolerance = 1e-4 if name == "adam" else 1e-5
        assert result[name]["difference"] < tolerance, result
        assert result[name]["reports"] < 1e-5, result
        clipped_to = 0.5 if name == "lstm" else 1.0
        assert result[name]["gradient_norm"] > clipped_to  # so that clipping was active


def test_precision_is_the_settings_own_whatever_was_built_before():
    kept = keras.config.dtype_policy()
    try:
        assert build(precision="mixed_bfloat16").decoder.compute_dtype == "bfloat16"
        assert build().decoder.compute_dtype == "float32"
    finally:
        keras.config.set_dtype_policy(kept)


def test_evaluation_batches_have_rows_of_a_whole_set():
    """What keras' evaluate and validation_data call; a filler weighs nothing and is row -1."""
    model, data = build(label_smoothing=0.2, model_type="joint"), batch()
    data |= {"row": tf.constant([9, 10, 11, -1]), "weight": tf.constant([1.0, 1.0, 1.0, 0.0])}
    found = tf.function(model.measure)(data)
    assert float(found["pairs"]) == 3
    smoothing = tf.reduce_sum(data["weight"] * model.loss_terms(data).smoothing)
    expected = float(found["nll_x"] + found["nll_y"] + smoothing)
    assert float(found["loss"]) == pytest.approx(expected, rel=1e-6)  # as training has it
    model = build()
    first = model.measure(data)
    assert all(np.isfinite(float(value)) for value in first.values())
    assert float(first["loss"]) == float(model.measure(data)["loss"])


def dataset(*batches):
    return tf.data.Dataset.from_generator(
        lambda: iter(batches),
        output_signature={
            name: tf.TensorSpec([None, *value.shape[1:]], value.dtype)
            for name, value in batches[0].items()
        },
    )


@pytest.mark.parametrize(
    "system", ["cond", pytest.param("joint", marks=pytest.mark.slow), "aevnmt"]
)
def test_fit_and_evaluate_show_means_over_all_pairs(system):
    """Batches of different sizes; a mean of the batches' means would be another number."""
    options = {"model_type": system, "KL_annealing_steps": 4, "free_bits": 0.5}
    model, other = build(**options), build(**options)
    other.set_weights(model.get_weights())
    parts = [batch(seed=1, rows=4), batch(seed=2, rows=2)]
    history = model.fit(dataset(*parts), validation_data=dataset(*parts), verbose=0).history
    assert (int(model.batches), int(model.updates)) == (2, 2)  # the end of the data is no batch
    totals = [other.train_on(part) for part in parts]
    trained, measured = (
        {name: float(sum(one[name] for one in each)) for name in each[0]}
        for each in (totals, [other.measure(part) for part in parts])
    )
    for prefix, sums in (("", trained), ("val_", measured)):
        for name in ("loss", "nll_y"):
            expected = sums[name] / sums["pairs"]
            assert history[prefix + name][-1] == pytest.approx(expected, rel=1e-5)
        accuracy = sums["correct_y"] / sums["y_tokens"]
        assert history[f"{prefix}accuracy_y"][-1] == pytest.approx(accuracy, rel=1e-5)
    assert ("nll_x" in history, "kl" in history) == (system != "cond", system == "aevnmt")
    if system == "aevnmt":
        elbo = -(measured["nll_x"] + measured["nll_y"] + measured["kl"]) / measured["pairs"]
        assert history["val_elbo"][-1] == pytest.approx(elbo, rel=1e-5)
    again = model.evaluate(dataset(*parts), return_dict=True, verbose=0)
    assert again["loss"] == pytest.approx(history["val_loss"][-1], rel=1e-6)


@pytest.mark.parametrize("accumulation", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_keras_file_goes_on_where_training_was(tmp_path, accumulation):
    options = {"optimizer": "adam", "gradient_accumulation_steps": accumulation}
    model = build(KL_annealing_steps=9, **options)
    for seed in range(3):
        model.train_on(batch(seed))
    path = str(tmp_path / "model.keras")
    model.save(path)
    other = keras.saving.load_model(path)
    assert isinstance(other, train_step.TrainableAevnmt)
    found, expected = other.train_on(batch(3)), model.train_on(batch(3))
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(float(value), rel=1e-6), name
    for a, b in zip(weights(other), weights(model), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_a_keras_file_knows_which_corpus_has_no_translations(tmp_path):
    text = {"src": "en", "tgt": "de", "train_prefix": ["a", "b"], "mono_prefix": "c"}
    model = build(**text)
    model.save(str(tmp_path / "model.keras"))
    other = keras.saving.load_model(str(tmp_path / "model.keras"))
    assert other.mono_corpus == model.mono_corpus == 2


def test_weights_of_a_model_in_training_fit_a_plain_one(tmp_path):
    model = build()
    model.save_weights(str(tmp_path / "model.weights.h5"))
    plain = models.Aevnmt.from_config(model.get_config())
    plain.load_weights(str(tmp_path / "model.weights.h5"))
    for a, b in zip(plain.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
