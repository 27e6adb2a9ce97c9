"""The package against Appendix A written a second time in NumPy (tests/reference.py).

Agreement is to 1e-5 relative, on a batch of mixed lengths, given the same weights, epsilon and
dropout masks. The gradients of the hand-written backward passes are compared with differences
of the NumPy loss.
"""

import ast
import inspect

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import model as model_module
from aevnmt_tf.model import importance, objective
from tests import reference, tiny
from tests.reference import Reference, parameter_count

DEEP = {"num_encoder_layers": 4, "num_decoder_layers": 3, "num_lm_layers": 2}
TF_NMT = {"decoder_style": "tf_nmt"}
AFTER = {"gru_reset": "after"}
NOISY = {"dropout": 0.4, "word_dropout": 0.3}
OUTPUT = {"output_dropout": 0.2}
SMOOTH = {"label_smoothing": 0.1}
TIED = {"tie_embeddings": True}

# (system, settings): each system as the paper has it, then every option with some system.
CASES = {
    **{name: (name, {}) for name in tiny.SYSTEMS},
    "joint, deep, after": ("joint", {**DEEP, **AFTER}),
    "source_only, deep": ("source_only", DEEP),
    "source_only, shared": ("source_only", {"share_vocab": True}),
    "JS, tf_nmt, after, shared": ("JS", {**TF_NMT, **AFTER, "share_vocab": True}),
    "KLr, noisy": ("KLr", NOISY),
    "KLq, noisy, deep, after": ("KLq", {**NOISY, **DEEP, **AFTER}),
    # TF-NMT's deep encoder is another one: see test_tf_nmt_forms.py.
    "source_only, noisy, tf_nmt, deep": (
        "source_only",
        {**NOISY, **OUTPUT, **TF_NMT, **DEEP, "num_encoder_layers": 2},
    ),
    "source_only, output, smooth": ("source_only", {**OUTPUT, **SMOOTH}),
    "cond, noisy, output, after": ("cond", {**NOISY, **OUTPUT, **AFTER}),
    "menu, noisy, deep": ("menu", {**NOISY, **DEEP}),
    "KLq, fed, bags, after": ("KLq", {**AFTER, "feed_z": True, "bow_target_weight": 1.0}),
    "vnmt, fed": ("vnmt", {"feed_z": True}),
    "joint, noisy, source words kept": ("joint", {**NOISY, "word_dropout_source": False}),
    "KLq, tied, words of the encoder": ("KLq", {**TIED, **OUTPUT, "source_word_dropout": 0.3}),
    "joint, tied, tf_nmt": ("joint", {**TIED, **TF_NMT}),
    "source_only, tied, shared": ("source_only", {**TIED, **SMOOTH, "share_vocab": True}),
}


class Twins:
    """A model, its batch and noise, and the NumPy twin of each row."""

    def __init__(self, system, options):
        self.options = options
        self.mode = options.get("r_train_mode", system)
        self.model = tiny.build(system, vocab_y=self.vocab_y, **options)
        self.pairs = [(x, [word % self.vocab_y for word in y]) for x, y in tiny.PAIRS]
        self.batch = tiny.batch(self.pairs, pad_x=2, pad_y=1)
        self.noise = self.model.noise(self.batch, 7)
        self.noise.pop("q_u_norm", None)  # moving statistics; see test_mean_normalisation
        self.weights = tiny.weights(self.model)
        hp = tiny.settings(system, **options)
        self.bags = (hp.bow_source_weight, hp.bow_target_weight)

    @property
    def norm(self):
        norm = getattr(self.model.posterior, "norm", None)
        if norm is None:
            return None
        return norm.scale, norm.moving_mean.numpy(), norm.moving_variance.numpy()

    def loss(self, terms, **options):
        bags = {"bow_x_weight": self.bags[0], "bow_y_weight": self.bags[1]}
        return objective.loss(terms, **bags, **options)

    @property
    def vocab_y(self):
        return tiny.VOCAB_X if self.options.get("share_vocab") else tiny.VOCAB_Y

    def rows(self, numbers=None, weights=None):
        """(x, y, epsilon, twin) for each pair."""
        for b in range(len(self.pairs)) if numbers is None else numbers:
            x, y = self.pairs[b]
            epsilon = self.noise["epsilon"][b].numpy() if "epsilon" in self.noise else None
            twin = Reference(
                weights or self.weights,
                decoder_style=self.options.get("decoder_style", "paper"),
                r_train_mode=self.mode,
                keep=self.keep(b, x, y),
                label_smoothing=self.options.get("label_smoothing", 0.0),
                norm=self.norm,
            )
            yield x, y, epsilon, twin

    def keep(self, b, x, y):
        factors = {}
        for name, mask in self.noise.items():
            if name == "epsilon":
                continue
            reads_y = name in ("words_y", "out_y", "q_gru_y") or name.startswith("gru_dec")
            mask = mask[b].numpy()[: len(y if reads_y else x)]
            if mask.ndim == 3:
                factors[f"{name}/forward"], factors[f"{name}/backward"] = mask[:, 0], mask[:, 1]
            else:
                factors[name] = mask
        return factors


