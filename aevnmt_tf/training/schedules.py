"""KL weight and learning rate as pure functions of the number of updates.

A resumed run therefore continues exactly where it was. The number of updates may be a Python
number or an integer tensor; results are float32 tensors.
"""

from typing import TypeAlias

import tensorflow as tf

Updates: TypeAlias = int | tf.Tensor

# TF-NMT's decay schemes: the share of num_train_steps before the decay starts, and the number
# of halvings in the rest.
DECAY_SCHEMES = {"luong5": (1 / 2, 5), "luong10": (1 / 2, 10), "luong234": (2 / 3, 4)}
LINEAR = "linear"  # ours: from the first update straight to 0 at num_train_steps


def kl_weight(updates: Updates, annealing_steps: int, cycles: int = 1) -> tf.Tensor:
    """Return the weight of KL(q || p): linear from 0 to 1 over `annealing_steps` updates.

    Without annealing (0 steps) it is always 1. With several cycles, the weight stays at 1 for
    another `annealing_steps` updates and then restarts at 0; after the ramp of the last cycle
    it stays at 1. This is cyclical annealing (Fu et al., 2019) with R = 0.5.
    """
    # DEVIATION: the authors' code starts again at 0 when a run is resumed; ours follows from
    # the number of updates alone.
    if not annealing_steps:
        return tf.constant(1.0)
    position = tf.cast(updates, tf.float32)
    if cycles > 1:
        length = 2.0 * annealing_steps
        position -= length * tf.minimum(cycles - 1.0, position // length)
    return tf.minimum(1.0, position / annealing_steps)


def learning_rate(
    updates: Updates,
    *,
    base: float,
    warmup_steps: int = 0,
    decay_scheme: str = "",
    num_train_steps: int = 0,
) -> tf.Tensor:
    """Return the learning rate of the update that follows `updates` updates, as in TF-NMT.

    Args:
        updates: number of updates done.
        base: the rate without warm-up and decay.
        warmup_steps: length of TF-NMT's warm-up (scheme t2t), which starts at `base` / 100.
        decay_scheme: "" (none), a key of DECAY_SCHEMES, or LINEAR, which TF-NMT does not have.
        num_train_steps: the length of training that the decay schemes divide.
    """
    updates, rate = tf.cast(updates, tf.float32), tf.constant(base, tf.float32)
    if warmup_steps:
        # exp(log(0.01) / warmup_steps) ** (warmup_steps - updates) below warmup_steps, else 1
        rate *= 0.01 ** tf.maximum(0.0, (warmup_steps - updates) / warmup_steps)
    if decay_scheme == LINEAR:
        rate *= tf.maximum(0.0, 1.0 - updates / num_train_steps)
    elif decay_scheme:
        share, halvings = DECAY_SCHEMES[decay_scheme]
        start = int(num_train_steps * share)
        # DEVIATION: with fewer steps than halvings TF-NMT divides by zero; ours halves in each.
        interval = max(1, int((num_train_steps - start) / halvings))
        rate *= 0.5 ** tf.maximum(0.0, (updates - start) // interval)
    return rate
