"""TF-NMT's cells, encoders, attention mechanisms and architectures against NumPy twins."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import model as models
from aevnmt_tf import search
from tests import tiny
from tests.tf_nmt_reference import Twin

# Each value of each setting at least once, GNMT with residual connections among them.
GNMT = {
    "unit_type": "lstm",
    "encoder_type": "gnmt",
    "attention": "normed_bahdanau",
    "residual": True,
    "pass_hidden_state": True,
}
FORMS = {
    "iwslt15": {
        "unit_type": "lstm",
        "attention": "scaled_luong",
        "num_decoder_layers": 2,
        "pass_hidden_state": True,
    },
    "wmt16": {
        "unit_type": "lstm",
        "attention": "normed_bahdanau",
        "num_layers": 4,
        "residual": True,
        "pass_hidden_state": True,
        "forget_bias": 0.3,
    },
    "gnmt_v2": {**GNMT, "attention_architecture": "gnmt_v2", "num_layers": 4},
    "gnmt": {
        **GNMT,
        "attention": "luong",
        "attention_architecture": "gnmt",
        "num_encoder_layers": 3,
        "num_decoder_layers": 2,
        "pass_hidden_state": False,
    },
    "no attention": {
        "unit_type": "layer_norm_lstm",
        "encoder_type": "uni",
        "attention": "",
        "num_layers": 2,
        "residual": True,
        "pass_hidden_state": True,
    },
    "layer_norm_lstm": {
        "unit_type": "layer_norm_lstm",
        "attention": "bahdanau",
        "num_layers": 2,
        "pass_hidden_state": True,
        "forget_bias": 0.5,
    },
    "gru": {
        "encoder_type": "uni",
        "num_encoder_layers": 3,
        "num_decoder_layers": 3,
        "attention": "luong",
        "output_attention": False,
        "pass_hidden_state": True,
    },
}
SYSTEMS = [
    *(("cond", name) for name in FORMS),
    ("joint", "iwslt15"),
    ("source_only", "iwslt15"),
    ("KLq", "gnmt"),
]


class Twins:
    """A model of a form, with noise, and the twin of each of its sentence pairs."""

    def __init__(self, system, form, *, noisy=True, vocab_y=tiny.VOCAB_Y):
        options = {"num_units": 4, "z_dim": 3, **FORMS[form]}
        if system not in ("cond", "joint"):
            options["pass_hidden_state"] = False
        self.model = tiny.build(
            system, vocab_y=vocab_y, dropout=0.4 if noisy else 0.0, **options
        )
        self.hp = tiny.settings(system, **options)
        self.batch = tiny.batch()
        self.noise = self.model.noise(self.batch, step=3) if noisy else {}
        self.weights = tiny.weights(self.model)
        self.z = None
        if self.model.posterior is not None:
            self.z = tiny.epsilon([len(tiny.PAIRS), 3])

    def twin(self, row, weights=None):
        keep = {k: v.numpy()[row].astype(np.float64) for k, v in self.noise.items()}
        z = None if self.z is None else self.z[row].astype(np.float64)
        weights = _split_directions(weights or self.weights)
        keep = _split_masks(keep)
        return Twin(weights, keep=keep, z=z, **self.hp.to_dict())

    def terms(self, rows=None):
        batch, noise, z = self.batch, self.noise, self.z
        if rows is not None:
            batch, noise = ({k: v[:rows] for k, v in d.items()} for d in (batch, noise))
            z = None if z is None else z[:rows]
        z = None if z is None else tf.constant(z)
        return self.model.loss_terms(batch, noise, z=z)


def _split_directions(weights):
    """The weights of a BiGRU layer, the paper's encoder of one layer, as two layers."""
    found = dict(weights)
    for layer in [name for name in weights if name.startswith("bi") and name.endswith("_x")]:
        for side in ("forward", "backward"):
            name = f"{side}_{layer[2:]}"
            prefix = f"{side}_"
            found[name] = {
                k.removeprefix(prefix): w
                for k, w in weights[layer].items()
                if k.startswith(prefix)
            }
    return found


def _split_masks(keep):
    found = dict(keep)
    for layer in [name for name in keep if name.startswith("bi") and name.endswith("_x")]:
        for index, side in enumerate(("forward", "backward")):
            found[f"{side}_{layer[2:]}"] = keep[layer][:, index]
    return found


@functools.cache
def twins(system, form):
    return Twins(system, form)


