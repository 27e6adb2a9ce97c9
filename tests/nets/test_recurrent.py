"""The written-out gradients of the recurrences against TensorFlow's own, step by step."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.nets import GRU, BiGRU, Embedding, PaperDecoder, linear

B, T, E, H = 3, 5, 4, 6
LENGTHS = np.array([5, 2, 3], np.int32)


def normal(rng, *shape):
    return tf.constant(rng.normal(size=shape), tf.float32)


def randomise(layer, rng):
    for weight in layer.trainable_variables:
        weight.assign(rng.normal(size=weight.shape) * 0.5)


def gradients_of(function, layer, inputs):
    """The value of a random projection of the outputs, and its gradients."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = tf.nest.flatten(function(*inputs))
        rng = np.random.default_rng(7)
        value = tf.add_n([tf.reduce_sum(o * normal(rng, *o.shape)) for o in outputs])
    sources = [*inputs, *layer.trainable_variables]
    gradients = tape.gradient(value, sources)
    assert all(g is not None for g in gradients)
    return value, gradients


def assert_same(one, other):
    np.testing.assert_allclose(one[0], other[0], rtol=1e-5)
    for a, b in zip(one[1], other[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.fixture
def rows_collide(monkeypatch):
    """Every matrix is treated as the large ones are whose rows collide in the cache."""
    monkeypatch.setattr(linear, "PAGE", 4)
    assert linear.apart(tf.zeros([2, 3])).shape == (2, 3 + linear.GAP)


def test_matrices_whose_rows_collide_are_apart_and_others_as_they_are():
    rng = np.random.default_rng(6)
    inputs = normal(rng, 2, 3)
    for columns, gap in ((512, 16), (511, 0), (768, 0)):
        kernel = normal(rng, 3, columns)
        apart = linear.apart(kernel)
        assert apart.shape == (3, columns + gap)
        np.testing.assert_allclose(
            linear.times(inputs, apart, columns=columns), inputs @ kernel, rtol=1e-5, atol=1e-6
        )
    assert linear.apart(tf.zeros([3, 512], tf.bfloat16)).shape == (3, 512)  # rows of 1 KB
    assert linear.apart(tf.zeros([3, 1024], tf.bfloat16)).shape == (3, 1040)


@pytest.mark.usefixtures("rows_collide")
@pytest.mark.parametrize("reset", ["before", "after"])
def test_recurrences_with_matrices_that_are_apart(reset):
    test_gru_equals_its_own_steps(reset, dropout=True, compiled=False)
    test_paper_decoder_equals_its_own_steps(reset, layers=2, dropout=True, compiled=False)


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


@pytest.mark.parametrize(
    ("reset", "layers", "dropout", "compiled"),
    [
        ("before", 1, False, False),
        ("before", 1, True, True),
        ("before", 2, True, False),
        ("after", 1, False, False),
        ("after", 2, True, False),
    ],
)
def test_paper_decoder_equals_its_own_steps(reset, layers, dropout, compiled):
    rng = np.random.default_rng(4)
    decoder = PaperDecoder(
        input_size=E, units=H, memory_size=2 * H, vocab_size=7, num_layers=layers, reset=reset
    )
    decoder.build()
    randomise(decoder, rng)
    noise = {}
    if dropout:
        noise = {n: normal(rng, B, *s) for n, s in decoder.noise_shapes(T).items()}
    values, words = normal(rng, B, 4, 2 * H), normal(rng, B, T, E)
    lengths = tf.constant([4, 1, 2])

    def whole(words, values):
        memory, state = decoder.begin(values, lengths)
        return decoder.out_y(decoder(words, memory, state, noise=noise)[0])

    def by_steps(words, values):
        memory, state = decoder.begin(values, lengths)
        logits = []
        for t in range(T):
            logits.append(one_step(decoder, words[:, t], memory, state, noise, t))
            state = logits[-1][1]
        return decoder.out_y(tf.stack([features for features, _ in logits], axis=1))

    compiled_whole = tf.function(whole, jit_compile=compiled)
    assert_same(
        gradients_of(compiled_whole, decoder, [words, values]),
        gradients_of(by_steps, decoder, [words, values]),
    )


def one_step(decoder, word, memory, state, noise, t):
    """PaperDecoder.step with masks on the inputs of its cells."""
    if not noise:
        features, state, _ = decoder.step(word, memory, state)
        return features, state
    context, _ = decoder.bahd(state.hidden[0], memory)
    below, hidden = tf.concat([context, word], axis=-1), []
    for layer, old in zip(decoder.grus, state.hidden, strict=True):
        below = layer.step(below * noise[layer.name][:, t], old)
        hidden.append(below)
    return tf.concat([below, word, context], axis=-1), state._replace(hidden=tuple(hidden))


def test_initial_weights_are_those_of_tf_1():
    layer = GRU(input_size=300, units=200)
    layer.build()
    gates, candidate = layer.kernel[:, :400].numpy(), layer.kernel[:, 400:].numpy()
    assert np.abs(gates).max() == pytest.approx(np.sqrt(6 / (500 + 400)), rel=1e-2)
    assert np.abs(candidate).max() == pytest.approx(np.sqrt(6 / (500 + 200)), rel=1e-2)
    recurrent = layer.recurrent_kernel[:, :400].numpy()
    assert np.abs(recurrent).max() == pytest.approx(np.sqrt(6 / (500 + 400)), rel=1e-2)
    np.testing.assert_array_equal(layer.bias, [1.0] * 400 + [0.0] * 200)