@pytest.fixture(scope="module", params=list(CASES))
def twins(request):
    return Twins(*CASES[request.param])


def assert_close(actual, expected, *, relative=1e-5):
    """To `relative` of the largest entry."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    if expected.size:
        assert np.abs(actual - expected).max() <= relative * np.abs(expected).max()


def test_the_reference_stands_on_its_own():
    tree = ast.parse(inspect.getsource(reference))
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imports] == ["import numpy as np"]


def test_the_noise_is_what_the_settings_say(twins):
    kinds = ("dropout", "word_dropout", "output_dropout", "source_word_dropout")
    rates = {name: twins.options.get(name, 0.0) for name in kinds}
    masks = {name for name in twins.noise if name != "epsilon"}
    assert bool(masks) == any(rates.values())
    assert ("words_x" in masks) == (
        rates["word_dropout"] > 0
        and twins.options.get("word_dropout_source", True)
        and twins.model.source_lm is not None
    )
    assert ("out_y" in masks) == (rates["output_dropout"] > 0)
    assert ("out_x" in masks) == ("out_y" in masks and twins.model.source_lm is not None)
    for name in masks:
        kind = {"words": "word_dropout", "out": "output_dropout"}.get(name.split("_")[0])
        kind = "source_word_dropout" if name == "words_encoder" else kind
        rate = rates[kind or "dropout"]
        values = np.unique(twins.noise[name].numpy())
        np.testing.assert_allclose(values, [0.0, 1.0 / (1.0 - rate)], rtol=1e-6)


def test_every_term_and_the_loss_agree(twins):
    terms = twins.model.loss_terms(twins.batch, twins.noise)
    expected = [twin.loss_terms(x, y, eps) for x, y, eps, twin in twins.rows()]
    for name in ("nll_x", "nll_y", "kl", "r_divergence", "smoothing", "bow_x", "bow_y"):
        actual = getattr(terms, name).numpy()
        np.testing.assert_allclose(actual, [t[name] for t in expected], rtol=1e-5, atol=1e-6)
    for kl_weight in (1.0, 0.3):
        losses = [
            twin.loss(x, y, eps, kl_weight, twins.bags) for x, y, eps, twin in twins.rows()
        ]
        actual = twins.loss(terms, kl_weight=kl_weight).numpy()
        np.testing.assert_allclose(actual, losses, rtol=1e-5)


def test_posterior_and_prediction_agree(twins):
    if not next(iter(twins.rows()))[-1].has_z:
        assert twins.model.posterior is None and twins.model.prediction is None
        assert twins.model.infer(twins.batch) is None
        return
    q = twins.model.infer(twins.batch)
    r = twins.model.predict_z(twins.batch["x"], twins.batch["x_len"])
    z = twins.model.z_for_prediction(twins.batch["x"], twins.batch["x_len"])
    for b, (x, y, _, twin) in enumerate(twins.rows()):
        twin.keep = {}
        loc, scale = twin.posterior(x, y)
        assert_close(q.mean()[b], loc)
        assert_close(q.stddev()[b], scale)
        loc, scale = twin.prediction(x) if twin.reads_target else (loc, scale)
        assert_close(z[b], loc)
        assert_close(r.stddev()[b], np.zeros_like(loc) if scale is None else scale)


def test_logits_and_attention_agree_word_by_word(twins):
    """`step`, which decoding uses, gives what the whole sentence at once gives."""
    model, batch = twins.model, twins.batch
    z = None
    if model.posterior is not None:
        z = tf.constant(tiny.epsilon([len(twins.pairs), model.posterior.z_size], seed=5))
    memory, state = model.start(batch["x"], batch["x_len"], z)
    words = tf.concat([tf.ones_like(batch["y"][:, :1]), batch["y"][:, :-1]], axis=1)
    logits, attention = [], []
    for t in range(words.shape[1]):
        step_logits, state, step_attention = tiny.step(model, memory, state, words[:, t])
        assert step_logits.dtype == tf.float32
        logits.append(step_logits)
        attention.append(step_attention)
    for b, (x, y, _, twin) in enumerate(twins.rows()):
        twin.keep = {}
        row = None if z is None else z.numpy()[b : b + 1].astype(np.float64)
        values = twin.encode(x, row)
        expected, weights = twin.decode(y, values, row)
        assert_close(memory.values[b, : len(x)], values[:, 0])
        assert_close(tf.stack(logits, axis=1)[b, : len(y)], expected[:, 0])
        assert_close(tf.stack(attention, axis=1)[b, : len(y), : len(x)], weights[:, 0])
        assert not tf.stack(attention, axis=1)[b, : len(y), len(x) :].numpy().any()


def test_language_model_steps_agree(twins):
    model, batch = twins.model, twins.batch
    if model.source_lm is None:
        assert "gru_lm" not in twins.weights
        return
    z = None
    if model.posterior is not None:
        z = tf.constant(tiny.epsilon([len(twins.pairs), model.posterior.z_size], seed=6))
    states = model.source_lm.begin(z, batch["x_len"])
    words = tf.concat([tf.ones_like(batch["x"][:, :1]), batch["x"][:, :-1]], axis=1)
    logits = []
    for t in range(words.shape[1]):
        step_logits, states = model.source_lm.step(states, model.emb_x(words[:, t]))
        logits.append(step_logits)
    for b, (x, _, _, twin) in enumerate(twins.rows()):
        twin.keep = {}
        row = None if z is None else z.numpy()[b : b + 1].astype(np.float64)
        assert_close(tf.stack(logits, axis=1)[b, : len(x)], twin.lm_logits(x, row)[:, 0])


def test_gradients_agree_with_differences(twins):
    """Along a random direction of each layer; embeddings with q, r and z held constant."""
    rows = range(2)
    batch = {name: value[: len(rows)] for name, value in twins.batch.items()}
    noise = {name: value[: len(rows)] for name, value in twins.noise.items()}
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(twins.loss(twins.model.loss_terms(batch, noise)))
    gradients = tape.gradient(total, tiny.layers(twins.model))
    samples = [twin.sample(x, y, eps) for x, y, eps, twin in twins.rows(rows)]

    posteriors = [
        twin.posterior(x, y) if twin.has_z else None for x, y, _, twin in twins.rows(rows)
    ]

    def loss(layer, shift):
        moved = {name: w + shift[name] for name, w in twins.weights[layer].items()}
        shifted = twins.rows(rows, {**twins.weights, layer: moved})
        if not layer.startswith("emb"):
            return sum(twin.loss(x, y, eps, bags=twins.bags) for x, y, eps, twin in shifted)
        return sum(
            twin.smoothing(x, y, z)
            - twin.log_py(x, y, z)[0]
            - (twin.log_px(x, z)[0] if twin.has_lm else 0.0)
            # p(z|x) is a part of the generative model.
            + (twin.kl(q, None, x).sum() if twin.is_conditional else 0.0)
            for (x, y, _, twin), z, q in zip(shifted, samples, posteriors, strict=True)
        )

    rng = np.random.default_rng(0)
    for layer, by_name in gradients.items():
        at = twins.weights[layer]
        direction = {name: 1e-6 * rng.normal(size=w.shape) for name, w in at.items()}
        expected = loss(layer, direction) - loss(layer, {n: -d for n, d in direction.items()})
        gradient = {name: g.numpy().astype(np.float64) for name, g in by_name.items()}
        actual = 2.0 * sum((gradient[name] * d).sum() for name, d in direction.items())
        size = max(np.abs(g).max() for g in gradient.values()) * 1e-6
        assert abs(actual - expected) <= 1e-4 * abs(expected) + 1e-4 * size, layer


@pytest.mark.parametrize("mode", ["source_only", "KLq", "l2", "mixture", "vnmt"])
def test_importance_weights_agree(mode):
    model = tiny.build(mode)
    batch = tiny.batch()
    epsilon = tiny.epsilon([6, len(tiny.PAIRS), 4])
    _, joint, source = importance.weigh(model, batch, tf.constant(epsilon))
    twin = Reference(tiny.weights(model), r_train_mode=mode)
    for b, (x, y) in enumerate(tiny.PAIRS):
        np.testing.assert_allclose(
            joint[:, b], twin.log_weights_xy(x, y, epsilon[:, b]), rtol=1e-5
        )
        if twin.is_conditional:
            continue  # there is no P(x)
        np.testing.assert_allclose(
            source[:, b], twin.log_weights_x(x, epsilon[:, b]), rtol=1e-5
        )


@pytest.mark.parametrize("system", ["cond", "joint"])
def test_importance_weights_without_z_are_the_probabilities(system):
    model = tiny.build(system)
    _, joint, source = importance.weigh(model, tiny.batch(), None)
    twin = Reference(tiny.weights(model))
    for b, (x, y) in enumerate(tiny.PAIRS):
        log_px = twin.log_px(x)[0] if system == "joint" else 0.0
        np.testing.assert_allclose(joint[:, b], [log_px + twin.log_py(x, y)[0]], rtol=1e-5)
        np.testing.assert_allclose(source[:, b], [log_px], rtol=1e-5)


SIZES = [
    {"num_units": 4, "z_dim": 3},
    {"num_units": 6, "z_dim": 8, "num_encoder_layers": 4, "num_decoder_layers": 2},
    {"num_units": 5, "z_dim": 1, "num_lm_layers": 3, "decoder_style": "tf_nmt"},
    {"num_units": 3, "z_dim": 2, "gru_reset": "after", "num_decoder_layers": 3, **TF_NMT},
    {"num_units": 8, "z_dim": 4, "share_vocab": True, "num_encoder_layers": 6},
    {"num_units": 4, "z_dim": 3, **TIED},
    {"num_units": 5, "z_dim": 2, "share_vocab": True, **TIED, **TF_NMT},
]


COUNTED = [(system, SIZES[0]) for system in tiny.SYSTEMS] + [
    (system, sizes) for sizes in SIZES[1:] for system in ("joint", "JS")
]


@pytest.mark.parametrize(("system", "sizes"), COUNTED)
def test_parameter_counts(system, sizes):
    shared = sizes.get("share_vocab", False)
    vocab_x, vocab_y = (13, 13) if shared else (13, 7)
    model = model_module.build(tiny.settings(system, **sizes), vocab_x, vocab_y)
    expected = parameter_count(
        system=system,
        units=sizes["num_units"],
        z_dim=sizes["z_dim"],
        vocab_x=vocab_x,
        vocab_y=vocab_y,
        encoder_layers=sizes.get("num_encoder_layers", 2) // 2,
        decoder_layers=sizes.get("num_decoder_layers", 1),
        lm_layers=sizes.get("num_lm_layers", 1),
        decoder_style=sizes.get("decoder_style", "paper"),
        gru_reset=sizes.get("gru_reset", "before"),
        share_vocab=shared,
        tied=sizes.get("tie_embeddings", False),
    )
    assert model.count_params() == expected
    by_name = tiny.layers(model)
    assert (
        sum(np.prod(v.shape) for layer in by_name.values() for v in layer.values()) == expected
    )
