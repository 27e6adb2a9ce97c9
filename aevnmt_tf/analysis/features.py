"""Sentences as vectors: z, the average state of an encoder, and random numbers."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from aevnmt_tf import nets
from aevnmt_tf.errors import UserError
from aevnmt_tf.translator import tensors

KINDS = ("mean", "sample", "both")


class Features(NamedTuple):
    """Vectors of sentences."""

    name: str
    values: np.ndarray  # [N, D]
    is_baseline: bool = False


def z_features(translator, lines, *, kind, seed):
    """z of each line: the mean of its posterior, a draw from it, or both, as Features.

    Args:
        translator: of a model with a latent variable.
        lines: N sentences.
        kind: "mean", "sample" or "both".
        seed: of the draws; a line's depend on it and on the line's place.
    """
    loc, scale = translator.embed(lines)
    found = []
    if kind in ("mean", "both") or is_point(translator):
        found.append(Features("z mean", loc))
    if kind in ("sample", "both") and not is_point(translator):
        epsilon = np.random.default_rng([seed, 6]).normal(size=loc.shape)
        found.append(Features("z sample", loc + scale * epsilon.astype(np.float32)))
    return found


def is_point(translator):
    """Whether z is predicted as a point, which has nothing to draw."""
    return isinstance(translator.model.prediction, nets.PointNetwork)


def z_origin(translator):
    """Which distribution z is from, in words."""
    if translator.model.prediction is None:
        return "q(z|x)"
    name = "the point r(x)" if is_point(translator) else "r(z|x)"
    return f"{name}, which the model predicts with: its q(z|x, y) reads the target, too"


def check_has_z(translator, run):
    """A UserError for a model without z."""
    if translator.model.posterior is None:
        kind = translator.hp.model_type
        raise UserError(
            f"{run} is a {kind} model and has no z to probe: give an aevnmt run as --model; "
            f"--baseline_model compares it with the encoder of a {kind} run"
        )


def encoder_average(translator, lines):
    """The average state [N, 2H] of a model's encoder over each line's own subwords and </s>.

    An encoder that starts from z gets the mean one.
    """
    model, lines = translator.model, list(lines)

    @tf.function(input_signature=[tensors.MATRIX, tensors.VECTOR], autograph=False)
    def average(x, x_len):
        z = model.z_for_prediction(x, x_len)
        states = tf.cast(model.encoder(model.emb_x(x), x_len, z), tf.float32)  # [B, Tx, 2H]
        real = tf.sequence_mask(x_len, tf.shape(x)[1])[:, :, None]
        total = tf.reduce_sum(tf.where(real, states, 0.0), axis=1)
        return total / tf.cast(x_len, tf.float32)[:, None]

    found = np.zeros([len(lines), 2 * translator.hp.num_units], np.float32)
    for rows, _, x, x_len in translator.batches(lines):
        found[rows] = average(x, x_len)
    return found


def lengths(translator, lines):
    """The number of subwords of each line, without </s>, as the model reads it: [N]."""
    lines = list(lines)
    found = np.zeros(len(lines))
    for rows, _, _, x_len in translator.batches(lines):
        found[rows] = x_len.numpy() - 1
    return found


def random_features(count, *, size, seed):
    """Standard normal numbers [N, size] that know nothing of the sentences."""
    return np.random.default_rng([seed, 7]).normal(size=[count, size])
