"""Is z in use? The numbers against exact ones, and what they are taken for."""

import math

import numpy as np
import pytest

from aevnmt_tf.evaluation import latent_use
from tests import reference


def density(z, loc, scale):
    return np.exp(-0.5 * ((z - loc) / scale) ** 2) / (scale * math.sqrt(2 * math.pi))


def integral(values, grid):
    return np.trapezoid(values, grid)


# The numbers.


def test_kl_against_an_integral():
    """The KL that the tests of the prior compare with is exact."""
    grid = np.linspace(-15, 15, 200_001)
    loc, scale = np.array([[0.3, -1.0], [2.0, 0.0]]), np.array([[0.5, 1.5], [0.1, 1.0]])
    for index in np.ndindex(2, 2):
        q = density(grid, loc[index], scale[index])
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(q > 1e-300, q * np.log(q / density(grid, 0, 1)), 0)
        found = reference.kl_from_standard(loc, scale)[index]
        assert found == pytest.approx(integral(terms, grid), abs=1e-6)
    assert reference.kl_from_standard(0.0, 1.0) == 0


def test_equal_posteriors_say_nothing():
    loc, scale = np.full([50, 3], 2.5, np.float32), np.full([50, 3], 0.3, np.float32)
    assert latent_use.mutual_information(loc, scale) == pytest.approx(0, abs=1e-9)


def test_posteriors_far_from_each_other_say_all():
    loc = np.arange(40, dtype=np.float32)[:, None] * [[1.0, -1.0]]
    scale = np.full_like(loc, 0.01)
    assert latent_use.mutual_information(loc, scale) == pytest.approx(math.log(40), abs=1e-9)
    # With three copies of each, z tells the copy by chance alone.
    loc, scale = (np.repeat(v, 3, axis=0) for v in (loc, scale))
    assert latent_use.mutual_information(loc, scale) == pytest.approx(math.log(40), abs=1e-9)


def test_mutual_information_against_an_integral(monkeypatch):
    monkeypatch.setattr(
        latent_use, "ROWS", 150
    )  # in parts that do not divide the number of rows
    loc, scale = np.array([-1.0, 0.2, 0.5, 3.0]), np.array([0.4, 1.0, 0.3, 0.7])
    grid = np.linspace(-12, 14, 200_001)
    each = density(grid, loc[:, None], scale[:, None])  # [4, grid]
    mixture = each.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = integral(np.where(each > 1e-300, each * np.log(each / mixture), 0), grid).mean()
    # Copies of all change nothing, and a dimension that is the same for all adds nothing.
    copies = [np.repeat(v, 100)[:, None] for v in (loc, scale)]  # [400, 1]
    found = latent_use.mutual_information(*copies, samples=60)
    assert found == pytest.approx(exact, abs=0.02)
    wider = [np.concatenate([v, np.full_like(v, 0.7)], axis=1) for v in copies]
    assert latent_use.mutual_information(*wider, samples=60) == pytest.approx(exact, abs=0.02)
    kl = reference.kl_from_standard(loc, scale).mean()
    marginal = integral(mixture * np.log(mixture / density(grid, 0, 1)), grid)
    assert kl - marginal == pytest.approx(exact, abs=1e-6)  # the identity of the docstring


@pytest.mark.parametrize("count", [2, 3, 10, 101])
def test_nobody_keeps_their_z(count):
    found = latent_use.derangement(count)
    assert sorted(found) == list(range(count))
    assert (found != np.arange(count)).all()
    assert (found == latent_use.derangement(count)).all()


# Verdicts.


def found_with(*, information, loss_x, loss_y, error=0.01):
    losses = {"log_px_loss": loss_x, "log_py_loss": loss_y}
    errors = {"log_px_loss_error": error, "log_py_loss_error": error}
    return {
        "kl": 3.0,
        "mutual_information": information,
        "mutual_information_error": error,
        "active_units": 2,
        "z_dim": 4,
        "z": {"mean": {"bleu": 30.0}, "other": {"bleu": 20.0, **losses, **errors}},
    }


@pytest.mark.parametrize(
    "numbers, verdict, words",
    [
        (dict(information=0.01, loss_x=5, loss_y=5), "collapsed", "collapsed: "),
        (dict(information=1, loss_x=0, loss_y=2), "in use", "z is in use: "),
        (dict(information=1, loss_x=2, loss_y=0.05), "source only", "for the source only"),
        (dict(information=1, loss_x=-1, loss_y=0), "ignored", "ignored: "),
        (dict(information=1, loss_x=0, loss_y=2, error=1.5), "borderline", "borderline: "),
    ],
)
def test_verdicts(numbers, verdict, words):
    found = latent_use.verdict(found_with(**numbers))
    assert found["verdict"] == verdict and words in found["sentence"]
    assert "KL 3.00 nats" in found["sentence"] and "\n" not in found["sentence"]