@pytest.mark.parametrize(("system", "form"), SYSTEMS)
def test_probabilities_agree(system, form):
    both = twins(system, form)
    terms = both.terms()
    for row, (x, y) in enumerate(tiny.PAIRS):
        twin = both.twin(row)
        np.testing.assert_allclose(terms.nll_y[row], -twin.log_py(x, y), rtol=2e-5)
        if both.model.source_lm is not None:
            np.testing.assert_allclose(terms.nll_x[row], -twin.log_px(x), rtol=2e-5)


@pytest.mark.parametrize(("system", "form"), SYSTEMS)
def test_gradients_agree_with_differences(system, form):
    """Along a random direction of each layer."""
    both, rows = twins(system, form), 2
    layers = {
        name: variables
        for name, variables in tiny.layers(both.model).items()
        if not name.startswith(("q_", "r_"))
    }
    with tf.GradientTape() as tape:
        terms = both.terms(rows)
        total = tf.reduce_sum(terms.nll_y + terms.nll_x)
    gradients = tape.gradient(total, layers)

    def loss(layer, shift):
        moved = {name: w + shift[name] for name, w in both.weights[layer].items()}
        weights = {**both.weights, layer: moved}
        found = 0.0
        for row, (x, y) in enumerate(tiny.PAIRS[:rows]):
            twin = both.twin(row, weights)
            found -= twin.log_py(x, y)
            found -= twin.log_px(x) if both.model.source_lm is not None else 0.0
        return found

    rng = np.random.default_rng(0)
    for layer, by_name in gradients.items():
        at = both.weights[layer]
        direction = {name: 1e-6 * rng.normal(size=w.shape) for name, w in at.items()}
        expected = loss(layer, direction) - loss(layer, {n: -d for n, d in direction.items()})
        gradient = {name: g.numpy().astype(np.float64) for name, g in by_name.items()}
        actual = 2.0 * sum((gradient[name] * d).sum() for name, d in direction.items())
        size = max(np.abs(g).max() for g in gradient.values()) * 1e-6
        assert abs(actual - expected) <= 1e-4 * abs(expected) + 2e-4 * size, layer


@pytest.mark.parametrize(("system", "form"), SYSTEMS)
def test_steps_are_the_sentence(system, form):
    both = Twins(system, form, noisy=False)
    model, batch = both.model, tiny.batch(pad_x=2, pad_y=1)
    z = None if both.z is None else tf.constant(both.z)
    memory, state = model.start(batch["x"], batch["x_len"], z)
    words = tf.concat([tf.ones_like(batch["y"][:, :1]), batch["y"][:, :-1]], axis=1)
    log_probs = []
    for t in range(words.shape[1]):
        logits, state, _ = tiny.step(model, memory, state, words[:, t])
        log_probs.append(tf.nn.log_softmax(logits))
    chosen = tf.gather(tf.stack(log_probs, axis=1), batch["y"], batch_dims=2)
    real = tf.sequence_mask(batch["y_len"], chosen.shape[1], dtype=tf.float32)
    np.testing.assert_allclose(
        -tf.reduce_sum(chosen * real, axis=1), both.terms().nll_y, rtol=1e-5
    )


@pytest.mark.parametrize("form", ["gnmt_v2", "no attention", "gru"])
def test_a_sentence_does_not_depend_on_padding_or_batch(form):
    both = Twins("cond", form, noisy=False)
    found = both.terms().nll_y
    padded = both.model.loss_terms(tiny.batch(pad_x=3, pad_y=2, pad_id=5)).nll_y
    alone = both.model.loss_terms(tiny.batch(tiny.PAIRS[1:2])).nll_y
    np.testing.assert_allclose(padded, found, rtol=1e-5)
    np.testing.assert_allclose(alone, found[1:2], rtol=1e-5)


def test_beam_search_is_exhaustive_search_with_an_lstm():
    vocab, longest = 5, 3
    both = Twins("cond", "iwslt15", noisy=False, vocab_y=vocab)
    model = both.model
    x, x_len = tf.constant([[3, 4, tiny.EOS]]), tf.constant([3])
    step = model.decoder.search_step(model.emb_y, width=64)
    memory, state = model.start(x, x_len)
    problem = search.SearchProblem(step, step.memory(memory), state, tf.constant([longest]))
    found = search.beam(problem, width=64, n_best=3)
    twin, scores = both.twin(0), {}
    words = [word for word in range(vocab) if word != tiny.EOS]
    for length in range(longest):
        for sentence in itertools.product(words, repeat=length):
            y = [*sentence, tiny.EOS]
            scores[tuple(y)] = twin.log_py([3, 4, tiny.EOS], y)
    best = sorted(scores, key=scores.get, reverse=True)[:3]
    assert [
        tuple(y[:n]) for y, n in zip(found.ids[0].numpy(), found.lengths[0], strict=True)
    ] == best
    np.testing.assert_allclose(found.log_probs[0], [scores[y] for y in best], rtol=1e-5)


