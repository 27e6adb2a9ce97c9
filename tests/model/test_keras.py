"""The model as a citizen of Keras: configurations, files, summary, mixed precision."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from aevnmt_tf.model import Aevnmt
from tests import tiny

CASES = {
    "cond": ("cond", {"share_vocab": True, "tie_embeddings": True}),
    "joint": ("joint", {"decoder_style": "tf_nmt", "num_lm_layers": 2}),
    "KLq": ("KLq", {"gru_reset": "after", "num_encoder_layers": 4, "num_decoder_layers": 2}),
    "l2": ("l2", {"dropout": 0.2, "word_dropout": 0.1, "label_smoothing": 0.1}),
}


@pytest.fixture(scope="module", params=list(CASES))
def model(request):
    system, options = CASES[request.param]
    return tiny.build(system, vocab_y=tiny.VOCAB_X, **options)


def test_every_layer_is_what_its_configuration_says(model):
    ours = [
        layer
        for layer in model._flatten_layers(include_self=False)
        if type(layer).__module__.startswith("aevnmt_tf")
    ]
    assert {type(part) for part in model.parts().values()} <= {type(layer) for layer in ours}
    for layer in ours:
        config = json.loads(json.dumps(layer.get_config()))
        other = type(layer).from_config(config)
        other.build()
        assert other.get_config() == layer.get_config()
        assert [(v.name, v.shape) for v in other.weights] == [
            (v.name, v.shape) for v in layer.weights
        ]


def test_a_model_is_rebuilt_from_its_configuration(model):
    config = json.loads(json.dumps(model.get_config()))
    other = Aevnmt.from_config(config)
    assert other.get_config() == model.get_config()
    other.set_weights(model.get_weights())
    batch = tiny.batch()
    noise, other_noise = model.noise(batch, 3), other.noise(batch, 3)
    for one, two in zip(
        model.loss_terms(batch, noise), other.loss_terms(batch, other_noise), strict=True
    ):
        np.testing.assert_array_equal(one, two)


def test_weights_survive_a_file(model, tmp_path):
    path = str(tmp_path / "model.weights.h5")
    model.save_weights(path)
    other = Aevnmt.from_config(model.get_config())
    other.load_weights(path)
    loaded = tiny.weights(other)
    for layer, variables in tiny.weights(model).items():
        for name, array in variables.items():
            np.testing.assert_array_equal(loaded[layer][name], array)


def test_a_model_survives_a_keras_file(tmp_path):
    model = tiny.build("KLr")
    path = str(tmp_path / "model.keras")
    model.save(path)
    other = keras.saving.load_model(path)
    batch = tiny.batch()
    for one, two in zip(model(batch), other(batch), strict=True):
        np.testing.assert_array_equal(one, two)


def test_summary_names_the_parts_and_counts_weights(model):
    lines = []
    model.summary(print_fn=lambda line, **_: lines.append(line))
    text = "\n".join(lines)
    for name, part in model.parts().items():
        (row,) = (line for line in text.splitlines() if f" {part.name} " in line)
        assert f"{part.count_params():,}" in row, name
    assert f"Total params: {model.count_params():,}" in text
    assert "unbuilt" not in text


MIXED = """
import json, sys
import keras, numpy as np, tensorflow as tf
from aevnmt_tf.model import objective
from tests import tiny

found = {}
for policy in ("float32", "mixed_bfloat16", "mixed_float16"):
    keras.config.set_dtype_policy(policy)
    for system, style in (("JS", "paper"), ("cond", "tf_nmt")):
        model = tiny.build(system, decoder_style=style, dropout=0.2, word_dropout=0.1)
        batch = tiny.batch()
        noise = model.noise(batch, 1)
        with tf.GradientTape() as tape:
            terms = model.loss_terms(batch, noise)
            loss = objective.loss(terms)
        gradients = tape.gradient(loss, model.trainable_variables)
        z = model.z_for_prediction(batch["x"], batch["x_len"])
        memory, state = model.start(batch["x"], batch["x_len"], z)
        logits, state, _ = tiny.step(model, memory, state, batch["y"][:, 0])
        found[f"{policy} {system}"] = {
            "loss": loss.numpy().tolist(),
            "norm": float(tf.linalg.global_norm(gradients)),
            "kept": sorted({t.dtype.name for t in [*terms, logits]}),
            "weights": sorted({v.dtype for v in model.trainable_variables}),
            "gradients": sorted({g.dtype.name for g in gradients}),
            "computed": sorted({h.dtype.name for h in state.hidden} | {memory.keys.dtype.name}),
        }
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def mixed():
    """What each policy gives. In a process of its own: a CPU may hide what bfloat16 needs."""
    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
        "PYTHONPATH": str(root),
    }
    done = subprocess.run(
        [sys.executable, "-c", MIXED], env=environment, cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("system", ["JS", "cond"])
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_keeps_softmax_kl_and_loss_in_float32(mixed, policy, system):
    found, plain = mixed[f"{policy} {system}"], mixed[f"float32 {system}"]
    assert found["kept"] == ["float32"]
    assert found["weights"] == found["gradients"] == ["float32"]
    assert found["computed"] == [policy.removeprefix("mixed_")]
    tolerance = {"mixed_bfloat16": 0.05, "mixed_float16": 0.005}[policy]
    np.testing.assert_allclose(found["loss"], plain["loss"], rtol=tolerance)
    assert found["loss"] != plain["loss"]
    np.testing.assert_allclose(found["norm"], plain["norm"], rtol=2 * tolerance)
