"""Random numbers of a training step as pure functions of (seed, step, row).

A row is the position of a sentence in the global batch. A step draws the numbers of the whole
global batch and takes its own rows, so that one device, two devices and two processes see the
same noise. All of this is outside of what XLA compiles: on a CPU, drawing masks inside doubles
the time of a step.
"""

import zlib

import tensorflow as tf

Shape = tuple[tf.Tensor | int, ...]


def seed_for(name: str, *, seed: int, step: tf.Tensor | int) -> tf.Tensor:
    """Return the seed [2] of one stream of random numbers."""
    pair = tf.stack([tf.cast(seed, tf.int32), tf.cast(step, tf.int32)])
    return tf.random.experimental.stateless_fold_in(
        pair, zlib.crc32(name.encode()) & 0x7FFFFFFF
    )


def dropout_mask(
    shape: Shape, *, rate: float, seed: tf.Tensor, rows: tf.Tensor, num_rows: int
) -> tf.Tensor:
    """Return 0 with probability `rate`, else 1 / (1 - rate): [B] + shape.

    For the given rows [B] of num_rows. The rate is exact to 1/65536: a random word of 32 bits
    gives two entries.
    """
    size = tf.reduce_prod(tf.convert_to_tensor([num_rows, *shape]))
    words = tf.random.stateless_uniform([(size + 1) // 2], seed, None, None, tf.uint32)
    bits = tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:size]  # [num_rows * prod(shape)]
    bits = tf.gather(tf.reshape(bits, [num_rows, *shape]), rows)
    keep = bits >= tf.cast(round(rate * 65536), tf.uint16)
    return tf.cast(keep, tf.float32) * (1.0 / (1.0 - rate))


def normal(
    shape: Shape, *, seed: tf.Tensor, rows: tf.Tensor, num_rows: tf.Tensor | int
) -> tf.Tensor:
    """Return standard normal numbers, [B] + shape for the given rows [B] of num_rows."""
    return tf.gather(tf.random.stateless_normal([num_rows, *shape], seed), rows)
