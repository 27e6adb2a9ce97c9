"""What the tests of recurrences share."""

import pytest
import tensorflow as tf

from aevnmt_tf.nets import matrix_products


@pytest.fixture
def rows_collide(monkeypatch):
    """Every matrix is treated as the large ones are whose rows collide in the cache."""
    monkeypatch.setattr(matrix_products, "PAGE", 4)
    assert matrix_products.apart(tf.zeros([2, 3])).shape == (2, 3 + matrix_products.GAP)
