"""Features of sentences: z, and the average encoder state."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import Translator
from aevnmt_tf.translator.decode_path import IDS, LENGTHS


class Features(NamedTuple):
    """Feature vectors of N sentences."""

    name: str
    values: np.ndarray  # [N, D]
    is_baseline: bool = False


def z_features(
    translator: Translator, lines: Sequence[str], *, kind: str, seed: int
) -> list[Features]:
    """Return z per line: the mean of its posterior, a draw from it, or both.

    Args:
        translator: Translator of a model with z.
        lines: N sentences.
        kind: One of probe_request.FEATURES.
        seed: Seed of the draws, which also depend on the position of the line.
    """
    loc, scale = translator.embed(lines)
    found, is_point = [], translator.model.predictor.is_point
    if kind != "sample" or is_point:
        found.append(Features("z mean", loc))
    if kind != "mean" and not is_point:
        epsilon = np.random.default_rng([seed, 6]).normal(size=loc.shape)
        found.append(Features("z sample", loc + scale * epsilon.astype(np.float32)))
    return found


def z_origin(translator: Translator) -> str:
    """Describe the distribution that z comes from."""
    if translator.model.predictor is translator.model.posterior:
        return "q(z|x)"
    if translator.model.prediction is None:
        return "the prior p(z|x), which the model predicts with"
    name = "the point r(x)" if translator.model.predictor.is_point else "r(z|x)"
    return f"{name}, which the model predicts with: its q(z|x, y) reads the target, too"


def check_has_z(translator: Translator, run: str) -> None:
    """Raise a UserError if the model has no z."""
    if translator.model.posterior is None:
        kind = translator.hp.model_type
        raise UserError(
            f"{run} is a {kind} model and has no z to probe: give an aevnmt run as --model. "
            f"To compare it with the encoder of a {kind} run, give that as --baseline_model."
        )


def encoder_average(translator: Translator, lines: Sequence[str]) -> np.ndarray:
    """Return the average encoder state [N, 2H] over the subwords and </s> of each line.

    An encoder that is initialised from z gets its mean.
    """
    model = translator.model
    if model.encoder is None:
        raise UserError("a vae has no encoder: give another --baseline_model.")

    @tf.function(input_signature=[IDS, LENGTHS], autograph=False)
    def average(x: tf.Tensor, x_len: tf.Tensor) -> tf.Tensor:
        z = model.z_for_prediction(x, x_len)
        states = tf.cast(model.encoder(model.emb_x(x), x_len, z), tf.float32)  # [B, Tx, 2H]
        real = tf.sequence_mask(x_len, tf.shape(x)[1])[:, :, None]
        total = tf.reduce_sum(tf.where(real, states, 0.0), axis=1)
        return total / tf.cast(x_len, tf.float32)[:, None]

    found = np.zeros([len(lines), 2 * translator.hp.num_units], np.float32)
    for rows, _, x, x_len in translator.encoder.batches(lines):
        found[rows] = average(x, x_len)
    return found


def lengths(translator: Translator, lines: Sequence[str]) -> np.ndarray:
    """Return the number of subwords per line, without </s>: [N]."""
    found = np.zeros(len(lines))
    for rows, _, _, x_len in translator.encoder.batches(lines):
        found[rows] = x_len.numpy() - 1
    return found
