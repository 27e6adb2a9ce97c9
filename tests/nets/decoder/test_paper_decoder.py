"""The paper's decoder: a sentence is its words one by one, and so is a search."""

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.nets import PaperDecoder
from aevnmt_tf.nets.decoder import paper_decoder
from tests import tiny
from tests.nets.gradients_by_steps import (
    assert_same,
    dropout_at,
    gradients_of,
    normal,
    randomise,
)

B, T, E, H = 3, 5, 4, 6


@pytest.mark.parametrize(
    ("reset", "layers", "dropout", "compiled", "fed"),
    [
        ("before", 1, False, False, False),
        ("before", 1, True, True, True),
        ("before", 2, True, False, False),
        ("after", 1, False, False, True),
        ("after", 2, True, False, True),
    ],
)
def test_paper_decoder_equals_its_own_steps(reset, layers, dropout, compiled, fed):
    rng = np.random.default_rng(4)
    decoder = PaperDecoder(
        input_size=E,
        units=H,
        memory_size=2 * H,
        vocab_size=7,
        num_layers=layers,
        reset=reset,
        z_size=3 if fed else None,
        feed_z=fed,
    )
    decoder.build()
    randomise(decoder, rng)
    noise = {}
    if dropout:
        noise = {n: normal(rng, B, *s) for n, s in decoder.noise_shapes(T).items()}
    values, words, z = normal(rng, B, 4, 2 * H), normal(rng, B, T, E), normal(rng, B, 3)
    lengths = tf.constant([4, 1, 2])
    inputs = [words, values, *([z] if fed else [])]

    def whole(words, values, z=None):
        memory, state = decoder.begin(values, lengths, z)
        return decoder.out_y(decoder(words, memory, state, noise=noise)[0])

    def by_steps(words, values, z=None):
        memory, state = decoder.begin(values, lengths, z)
        found = []
        for t in range(T):
            with dropout_at(decoder, noise, t):
                features, state, _ = decoder.step(words[:, t], memory, state)
            found.append(features)
        return decoder.out_y(tf.stack(found, axis=1))

    compiled_whole = tf.function(whole, jit_compile=compiled)
    assert_same(
        gradients_of(compiled_whole, decoder, inputs),
        gradients_of(by_steps, decoder, inputs),
    )


@pytest.mark.usefixtures("rows_collide")
@pytest.mark.parametrize("reset", ["before", "after"])
def test_a_sentence_with_matrices_that_are_apart(reset):
    test_paper_decoder_equals_its_own_steps(
        reset, layers=2, dropout=True, compiled=False, fed=True
    )


@pytest.mark.parametrize(
    "style, width, room, options",
    [
        ("paper", 1, True, {}),
        ("paper", 3, True, {}),
        ("paper", 3, False, {}),
        ("paper", 1, True, {"feed_z": True}),
        ("paper", 3, True, {"feed_z": True}),
        ("paper", 1, True, {"num_decoder_layers": 2, "gru_reset": "after"}),
        ("paper", 3, True, {"num_decoder_layers": 2, "gru_reset": "after"}),
        ("paper", 1, True, {"tie_embeddings": True}),
        ("paper", 3, True, {"tie_embeddings": True}),
        ("tf_nmt", 1, True, {}),
        ("tf_nmt", 3, True, {}),
    ],
)
@pytest.mark.parametrize("has_table", [False, True])
def test_search_step_is_the_models_step(style, width, room, options, has_table, monkeypatch):
    if not room:
        monkeypatch.setattr(paper_decoder, "MOST_PROJECTED", 10)
    model = tiny.build("source_only", decoder_style=style, **options)
    batch = tiny.batch()
    memory, state = model.start(
        batch["x"], batch["x_len"], model.z_for_prediction(batch["x"], batch["x_len"])
    )
    rows = len(tiny.PAIRS) * width
    state = tf.nest.map_structure(
        lambda s: (
            tf.repeat(s, width, axis=0) + tf.random.stateless_normal([rows, s.shape[1]], [1, 2])
        ),
        state,
    )
    y = tf.random.stateless_uniform([rows], [3, 4], 0, tiny.VOCAB_Y, tf.int32)
    tiled = tf.nest.map_structure(lambda m: tf.repeat(m, width, axis=0), memory)
    expected = tiny.step(model, tiled, state, y)
    words = model.decoder.word_table(model.emb_y) if has_table else None
    assert (words is not None) == (has_table and style == "paper")
    step = model.decoder.search_step(model.emb_y, width=width, words=words)
    carried = step.memory(memory)
    if (style, width) == ("paper", 3):
        assert (carried.logits.shape[1] > 0) == room  # where there is none, nothing is kept
    got = step(carried, state, y)
    for a, b in zip(tf.nest.flatten(got), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_large_vocabularies_have_no_table(monkeypatch):
    model = tiny.build("cond")
    monkeypatch.setattr(paper_decoder, "MOST_TABULATED", tiny.VOCAB_Y**2 - 1)
    assert model.decoder.word_table(model.emb_y) is None
