"""Reports: the warning of a collapsed z, from the information in z and not the KL alone."""

import pytest

from aevnmt_tf import hparams
from aevnmt_tf.training.reporting import collapse_warning


def evaluation(kl, information, units):
    return {
        "dev_kl": kl,
        "dev_information": information,
        "dev_active_units": units,
        "dev_collapsed": information < 0.1,
    }


@pytest.mark.parametrize(
    "step, values, expected",
    [
        (20, evaluation(3.9, 0.01, 0), True),  # a healthy KL hides nothing
        (20, evaluation(3.9, 1.2, 8), False),
        (5, evaluation(3.9, 0.01, 0), False),  # the KL weight still grows
        (5, {"kl": 0.05}, True),  # z cannot tell more than the KL
        (20, {"kl": 3.9}, False),
        (20, {"nll_y": 1.0}, False),  # no z
        (20, {"kl": None}, False),
    ],
)
def test_when_it_warns(step, values, expected):
    hp = hparams.load(None, KL_annealing_steps=10)
    found = collapse_warning(hp, step, values)
    assert (found is not None) == expected
    if expected:
        for name in ("free_bits", "word_dropout", "KL_annealing_steps", "z_dim"):
            assert name in found
