"""Dev bounds against the model's own loss terms, computed one pair and one draw at a time."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.data.pair_encoding import EncodedPairs, Sequences
from aevnmt_tf.model import importance, objective
from aevnmt_tf.nets import noise
from aevnmt_tf.training.dev_bounds import BoundsFunction
from tests import tiny


def bounds_of(model, *, samples, **options):
    loss = functools.partial(objective.loss, **options)
    return BoundsFunction(model, samples=samples, seed=1, loss=loss)


def encode(pairs):
    def side(index):
        parts = [(np.array(p[index], np.int32), np.array([len(p[index])])) for p in pairs]
        return Sequences.join(parts)

    return EncodedPairs(side(0), side(1))


@pytest.mark.parametrize("system", ["source_only", "KLq"])
def test_bounds_do_not_depend_on_batches(system):
    model = tiny.build(system)
    function = bounds_of(model, samples=3)
    encoded = encode(tiny.PAIRS)
    small, large = (function([encoded], batch_size=size) for size in (2, 5))
    assert small.values == pytest.approx(large.values, rel=1e-5)
    assert small.values["elbo"] <= small.values["iw_log_pxy"] + 1e-5
    assert small.locs.shape == small.scales.shape == (5, 4)
    assert (small.scales > 0).all()
    np.testing.assert_allclose(small.locs, large.locs, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(small.kl_by_dimension, large.kl_by_dimension, rtol=1e-4)
    assert small.kl_by_dimension.sum() == pytest.approx(small.values["kl"], rel=1e-5)


def test_a_batch_is_no_larger_than_the_logits_of_one_draw_allow(monkeypatch):
    """The budget knows the vocabulary; the values do not depend on it."""
    model = tiny.build("joint")
    function, encoded = bounds_of(model, samples=1), encode(tiny.PAIRS)
    whole = function([encoded], batch_size=5)
    longest = max(encoded.x.lengths.max(), encoded.y.lengths.max())
    vocabulary = max(model.emb_x.vocab_size, model.decoder.vocab_size)
    monkeypatch.setattr(importance, "MOST_LOGITS", 2 * int(longest) * vocabulary)
    sizes, batch = [], function._batch
    monkeypatch.setattr(
        function, "_batch", lambda b, *rest: sizes.append(len(b["row"])) or batch(b, *rest)
    )
    small = function([encoded], batch_size=5)
    assert 2 <= max(sizes) < 5
    assert small.values == pytest.approx(whole.values, rel=1e-5)


def test_values_are_means_over_pairs_and_tokens():
    model = tiny.build("joint", label_smoothing=0.1)
    bounds = bounds_of(model, samples=3)([encode(tiny.PAIRS)], batch_size=2)
    nll_x, nll_y, smoothing, x_tokens = 0.0, 0.0, 0.0, 0
    for x, y in tiny.PAIRS:
        batch = {
            "x": tf.constant([x]),
            "x_len": tf.constant([len(x)]),
            "y": tf.constant([y]),
            "y_len": tf.constant([len(y)]),
        }
        terms = model.loss_terms(batch)
        nll_x, nll_y = nll_x + float(terms.nll_x[0]), nll_y + float(terms.nll_y[0])
        smoothing += float(terms.smoothing[0])
        x_tokens += len(x)
    assert bounds.values["nll_x"] == pytest.approx(nll_x / 5, rel=1e-5)
    assert bounds.values["nll_y"] == pytest.approx(nll_y / 5, rel=1e-5)
    assert bounds.values["nll_x_per_token"] == pytest.approx(nll_x / x_tokens, rel=1e-5)
    # Without z, the bound is the log-likelihood itself.
    assert bounds.values["elbo"] == pytest.approx(-(nll_x + nll_y) / 5, rel=1e-5)
    assert "iw_log_pxy" not in bounds.values and "kl" not in bounds.values
    # The loss is what training minimises, with smoothed labels.
    assert abs(smoothing) > 0.01
    expected = (nll_x + nll_y + smoothing) / 5
    assert bounds.values["loss"] == pytest.approx(expected, rel=1e-5)
    assert bounds.locs is None and bounds.kl_by_dimension is None


def test_draws_are_fixed_and_weighted_as_the_model_does():
    model = tiny.build("source_only")
    encoded = encode(tiny.PAIRS)
    bounds = bounds_of(model, samples=3)([encoded], batch_size=2)
    width_x, width_y = (max(len(p[i]) for p in tiny.PAIRS) for i in (0, 1))
    batch = {
        "x": tf.constant([p[0] + [2] * (width_x - len(p[0])) for p in tiny.PAIRS]),
        "x_len": tf.constant([len(p[0]) for p in tiny.PAIRS]),
        "y": tf.constant([p[1] + [2] * (width_y - len(p[1])) for p in tiny.PAIRS]),
        "y_len": tf.constant([len(p[1]) for p in tiny.PAIRS]),
    }
    epsilon = tf.stack(
        [
            noise.normal(
                (4,),
                seed=noise.seed_for("dev", seed=1, step=sample),
                rows=tf.range(5),
                num_rows=5,
            )
            for sample in range(3)
        ]
    )
    log_w = importance.weigh(model, batch, epsilon).log_w_xy
    expected = float(tf.reduce_mean(importance.importance_weighted(log_w)))
    assert bounds.values["iw_log_pxy"] == pytest.approx(expected, rel=1e-5)
    terms = [model.loss_terms(batch, {"epsilon": epsilon[sample]}) for sample in range(3)]
    expected = np.mean([objective.elbo(t) for t in terms])
    assert bounds.values["elbo"] == pytest.approx(expected, rel=1e-5)


def test_several_sets_count_as_one():
    model = tiny.build("joint")
    function = bounds_of(model, samples=1)
    whole = function([encode(tiny.PAIRS)], batch_size=2)
    parts = function([encode(tiny.PAIRS[:2]), encode(tiny.PAIRS[2:])], batch_size=2)
    assert parts.values == pytest.approx(whole.values, rel=1e-5)


def test_an_interruption_ends_it():
    model = tiny.build("joint")
    function = bounds_of(model, samples=1)
    assert function([encode(tiny.PAIRS)], batch_size=2, interrupted=lambda: True) is None


def test_the_loss_has_free_bits_and_the_kl_weight():
    model = tiny.build("KLq")
    found = bounds_of(model, samples=2, free_bits=100.0)(
        [encode(tiny.PAIRS)], batch_size=2, kl_weight=0.25
    ).values
    rest = 0.25 * (100.0 + found["r_divergence"])
    assert found["loss"] == pytest.approx(found["nll_x"] + found["nll_y"] + rest, rel=1e-5)
    assert found["elbo"] == pytest.approx(
        -(found["nll_x"] + found["nll_y"] + found["kl"]), rel=1e-5
    )
