"""What z is, given lines."""

import numpy as np
import pytest

from aevnmt_tf.cli.errors import UserError
from tests.tiny_translator import LINES, make


def test_embed(shared):
    loc, scale = shared.embed(LINES)
    assert loc.shape == scale.shape == (len(LINES), 4) and (scale > 0).all()
    alone = shared.embed(LINES[1:2])
    np.testing.assert_allclose(alone[0][0], loc[1], rtol=1e-4, atol=1e-5)
    assert not make("l2").embed(["a"])[1].any()
    with pytest.raises(UserError, match="model_type cond.* has no z"):
        make("cond").embed(["a"])
