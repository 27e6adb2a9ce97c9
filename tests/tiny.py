"""Models and batches small enough to check by other means."""

import numpy as np
import tensorflow as tf

from aevnmt_tf import hparams
from aevnmt_tf import model as model_module

# The systems by name; a source_target model goes by the name of its D(r, q).
SYSTEMS = {
    "cond": {"model_type": "cond"},
    "joint": {"model_type": "joint"},
    "source_only": {"model_type": "aevnmt", "z_inference_from": "source_only"},
    "vnmt": {"model_type": "vnmt"},
    "mixture": {"model_type": "aevnmt", "prior": "mixture", "prior_components": 3},
    **{
        mode: {
            "model_type": "aevnmt",
            "z_inference_from": "source_target",
            "r_train_mode": mode,
        }
        for mode in ("KLr", "KLq", "JS", "l2")
    },
}
VAE = {"model_type": "vae", "src": "en"}
# All of the menu against collapse that goes together, under one name.
MENU = {
    **SYSTEMS["source_only"],
    "feed_z": True,
    "bn_scale": 0.6,
    "bow_source_weight": 0.3,
    "bow_target_weight": 0.7,
}
LATENT = [name for name in SYSTEMS if name not in ("cond", "joint")]
SOURCE_TARGET = ["KLr", "KLq", "JS", "l2"]

EOS = 2
VOCAB_X, VOCAB_Y = 11, 9

# Ids that end in </s>. Lengths are mixed on purpose: no row is the longest on both sides.
PAIRS = [
    ([3, 4, 5, 6, 7, EOS], [3, 4, EOS]),
    ([8, EOS], [5, 6, 7, 8, 3, 3, EOS]),
    ([EOS], [4, EOS]),
    ([10, 0, 3, EOS], [EOS]),
    ([9, 9, 4, 3, EOS], [0, 8, 7, 4, EOS]),
]


def settings(system, **overrides):
    """Settings of a tiny system without noise."""
    small = {"num_units": 6, "z_dim": 4, "dropout": 0.0, "word_dropout": 0.0, "batch_size": 5}
    chosen = {"menu": MENU, "vae": VAE, **SYSTEMS}[system]
    return hparams.load(None, **{**small, **chosen, **overrides})


def build(system, *, vocab_x=VOCAB_X, vocab_y=VOCAB_Y, seed=0, scale=0.5, **kwargs):
    """A tiny system whose weights, biases too, are all random and far from zero."""
    options = {name: kwargs.pop(name) for name in ("packed", "cls") if name in kwargs}
    hp = settings(system, **kwargs)
    model = model_module.build(hp, vocab_x, vocab_y, **options)
    randomise(model, seed=seed, scale=scale)
    return model


def randomise(model, *, seed, scale=0.5):
    rng = np.random.default_rng(seed)
    for _, variables in sorted(layers(model).items()):
        for _, variable in sorted(variables.items()):
            variable.assign(rng.normal(size=variable.shape) * scale)
    for variable in model.non_trainable_variables:  # moving statistics
        variable.assign(rng.uniform(0.5, 1.5, size=variable.shape))


def layers(model):
    """The variables by layer name and variable name."""
    found = {}
    for layer in model._flatten_layers(include_self=False):
        if not list(layer._flatten_layers(include_self=False)) and layer.trainable_variables:
            variables = {v.name: v for v in layer.trainable_variables}
            assert layer.name not in found or found[layer.name] == variables
            found[layer.name] = variables
    return found


def weights(model):
    """The weights by layer name and variable name, as float64 arrays."""
    return {
        layer: {name: v.numpy().astype(np.float64) for name, v in variables.items()}
        for layer, variables in layers(model).items()
    }


def batch(pairs=PAIRS, *, pad_x=0, pad_y=0, pad_id=EOS):
    """A Batch of the pairs, with pad_x and pad_y columns more than they need."""

    def side(sentences, extra):
        width = max(map(len, sentences)) + extra
        rows = [list(s) + [pad_id] * (width - len(s)) for s in sentences]
        return tf.constant(rows, tf.int32), tf.constant([len(s) for s in sentences], tf.int32)

    x, x_len = side([x for x, _ in pairs], pad_x)
    y, y_len = side([y for _, y in pairs], pad_y)
    size = len(pairs)
    return {
        "x": x,
        "x_len": x_len,
        "y": y,
        "y_len": y_len,
        "weight": tf.ones([size]),
        "corpus": tf.zeros([size], tf.int32),
        "row": tf.range(size),
    }


def step(model, memory, state, y):
    """One word of each row: logits [B, Vy], DecoderState, attention [B, Tx]."""
    features, state, attention = model.decoder.step(model.emb_y(y), memory, state)
    return model.decoder.out_y(features), state, attention


def epsilon(shape, *, seed=3):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
