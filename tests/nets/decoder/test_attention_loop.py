"""Decoders over sentences: their written-out gradients against TensorFlow's own, by steps."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.nets.decoder.tf_nmt_decoder import TfNmtDecoder
from aevnmt_tf.nets.tf_nmt.gnmt_decoder import GnmtDecoder
from tests.nets.gradients_by_steps import (
    assert_same,
    dropout_at,
    gradients_of,
    normal,
    randomise,
)

B, T, E, H = 3, 5, 4, 6
FORMS = {
    "authors": (TfNmtDecoder, {}),
    "after": (TfNmtDecoder, {"reset": "after"}),
    "output is the state": (TfNmtDecoder, {"output_attention": False}),
    "layers": (TfNmtDecoder, {"num_layers": 3, "residual_layers": 1, "attention": "luong"}),
    "layers, reset after": (TfNmtDecoder, {"num_layers": 2, "reset": "after"}),
    "lstm": (
        TfNmtDecoder,
        {"num_layers": 2, "unit": "lstm", "residual_layers": 1, "attention": "scaled_luong"},
    ),
    "layer_norm_lstm": (
        TfNmtDecoder,
        {"num_layers": 2, "unit": "layer_norm_lstm", "attention": "normed_bahdanau"},
    ),
    "gnmt": (GnmtDecoder, {"num_layers": 2, "unit": "lstm", "new_context": False}),
    "gnmt_v2": (GnmtDecoder, {"num_layers": 3, "residual_layers": 1, "attention": "luong"}),
}


class Sentences:
    """A decoder with random weights, and what it reads."""

    def __init__(self, form, *, dropout, dtype="float32"):
        rng = np.random.default_rng(4)
        kind, options = FORMS[form]
        self.decoder = kind(
            input_size=E, units=H, memory_size=2 * H, vocab_size=7, dtype=dtype, **options
        )
        self.decoder.build()
        randomise(self.decoder, rng)
        self.lengths = tf.constant([4, 1, 2])
        self.inputs = [normal(rng, B, T, E), normal(rng, B, 4, 2 * H)]
        self.inputs += [normal(rng, *s.shape) for s in self.begin(self.inputs[1])[1].hidden]
        self.noise = {}
        if dropout:
            shapes = self.decoder.noise_shapes(T).items()
            self.noise = {name: normal(rng, B, *shape) for name, shape in shapes}
        self.inputs, self.noise = tf.nest.map_structure(
            lambda tensor: tf.cast(tensor, dtype), (self.inputs, self.noise)
        )

    def begin(self, values, *hidden):
        memory, state = self.decoder.begin(values, self.lengths)
        return memory, state._replace(hidden=hidden) if hidden else state

    def whole(self, words, values, *hidden):
        features, attention = self.decoder(words, *self.begin(values, *hidden), self.noise)
        self.attention = attention
        return self.decoder.out_y.matrix(), features

    def by_steps(self, words, values, *hidden):
        memory, state = self.begin(values, *hidden)
        found = []
        for t in range(T):
            with dropout_at(self.decoder, self.noise, t):
                features, state, attention = self.decoder.step(words[:, t], memory, state)
            found.append((features, attention))
        features, self.attention = (tf.stack(part, axis=1) for part in zip(*found, strict=True))
        return self.decoder.out_y.matrix(), features


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dropout", [False, True])
def test_sentences_equal_their_steps(form, dropout):
    case = Sentences(form, dropout=dropout)
    got = gradients_of(tf.function(case.whole), case.decoder, case.inputs)
    assert_same(got, gradients_of(case.by_steps, case.decoder, case.inputs))
    case.whole(*case.inputs)
    attention = case.attention
    case.by_steps(*case.inputs)
    np.testing.assert_allclose(attention, case.attention, atol=1e-6)


@pytest.mark.parametrize("form", ["authors", "gnmt"])
def test_sentences_compiled_by_xla(form):
    case = Sentences(form, dropout=True)
    compiled = tf.function(case.whole, jit_compile=True)
    assert_same(
        gradients_of(compiled, case.decoder, case.inputs),
        gradients_of(case.by_steps, case.decoder, case.inputs),
    )


@pytest.mark.usefixtures("rows_collide")
@pytest.mark.parametrize("form", ["authors", "layers", "lstm", "gnmt"])
def test_sentences_with_matrices_that_are_apart(form):
    test_sentences_equal_their_steps(form, dropout=True)


@pytest.mark.parametrize("form", ["authors", "layers", "layer_norm_lstm", "gnmt_v2"])
def test_gradients_are_differences_in_float64(form):
    case = Sentences(form, dropout=True, dtype="float64")
    decoder, rng = case.decoder, np.random.default_rng(11)
    target = tf.constant(rng.normal(size=[B, T, H]))

    def value():
        return tf.reduce_sum(case.whole(*case.inputs)[1] * target)

    with tf.GradientTape() as tape:
        tape.watch(case.inputs)
        found = value()
    # out_y reads features alone, and is not part of them.
    variables = [v.value for v in decoder.trainable_variables if "out_y" not in v.path]
    variables = [v for v in variables if v.dtype == tf.float64]
    sources = [*variables, *case.inputs]
    gradients = tape.gradient(found, sources, unconnected_gradients="zero")
    assert len(variables) >= 5
    for index, (source, gradient) in enumerate(zip(sources, gradients, strict=True)):
        direction = rng.normal(size=source.shape)
        sides = []
        for sign in (1, -1):
            moved = source + sign * 1e-6 * direction
            if index < len(variables):
                before = source.numpy()
                source.assign(moved)
                sides.append(value())
                source.assign(before)
            else:
                kept, case.inputs = case.inputs, list(case.inputs)
                case.inputs[index - len(variables)] = moved
                sides.append(value())
                case.inputs = kept
        difference = (sides[0] - sides[1]) / 2e-6
        along = tf.reduce_sum(gradient * direction)
        np.testing.assert_allclose(along, difference, rtol=1e-6, atol=1e-7)


def test_what_is_behind_the_end_of_a_source_changes_nothing():
    for form, dropout in itertools.product(FORMS, [False, True]):
        case = Sentences(form, dropout=dropout)
        words, values, *hidden = case.inputs
        real = tf.sequence_mask(case.lengths, 4, tf.float32)[:, :, None]
        features = case.whole(words, values, *hidden)[1]
        other = case.whole(words, values * real + 9.0 * (1.0 - real), *hidden)[1]
        np.testing.assert_allclose(features, other, atol=1e-6)
