"""The written-out gradients of the recurrences against TensorFlow's own, step by step."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.nets import GRU, BiGRU, Embedding
from tests.nets.gradients_by_steps import assert_same, gradients_of, normal, randomise

B, T, E, H = 3, 5, 4, 6
LENGTHS = np.array([5, 2, 3], np.int32)


@pytest.mark.usefixtures("rows_collide")
@pytest.mark.parametrize("reset", ["before", "after"])
def test_recurrences_with_matrices_that_are_apart(reset):
    test_gru_equals_its_own_steps(reset, dropout=True, compiled=False)


@pytest.mark.parametrize(
    ("reset", "dropout", "compiled"),
    [("before", False, False), ("before", True, True), ("after", True, False)],
)
def test_gru_equals_its_own_steps(reset, dropout, compiled):
    rng = np.random.default_rng(1)
    layer = GRU(input_size=E, units=H, reset=reset)
    layer.build()
    randomise(layer, rng)
    mask = normal(rng, B, T, E) if dropout else None
    inputs = [normal(rng, B, T, E), normal(rng, B, H)]

    def by_steps(f, state):
        states = []
        for t in range(T):
            state = layer.step(f[:, t] if mask is None else f[:, t] * mask[:, t], state)
            states.append(state)
        return tf.stack(states, axis=1)

    whole = tf.function(lambda f, s: layer(f, s, dropout=mask), jit_compile=compiled)
    assert_same(gradients_of(whole, layer, inputs), gradients_of(by_steps, layer, inputs))


@pytest.mark.parametrize("reset", ["before", "after"])
def test_bigru_is_two_grus_the_second_from_each_sentence_s_end(reset):
    rng = np.random.default_rng(2)
    both = BiGRU(input_size=E, units=H, reset=reset)
    both.build()
    randomise(both, rng)
    single = GRU(input_size=E, units=H, reset=reset)
    single.build()
    inputs, start = normal(rng, B, T, E), normal(rng, B, H)
    mask = normal(rng, B, T, 2, E)
    found = both(inputs, LENGTHS, start, dropout=mask)
    for index, direction in enumerate(("forward_", "backward_")):
        for name in ("kernel", "recurrent_kernel", "bias"):
            getattr(single, name).assign(getattr(both, direction + name))
        for row, length in enumerate(LENGTHS):
            words = (inputs * mask[:, :, index])[row : row + 1, :length]
            words = words[:, ::-1] if index else words
            states = single(words, start[row : row + 1])
            states = states[:, ::-1] if index else states
            np.testing.assert_allclose(
                found[row, :length, index * H : (index + 1) * H],
                states[0],
                rtol=1e-5,
                atol=1e-6,
            )


@pytest.mark.parametrize("reset", ["before", "after"])
def test_words_that_are_looked_up_once_are_the_words(reset):
    embedding = Embedding(vocab_size=5, units=3)
    layer = BiGRU(input_size=3, units=4, reset=reset)
    for one in (embedding, layer):
        one.build()
    ids = tf.constant([[1, 4, 1, 2], [4, 4, 0, 0]])
    lengths, start = tf.constant([4, 2]), tf.random.normal([2, 4])
    words = embedding.words(ids)

    assert words.vectors.shape[0] == 4  # 1, 4, 2 and 0
    np.testing.assert_allclose(
        layer(words, lengths, start), layer(embedding(ids), lengths, start), atol=1e-6
    )


def test_bigru_ignores_what_is_after_the_end():
    rng = np.random.default_rng(3)
    layer = BiGRU(input_size=E, units=H)
    layer.build()
    inputs, start = rng.normal(size=(B, T, E)).astype("float32"), normal(rng, B, H)
    found = layer(inputs, LENGTHS, start).numpy()
    inputs[1, 2:] = 100.0
    changed = layer(inputs, LENGTHS, start).numpy()
    np.testing.assert_array_equal(found[1, :2], changed[1, :2])


def test_initial_weights_are_those_of_tf_1():
    layer = GRU(input_size=300, units=200)
    layer.build()
    gates, candidate = layer.kernel[:, :400].numpy(), layer.kernel[:, 400:].numpy()
    assert np.abs(gates).max() == pytest.approx(np.sqrt(6 / (500 + 400)), rel=1e-2)
    assert np.abs(candidate).max() == pytest.approx(np.sqrt(6 / (500 + 200)), rel=1e-2)
    recurrent = layer.recurrent_kernel[:, :400].numpy()
    assert np.abs(recurrent).max() == pytest.approx(np.sqrt(6 / (500 + 400)), rel=1e-2)
    np.testing.assert_array_equal(layer.bias, [1.0] * 400 + [0.0] * 200)
