"""The loop that all searches share."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from aevnmt_tf import search
from tests.search.toy import Toy, graph, listed, run

PENALTIES = (0.0, 0.6, 1.0, 2.0, -0.5)


@given(seed=st.integers(0, 10**6), width=st.integers(1, 4), weight=st.sampled_from(PENALTIES))
@settings(max_examples=3)
def test_a_sentence_does_not_depend_on_its_batch(seed, width, weight):
    toy = Toy(seed, vocab=6, eos_bias=0.5)
    sources, limits = toy.sources(9), [3, 12, 1, 6, 2, 9, 2, 2, 5]

    def beam(rows):
        problem = toy.problem(sources[rows], [limits[r] for r in rows])
        return search.beam(problem, width=width, n_best=width, length_penalty_weight=weight)

    together = beam(list(range(9)))
    for row in (1, 3, 4):
        alone = beam([row])
        assert listed(alone)[0] == listed(together)[row]
        np.testing.assert_allclose(alone.scores[0], together.scores[row], rtol=1e-5)
    shuffled = [4, 1, 8, 0]
    assert listed(beam(shuffled)) == [listed(together)[row] for row in shuffled]


def test_sentences_that_are_done_cost_nothing():
    sizes = []

    def step(memory, state, y):
        sizes.append(int(tf.shape(y)[0]))
        time = state[:, 0] + 1
        logits = tf.where(time[:, None] >= memory * 1.0, [[0.0, 0.0, 9.0]], [[0.0, 0.0, -9.0]])
        return logits, state + 1, tf.zeros([tf.shape(y)[0], 1])

    lengths = [1] + 3 * [2] + 6 * [6] + 6 * [9]
    ends = tf.constant(lengths, tf.float32)[:, None]
    got = search.greedy(search.SearchProblem(step, ends, tf.zeros([16, 1]), tf.fill([16], 20)))
    assert list(got.lengths[:, 0]) == lengths
    assert sizes == [16, 16, 12, 12, 12, 12, 6, 6, 6]  # one of 16 is not worth a copy


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_min_length_forbids_the_end(kind):
    toy = Toy(5, vocab=6, eos_bias=4.0)
    sources = toy.sources(3)
    problem = toy.problem(sources, [9, 9, 9], min_length=9)
    got = run(kind, problem)
    assert (got.lengths.numpy() == 9).all()
    for row, hypotheses in enumerate(listed(got)):
        for k, ids in enumerate(hypotheses):
            expected = toy.log_prob(sources[row], ids)
            np.testing.assert_allclose(got.log_probs[row, k], expected, rtol=1e-4)


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_attention_of_the_chosen_hypotheses(kind):
    toy = Toy(6, vocab=6)
    sources = toy.sources(4)
    got = run(kind, toy.problem(sources, [9, 2, 6, 9], with_attention=True))
    assert got.attention.shape == [*got.ids.shape, 3]
    for row, hypotheses in enumerate(listed(got)):
        for k, ids in enumerate(hypotheses):
            expected = np.zeros(got.attention.shape[2:])
            expected[: len(ids)] = toy.follow(sources[row], ids)[1]
            np.testing.assert_allclose(got.attention[row, k], expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_in_a_graph_or_not(kind):
    toy = Toy(7, vocab=6)
    sources, limits = toy.sources(5), [9, 2, 6, 9, 1]
    plain = run(kind, toy.problem(sources, limits, with_attention=True))
    in_graph = graph(lambda: run(kind, toy.problem(sources, limits, with_attention=True)))
    assert listed(plain) == listed(in_graph)
    np.testing.assert_allclose(plain.scores, in_graph.scores, rtol=1e-5)
    np.testing.assert_allclose(plain.attention, in_graph.attention, atol=1e-5)


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_saved_and_loaded(kind, tmp_path):
    toy = Toy(8, vocab=6)
    module = tf.Module()

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, toy.units], tf.float32),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def decode(memory, limits):
        state = tf.zeros([tf.size(limits), toy.units])
        return run(kind, search.SearchProblem(toy.step, memory, state, limits))._asdict()["ids"]

    module.decode = decode
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    for batch in (1, 6):
        sources, limits = toy.sources(batch), [7, 3, 9, 4, 1, 2][:batch]
        expected = run(kind, toy.problem(sources, limits)).ids
        np.testing.assert_array_equal(
            loaded.decode(tf.constant(sources), tf.constant(limits)), expected
        )


def test_state_may_be_any_nest():
    toy = Toy(9, vocab=6)
    sources = toy.sources(3)

    def step(memory, state, y):
        logits, h, attention = toy.step(memory["keys"][0], state["h"][0], y)
        return logits, {"h": (h,), "count": state["count"] + 1}, attention

    state = {"h": (tf.zeros([3, toy.units]),), "count": tf.zeros([3], tf.int32)}
    limits = tf.constant([8, 3, 5])
    got = graph(
        lambda: run(
            "beam", search.SearchProblem(step, {"keys": [tf.constant(sources)]}, state, limits)
        )
    )
    assert listed(got) == listed(run("beam", toy.problem(sources, [8, 3, 5])))


@pytest.mark.parametrize("width", [1, 3])
def test_attention_in_half_precision(width):
    """As the nets of a mixed_bfloat16 model give it."""
    toy = Toy(16, vocab=6)
    sources = toy.sources(2)
    whole = toy.problem(sources, [6, 6], with_attention=True)

    def step(memory, state, y):
        logits, state, attention = toy.step(memory, state, y)
        return logits, state, tf.cast(attention, tf.bfloat16)

    got, expected = (search.beam(t, width=width) for t in (whole._replace(step=step), whole))
    assert got.attention.dtype == tf.float32
    np.testing.assert_allclose(got.attention, expected.attention, atol=1e-2)


def test_an_empty_batch():
    toy = Toy(0)
    for kind in ("greedy", "beam", "sample"):
        got = run(kind, toy.problem(toy.sources(0), []))
        assert got.ids.shape[0] == 0
