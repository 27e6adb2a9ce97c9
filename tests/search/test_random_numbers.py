"""Random numbers of a sentence."""

import numpy as np
import tensorflow as tf

from aevnmt_tf import search
from aevnmt_tf.search import random_numbers


def test_threefry_gives_the_published_words():
    """The known answers of Random123 for threefry2x32 with 20 rounds."""

    def words(*numbers):
        return tuple(tf.constant([[n]], tf.uint32) for n in numbers)

    known = [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]
    for key, counter, expected in known:
        got = random_numbers._threefry(words(*key), words(*counter))
        assert tuple(int(word[0, 0]) for word in got) == expected


def test_uniforms_are_uniform_and_unrelated():
    u = np.concatenate([search.uniforms(tf.range(200), stream=t, count=50) for t in range(10)])
    assert u.min() >= 0 and u.max() < 1
    counts = np.histogram(u, bins=20, range=(0, 1))[0]
    assert ((counts - 5000) ** 2 / 5000).sum() < 43.8  # p = 0.001 with 19 degrees of freedom
    assert abs(np.corrcoef(u[:, 0], u[:, 1])[0, 1]) < 0.08
    assert abs(np.corrcoef(u[:200].ravel(), u[200:400].ravel())[0, 1]) < 0.04
