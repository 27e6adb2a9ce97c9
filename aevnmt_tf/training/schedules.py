"""Quantities that follow from the number of updates done: KL weight and learning rate.

Every function here is pure and takes the number of updates as a Python number or as an
integer tensor, so that a resumed run continues exactly where it was.
"""

from typing import Any, TypeAlias

import tensorflow as tf

Number: TypeAlias = Any  # of Python, or a tensor

# How TF-NMT's decay schemes share out num_train_steps: the part of it that passes before the
# first decay starts, and how often the rate is halved in the rest.
DECAY_SCHEMES = {"luong5": (1 / 2, 5), "luong10": (1 / 2, 10), "luong234": (2 / 3, 4)}
# Ours: from the first update straight to 0 at num_train_steps.
LINEAR = "linear"
WARMUP_SCHEMES = ("t2t",)


def kl_weight(updates: Number, annealing_steps: int, cycles: int = 1) -> Number:
    """Return the weight of KL(q || p): linear from 0 to 1 over `annealing_steps` updates.

    Without annealing (0 steps) it is 1 from the start. With several cycles it stays at 1 for
    just as long and starts again at 0, until after the last cycle's start it stays at 1 for
    good: Fu et al. (2019), with their R = 0.5.
    """
    # DEVIATION: the authors' code starts again at 0 when a run is resumed; ours follows from
    # the number of updates alone.
    if not annealing_steps:
        return tf.constant(1.0) if tf.is_tensor(updates) else 1.0
    position = _float(updates)
    if cycles > 1:
        length = 2.0 * annealing_steps
        position = position - length * _at_most(cycles - 1.0, position // length)
    return _at_most(1.0, position / float(annealing_steps))


def learning_rate(
    updates: Number,
    *,
    base: float,
    warmup_steps: int = 0,
    warmup_scheme: str = "t2t",
    decay_scheme: str = "",
    num_train_steps: int = 0,
) -> Number:
    """Return the learning rate of the update that follows `updates` updates, as in TF-NMT.

    Args:
        updates: number of updates done, a Python number or an integer tensor.
        base: the rate without warm-up and decay.
        warmup_steps: length of the warm-up; the rate starts at a hundredth of `base`.
        warmup_scheme: "t2t", the one scheme of TF-NMT.
        decay_scheme: "" (none), "luong5", "luong10", "luong234", or "linear", which TF-NMT
            does not have.
        num_train_steps: the length of training that the decay schemes divide.
    """
    rate = _float(base)
    if warmup_steps:
        if warmup_scheme not in WARMUP_SCHEMES:
            raise ValueError(f"unknown warmup_scheme {warmup_scheme!r}.")
        # exp(log(0.01) / warmup_steps) ** (warmup_steps - updates) below warmup_steps, else 1
        remaining = _at_least(
            0.0, (float(warmup_steps) - _float(updates)) / float(warmup_steps)
        )
        rate = rate * 0.01**remaining
    if decay_scheme == LINEAR:
        rate = rate * _at_least(0.0, 1.0 - _float(updates) / float(num_train_steps))
    elif decay_scheme:
        start, interval = decay_points(decay_scheme, num_train_steps=num_train_steps)
        halvings = _at_least(0.0, (_float(updates) - float(start)) // float(interval))
        rate = rate * 0.5**halvings
    if tf.is_tensor(updates) and not tf.is_tensor(rate):
        rate = tf.constant(rate, tf.float32)
    return rate


def decay_points(decay_scheme: str, *, num_train_steps: int) -> tuple[int, int]:
    """Return (start, interval) in updates: halve at start + interval, start + 2 interval ..."""
    if decay_scheme not in DECAY_SCHEMES:
        raise ValueError(f"unknown decay_scheme {decay_scheme!r}.")
    share, times = DECAY_SCHEMES[decay_scheme]
    start = int(num_train_steps * share)
    # DEVIATION: with fewer steps than halvings TF-NMT divides by zero; ours halves each step.
    return start, max(1, int((num_train_steps - start) / times))


def _float(value: Number) -> Number:
    return tf.cast(value, tf.float32) if tf.is_tensor(value) else float(value)


def _at_least(bound: float, value: Number) -> Number:
    return tf.maximum(bound, value) if tf.is_tensor(value) else max(bound, value)


def _at_most(bound: float, value: Number) -> Number:
    return tf.minimum(bound, value) if tf.is_tensor(value) else min(bound, value)
