"""Matrices padded where their rows would collide in a cache."""

import numpy as np
import tensorflow as tf

from aevnmt_tf.nets import matrix_products
from tests.nets.gradients_by_steps import normal


def test_matrices_whose_rows_collide_are_apart_and_others_as_they_are():
    rng = np.random.default_rng(6)
    inputs = normal(rng, 2, 3)
    for columns, gap in ((512, 16), (511, 0), (768, 0)):
        kernel = normal(rng, 3, columns)
        apart = matrix_products.apart(kernel)
        assert apart.shape == (3, columns + gap)
        np.testing.assert_allclose(
            matrix_products.times(inputs, apart, columns=columns),
            inputs @ kernel,
            rtol=1e-5,
            atol=1e-6,
        )
    assert matrix_products.apart(tf.zeros([3, 512], tf.bfloat16)).shape == (
        3,
        512,
    )  # rows of 1 KB
    assert matrix_products.apart(tf.zeros([3, 1024], tf.bfloat16)).shape == (3, 1040)
