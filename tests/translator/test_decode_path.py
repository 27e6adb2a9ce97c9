"""The graph from text to text: z, and what is served."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.translator import Decoding, decision
from tests.tiny_translator import LINES, make


@pytest.mark.slow
def test_served_graph_is_the_offline_one(shared, tmp_path):
    """What export traces: strings to strings in one graph."""
    decoding = Decoding.of(shared.hp, n_best=2)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(source):
        x, x_len, _ = shared.graph.encode(source)
        found, _ = decision.decide(
            shared.graph, x, x_len, seeds=tf.zeros_like(x_len), decoding=decoding
        )
        return shared.graph.translations(found, x_len)

    module = tf.Module()
    module.graph, module.serve = shared.graph, serve
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    texts, scores = loaded.serve(tf.constant(LINES))
    for row, translations in enumerate(shared.n_best(LINES, n_best=2)):
        for k, translation in enumerate(translations):
            assert texts[row, k].numpy().decode() == translation.text
            np.testing.assert_allclose(scores[row, k], translation.score, rtol=1e-4)


def test_z_as_the_model_was_trained():
    for system in ("source_only", "KLq", "l2"):
        t = make(system)
        x, x_len, _ = t.graph.encode(tf.constant(LINES[:2]))
        np.testing.assert_allclose(t.graph.z(x, x_len), t.model.predict_z(x, x_len).mean())
    assert make("cond").graph.z(x, x_len) is None


def test_z_zero_and_sample(shared):
    x, x_len, _ = shared.graph.encode(tf.constant(["a b c"] * 2000))
    assert not shared.graph.z(x[:2], x_len[:2], kind="zero").numpy().any()
    z = shared.graph.z(x, x_len, kind="sample", seeds=tf.range(2000)).numpy()
    q = shared.model.predict_z(x[:1], x_len[:1]).distribution
    np.testing.assert_allclose(z.mean(0), q.loc[0], atol=4 * q.scale[0].numpy().max() / 44)
    np.testing.assert_allclose(z.std(0), q.scale[0], rtol=0.08)
    again = shared.graph.z(x[:5], x_len[:5], kind="sample", seeds=tf.constant([4, 3, 2, 1, 0]))
    np.testing.assert_allclose(again, z[4::-1], rtol=1e-5, atol=1e-6)


def test_z_sample_of_a_point_is_the_point():
    t = make("l2")
    x, x_len, _ = t.graph.encode(tf.constant(LINES[:2]))
    z = t.graph.z(x, x_len, kind="sample", seeds=tf.range(2))
    np.testing.assert_allclose(z, t.graph.z(x, x_len))
