"""Pairs out of nothing but z."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import text
from aevnmt_tf.cli.errors import UserError
from tests.tiny_translator import WORDS, make


def test_sample_from_the_prior(shared):
    pairs = shared.sample(6, seed=3)
    assert len(pairs) == 6 and len(set(pairs)) > 1
    assert pairs == shared.sample(6, seed=3) and pairs != shared.sample(6, seed=4)
    assert pairs[:2] == shared.sample(2, seed=3), "a pair does not depend on the others"
    assert all(len(x.split()) <= shared.hp.src_max_len + 1 for x, _ in pairs)
    assert len(make("joint").sample(2)) == 2
    with pytest.raises(UserError, match="a cond model has no P"):
        make("cond").sample(1)


def test_sources_follow_the_language_model():
    """How often a sample starts with each word, against P(x_1) = E_z[P(x_1|z)] of joint."""
    t = make("joint", infer_batch_size=2000, scale=0.4)
    pairs = t.sample(2000, temperature=1.0)
    lm = t.model.source_lm
    state = lm.begin(None, tf.zeros([1], tf.int32))
    logits, _ = lm.step(state, t.model.emb_x(tf.constant([text.SOS])))
    probs = tf.nn.softmax(logits)[0].numpy()
    first = [x.split()[0] if x else "</s>" for x, _ in pairs]
    for word in range(3, len(WORDS)):
        expected = 2000 * probs[word]
        assert abs(first.count(WORDS[word]) - expected) < 4 * np.sqrt(expected) + 1


def test_interpolate(shared):
    pairs = shared.interpolate("a b c", "h", steps=5)
    assert len(pairs) == 5
    assert pairs[0] == shared.interpolate("a b c", "e f", steps=2)[0]
    assert pairs[-1] == shared.interpolate("h", "e f", steps=2)[0]