@pytest.mark.parametrize("form", ["gnmt_v2", "no attention"])
def test_compiled_gradients_are_the_same(form):
    model = tiny.build("cond", num_units=4, packed=False, **FORMS[form])
    variables = model.trainable_variables

    def gradients():
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(model(tiny.batch()).nll_y)
        return tape.gradient(total, variables)

    compiled = tf.function(gradients, jit_compile=True)()
    for variable, one, other in zip(variables, gradients(), compiled, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5, err_msg=variable.path)


@pytest.mark.parametrize("form", ["wmt16", "gnmt", "no attention"])
def test_configurations_come_back(form):
    model = Twins("cond", form, noisy=False).model
    again = models.Aevnmt.from_config(model.get_config())
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(again(tiny.batch()).nll_y, model(tiny.batch()).nll_y)


@pytest.mark.parametrize("init_op", ["uniform", "glorot_normal"])
def test_init_op_is_for_all_weights_but_biases_and_gains(init_op):
    hp = tiny.settings("cond", num_units=24, init_op=init_op, **FORMS["wmt16"])
    model = models.build(hp, 50, 60)
    for weight in model.trainable_variables:
        values = weight.numpy()
        if weight.name.endswith("bias"):
            assert not values.any()
        elif weight.name == "gain":
            np.testing.assert_allclose(values, np.sqrt(1 / 24), rtol=1e-6)
        elif init_op == "uniform":
            assert 0.08 < np.abs(values).max() <= 0.1
        elif values.ndim == 2:
            assert values.std() == pytest.approx(np.sqrt(2 / sum(values.shape)), rel=0.15)


def test_layer_norm_cells_start_with_gain_1_and_shift_0():
    hp = tiny.settings("cond", init_op="uniform", **FORMS["no attention"])
    layers = tiny.layers(models.build(hp, 11, 9))
    weights = layers["layer_norm_lstm_dec"]
    assert (weights["gain"].numpy() == 1).all() and not weights["shift"].numpy().any()
    assert "bias" not in weights


def test_given_embeddings_are_looked_up_and_not_trained():
    model = tiny.build("cond", embed_prefix="glove", unit_type="lstm", attention="luong")
    vectors = np.random.default_rng(0).normal(size=(tiny.VOCAB_X - 3, 6)).astype(np.float32)
    model.emb_x.given.assign(vectors)
    np.testing.assert_array_equal(model.emb_x(tf.range(3, tiny.VOCAB_X)), vectors)
    np.testing.assert_array_equal(model.emb_x(tf.range(3)), model.emb_x.embeddings)
    assert not any(v.name == "given" for v in model.trainable_variables)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(model(tiny.batch()).nll_y)
    gradient = tape.gradient(total, model.emb_x.embeddings)
    assert gradient.shape == (3, 6) and np.abs(gradient[2]).max() > 0  # </s> ends each source


def test_a_language_model_does_not_see_the_source():
    model = tiny.build("cond", vocab_y=tiny.VOCAB_X, language_model=True, unit_type="lstm")
    batch = tiny.batch()
    others = tiny.batch([([4, tiny.EOS], y) for _, y in tiny.PAIRS])
    found = model(batch).nll_y
    np.testing.assert_array_equal(found, model(others).nll_y)
    hp = tiny.settings("cond", language_model=True, unit_type="lstm").to_dict()
    twin = Twin(tiny.weights(model), **{**hp, "num_encoder_layers": 0, "encoder_type": "uni"})
    twin.encode = lambda x: (None, None)
    for row, (x, y) in enumerate(tiny.PAIRS):
        np.testing.assert_allclose(found[row], -twin.log_py(x, y), rtol=2e-5)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(model(batch).nll_y)
    gradients = tape.gradient(total, model.trainable_variables)
    assert all(gradient is not None for gradient in gradients)
