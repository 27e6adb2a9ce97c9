"""Random numbers of a sentence, as pure functions of its seed."""

import tensorflow as tf


def uniforms(seeds: tf.Tensor, *, stream: tf.Tensor | int, count: int) -> tf.Tensor:
    """Return numbers [B, count] in [0, 1) that depend on the stream and on each row's seed.

    Threefry-2x32 of Salmon et al. (2011) gives a row the same numbers in any batch, on any
    device, compiled or not. Each has 23 bits, so that u * total < total in float32.
    """
    bits, _ = _words(seeds, _low_word(tf.cast(stream, tf.int64)), count=count)
    bits = tf.bitwise.right_shift(bits, tf.constant(9, tf.uint32))
    return tf.cast(bits, tf.float32) * 2.0**-23


def split_seeds(seeds: tf.Tensor, *, count: int) -> tf.Tensor:
    """Return independent int64 seeds [B, count], derived from seeds [B]."""
    last = tf.constant(0xFFFFFFFF, tf.uint32)  # a stream that nothing else uses
    low, high = (tf.cast(word, tf.int64) for word in _words(seeds, last, count=count))
    return tf.bitwise.bitwise_or(tf.bitwise.left_shift(high, tf.constant(32, tf.int64)), low)


def normals(seeds: tf.Tensor, *, stream: tf.Tensor | int, count: int) -> tf.Tensor:
    """Return standard normal numbers [B, count], derived from `uniforms`."""
    return tf.math.ndtri(uniforms(seeds, stream=stream, count=count) + 2.0**-24)


def _words(seeds: tf.Tensor, stream: tf.Tensor, *, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return two random words [B, count] for seeds [B] and a stream."""
    seeds = tf.cast(seeds, tf.int64)[:, None]  # [B, 1]
    key = (_low_word(seeds), _low_word(tf.bitwise.right_shift(seeds, 32)))
    places = tf.cast(tf.range(count), tf.uint32)[None]  # [1, count]
    return _threefry(key, (stream + tf.zeros_like(places), places))


def _low_word(number: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.bitwise.bitwise_and(number, tf.constant(0xFFFFFFFF, tf.int64)), tf.uint32)


def _threefry(
    key: tuple[tf.Tensor, tf.Tensor], counter: tuple[tf.Tensor, tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return two words [B, count] for two words [B, 1] of key and two [1, count] of counter."""
    # 20 rounds.
    parity = tf.constant(0x1BD11BDA, tf.uint32)
    xor = tf.bitwise.bitwise_xor
    keys = (key[0], key[1], xor(xor(key[0], key[1]), parity))
    a, b = counter[0] + keys[0], counter[1] + keys[1]
    for block in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
            a = a + b
            left = tf.bitwise.left_shift(b, tf.constant(turn, tf.uint32))
            right = tf.bitwise.right_shift(b, tf.constant(32 - turn, tf.uint32))
            b = xor(a, tf.bitwise.bitwise_or(left, right))
        a = a + keys[(block + 1) % 3]
        b = b + keys[(block + 2) % 3] + tf.constant(block + 1, tf.uint32)
    return a, b
