"""Settings that are refused."""

import pytest

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError


def refusal(path=None, **overrides):
    """The sentence with which settings are refused."""
    with pytest.raises(UserError) as caught:
        hparams.load(path, **overrides)
    return str(caught.value)
