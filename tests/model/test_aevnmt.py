"""What holds for every system whatever its weights: invariances, causality, probabilities."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf.model import objective
from tests import tiny

EOS = tiny.EOS

# Every part, in both forms of the decoder, and with more than one layer.
CASES = {
    "cond": ("cond", {}),
    "joint, tf_nmt": ("joint", {"decoder_style": "tf_nmt"}),
    "source_only": ("source_only", {}),
    "menu": ("menu", {}),
    "KLq, after, tf_nmt": (
        "KLq",
        {"gru_reset": "after", "decoder_style": "tf_nmt", "num_decoder_layers": 2},
    ),
    "l2, shared, deep": (
        "l2",
        {
            "share_vocab": True,
            "num_encoder_layers": 4,
            "num_decoder_layers": 2,
            "num_lm_layers": 2,
        },
    ),
}


@pytest.fixture(scope="module", params=list(CASES))
def model(request):
    system, options = CASES[request.param]
    return tiny.build(system, vocab_y=tiny.VOCAB_X, **options)


def z_for(model, rows, *, seed=3):
    if model.posterior is None:
        return None
    return tf.constant(tiny.epsilon([rows, model.posterior.z_size], seed=seed))


def values(model, batch, epsilon):
    """Everything that a sentence has, one row a pair: {name: [B, ...]}."""
    terms = model.loss_terms(batch, {} if epsilon is None else {"epsilon": epsilon})
    found = dict(terms._asdict(), loss=objective.loss(terms))
    if epsilon is not None:
        q, r = model.infer(batch), model.predict_z(batch["x"], batch["x_len"])
        found.update(q_loc=q.mean(), q_scale=q.stddev(), r_loc=r.mean(), r_scale=r.stddev())
    memory, state = model.start(batch["x"], batch["x_len"], epsilon)
    y = tf.ones_like(batch["x_len"])
    for t in range(3):
        found[f"logits_{t}"], state, _ = tiny.step(model, memory, state, y)
        y = tf.argmax(found[f"logits_{t}"], axis=-1, output_type=tf.int32)
    return {name: value.numpy() for name, value in found.items()}


def assert_rows_equal(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_sentence_is_the_same_alone_in_a_batch_and_with_extra_padding(model):
    """Nor does it matter what stands in the padding: masks come from lengths, not from ids."""
    epsilon = z_for(model, len(tiny.PAIRS))
    together = values(model, tiny.batch(), epsilon)
    padded = tiny.batch(pad_x=4, pad_y=3, pad_id=5)
    assert_rows_equal(values(model, padded, epsilon), together)
    for b in (1, 2):
        alone = values(
            model, tiny.batch([tiny.PAIRS[b]]), None if epsilon is None else epsilon[b : b + 1]
        )
        assert_rows_equal(alone, {name: v[b : b + 1] for name, v in together.items()})


def test_posterior_reads_the_target_only_where_it_should(model):
    if model.posterior is None:
        assert model.z_for_prediction(*(tiny.batch()[name] for name in ("x", "x_len"))) is None
        return
    batch = tiny.batch()
    other = tiny.batch([(x, [7, *y]) for x, y in tiny.PAIRS])
    same = np.array_equal(model.infer(batch).mean(), model.infer(other).mean())
    assert same == (model.prediction is None)
    r, r_other = (model.predict_z(b["x"], b["x_len"]).mean() for b in (batch, other))
    np.testing.assert_array_equal(r, r_other)


def logits_of(model, output, batch, z, monkeypatch):
    """The logits whose likelihood loss_terms takes, [B, T, V]."""
    seen = []
    nll = output.nll

    def spy(features, *arguments, **options):
        seen.append(output(features).numpy())
        return nll(features, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(output, "nll", spy)
        model.loss_terms(batch, z=z)
    return seen[0]


def assert_causal(logits):
    """Row 0 is the original; row t + 1 has another word at t. logits is [1 + T, T + 1, V]."""
    for t, changed in enumerate(logits[1:]):
        np.testing.assert_allclose(changed[: t + 1], logits[0, : t + 1], rtol=1e-6, atol=1e-6)
        assert np.all(np.abs(changed - logits[0]).max(axis=-1)[t + 1 :] > 1e-4)


def variants(sentence):
    """The sentence, and one with another word at each position before </s>."""
    places = range(len(sentence) - 1)
    return [sentence, *([*sentence[:t], 9, *sentence[t + 1 :]] for t in places)]


def test_a_target_word_changes_later_logits_only(model, monkeypatch):
    targets = variants([6, 7, 8, 3, 4, EOS])
    batch = tiny.batch([([3, 4, 5, EOS], y) for y in targets])
    z = z_for(model, 1)
    tiled = None if z is None else tf.repeat(z, len(targets), axis=0)
    assert_causal(logits_of(model, model.decoder.out_y, batch, tiled, monkeypatch))


def test_a_source_word_changes_later_logits_of_the_language_model_only(model, monkeypatch):
    if model.source_lm is None:
        assert not np.any(model.loss_terms(tiny.batch()).nll_x)
        return
    sources = variants([6, 7, 8, 3, 4, EOS])
    batch = tiny.batch([(x, [3, EOS]) for x in sources])
    z = z_for(model, 1)
    tiled = None if z is None else tf.repeat(z, len(sources), axis=0)
    assert_causal(logits_of(model, model.source_lm.out_x, batch, tiled, monkeypatch))


def test_every_likelihood_depends_on_z(model):
    if model.posterior is None:
        return
    batch = tiny.batch()
    one, other = (model.loss_terms(batch, z=z_for(model, 5, seed=s)) for s in (1, 2))
    for name in ("nll_x", "nll_y"):
        assert np.all(np.abs(getattr(one, name) - getattr(other, name)) > 1e-4)


MASS_LENGTH = 5
ENDED = [
    [*words, EOS] for n in range(MASS_LENGTH) for words in itertools.product([0, 1], repeat=n)
]
NOT_ENDED = [list(words) for words in itertools.product([0, 1], repeat=MASS_LENGTH)]


@pytest.mark.parametrize("case", list(CASES))
def test_probabilities_sum_to_one(case):
    """Finished sentences of at most L words, and unfinished ones of length L, have mass one.

    The vocabulary is <unk>, <s> and </s>.
    """
    system, options = CASES[case]
    model = tiny.build(system, vocab_x=3, vocab_y=3, num_units=4, **options)
    sentences = ENDED + NOT_ENDED
    if model.source_lm is not None:
        batch = tiny.batch([(x, [EOS]) for x in sentences])
        z = z_for(model, 1)
        tiled = None if z is None else tf.repeat(z, len(sentences), axis=0)
        log_px = -model.loss_terms(batch, z=tiled).nll_x.numpy().astype(np.float64)
        np.testing.assert_allclose(np.exp(log_px).sum(), 1.0, atol=1e-5)
        assert np.exp(log_px).max() < 0.9
    sources = [x for x in ENDED if len(x) <= 3]
    batch = tiny.batch([(x, y) for x in sources for y in sentences])
    z = z_for(model, len(sources))
    tiled = None if z is None else tf.repeat(z, len(sentences), axis=0)
    log_py = -model.loss_terms(batch, z=tiled).nll_y.numpy().astype(np.float64)
    mass = np.exp(log_py).reshape(len(sources), len(sentences)).sum(axis=1)
    np.testing.assert_allclose(mass, np.ones(len(sources)), atol=1e-5)


def test_without_noise_z_is_the_posterior_mean(model):
    batch = tiny.batch()
    q = model.infer(batch)
    z = None if q is None else q.mean()
    for one, other in zip(model(batch), model.loss_terms(batch, z=z), strict=True):
        np.testing.assert_array_equal(one, other)


def test_greedy_words_are_counted_as_correct(model):
    """correct_x and correct_y count the words that had the highest probability."""
    batch = tiny.batch()
    z = z_for(model, 5)
    terms = model.loss_terms(batch, z=z)
    memory, state = model.start(batch["x"], batch["x_len"], z)
    words = tf.concat([tf.ones_like(batch["y"][:, :1]), batch["y"][:, :-1]], axis=1)
    correct = np.zeros(5)
    for t in range(words.shape[1]):
        logits, state, _ = tiny.step(model, memory, state, words[:, t])
        right = np.argmax(logits, axis=-1) == batch["y"][:, t].numpy()
        correct += right * (t < batch["y_len"].numpy())
    np.testing.assert_array_equal(terms.correct_y, correct)
    if model.source_lm is None:
        np.testing.assert_array_equal(terms.correct_x, np.zeros(5))


@pytest.mark.parametrize("mode", tiny.SOURCE_TARGET)
def test_d_may_train_r_alone(mode):
    """The value and what r learns stay the same; q learns nothing from D(r, q)."""
    batch, found = tiny.batch(), {}
    for trains_q in (True, False):
        model = tiny.build(mode, divergence_trains_q=trains_q)
        parts = {"q": model.posterior, "r": model.prediction}
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(model.loss_terms(batch).r_divergence)
        variables = {name: part.trainable_variables for name, part in parts.items()}
        found[trains_q] = value, tape.gradient(value, variables)
    (one, theirs), (other, ours) = found[True], found[False]
    np.testing.assert_allclose(one, other, rtol=1e-6)
    for a, b in zip(theirs["r"], ours["r"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert all(gradient is None for gradient in ours["q"])
    assert any(g is not None and np.abs(g).max() > 1e-3 for g in theirs["q"])
