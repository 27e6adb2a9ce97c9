"""Scores of pairs, against one pass of the model."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import search, text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.model import importance
from aevnmt_tf.translator import line_encoder
from tests.tiny_translator import LINES, make


@pytest.mark.parametrize(
    "system",
    ["source_only", *(pytest.param(s, marks=pytest.mark.slow) for s in ("KLq", "l2"))],
)
def test_score_is_the_models_bound(system):
    """Against one pass of the model over all samples at once."""
    t = make(system)
    sources, targets = ["a b c", "d"], ["e f", "g h a b"]
    got = t.score(sources, targets, samples=3)
    x, x_len, _ = t.graph.encode(tf.constant(sources))
    y = text.append_eos(t.y_tokenizer.encode(tf.constant(targets)))
    batch = {"x": x, "x_len": x_len, "y": y.to_tensor(text.EOS)}
    batch["y_len"] = tf.cast(y.row_lengths(), tf.int32)
    seeds = line_encoder.line_seeds(1, np.arange(2))
    epsilon = tf.stack([search.normals(seeds, stream=-3 - s, count=4) for s in range(3)])
    draws = importance.weigh(t.model, batch, tf.constant(epsilon))
    expected = {
        "iw_log_pxy": importance.importance_weighted(draws.log_w_xy),
        "iw_log_px": importance.importance_weighted(draws.log_w_x),
        "ess": importance.effective_sample_size(draws.log_w_xy),
        "kl": tf.reduce_sum(t.model.loss_terms(batch).kl, -1),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4)
    np.testing.assert_allclose(got["elbo"], got["log_px"] + got["log_py"] - got["kl"])
    np.testing.assert_allclose(got["iw_log_py"], got["iw_log_pxy"] - got["iw_log_px"])


def test_score_of_systems_without_z():
    assert set(make("cond").score(["a"], ["b"])) == {"log_py"}
    joint = make("joint").score(["a"], ["b"])
    assert set(joint) == {"elbo", "log_px", "log_py"}


def test_score_is_what_translate_says(shared):
    source = [line for line in LINES if line.strip()]
    best = [found[0] for found in shared.n_best(source)]
    whole = [k for k, t in enumerate(best) if "<unk>" not in t.text and len(t.text.split()) < 9]
    scores = shared.score([source[k] for k in whole], [best[k].text for k in whole], samples=1)
    log_probs = [best[k].log_prob for k in whole]
    np.testing.assert_allclose(scores["log_py_at_mean"], log_probs, rtol=1e-4)


def test_a_pair_scores_the_same_in_any_batch(shared):
    sources, targets = LINES, LINES[::-1]
    together = shared.score(sources, targets, samples=2)
    alone = shared.score(sources[:1], targets[:1], samples=2)
    for name, values in alone.items():
        np.testing.assert_allclose(values[0], together[name][0], rtol=1e-4, atol=1e-4)
    with pytest.raises(UserError, match="9 sources but 1 target"):
        shared.score(LINES, ["a"])
