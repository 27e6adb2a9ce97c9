"""Images of attention."""

import numpy as np

from aevnmt_tf.plots import attention_plot


def test_attention_is_an_image_that_shows_the_weights():
    source, target = ["▁a", "$b", "c_", "</s>"], ["▁x", "</s>"]
    first = attention_plot.attention([[1, 0, 0, 0], [0, 0, 0, 1]], source=source, target=target)
    second = attention_plot.attention(
        [[0, 0, 0, 1], [1, 0, 0, 0]], source=source, target=target
    )
    assert first.dtype == np.uint8 and first.ndim == 3 and first.shape[2] == 3
    assert first.shape == second.shape
    assert (first != second).any()
