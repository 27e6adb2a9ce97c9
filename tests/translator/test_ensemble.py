"""Several models as one: the mean of their probabilities, word by word."""

import numpy as np
import pytest
import tensorflow as tf

import aevnmt_tf
from aevnmt_tf import text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import Decoding, Graph, Translator, decision
from aevnmt_tf.translator.loading import ensemble
from tests import tiny
from tests.tiny_translator import LINES, WORDS, make, save_run


@pytest.fixture(scope="module")
def members():
    """Models of two systems; what they share is the vocabulary."""
    return make(beam_width=2), make("cond", seed=5, beam_width=2)


@pytest.fixture(scope="module")
def both(members):
    return ensemble(members)


@pytest.mark.parametrize("search", [pytest.param("beam", marks=pytest.mark.slow), "greedy"])
def test_a_model_twice_is_the_model(members, search):
    options = {"search": search, "n_best": 2 if search == "beam" else 1}
    alone = members[0].n_best(LINES, **options)
    twice = ensemble([members[0], members[0]]).n_best(LINES, **options)
    for a, b in zip(alone, twice, strict=True):
        assert [t.text for t in a] == [t.text for t in b]
        np.testing.assert_allclose([t.score for t in a], [t.score for t in b], rtol=1e-4)


def mean_log_prob(members, line, ids):
    """log P(y|x) = sum_j log of the mean of what each model's own step says."""
    x, x_len, _ = members[0].graph.encode(tf.constant([line]))
    probs = []
    for t in members:
        memory, state = t.model.start(x, x_len, t.graph.z(x, x_len))
        last, rows = text.SOS, []
        for word in ids:
            logits, state, _ = tiny.step(t.model, memory, state, tf.constant([last]))
            rows.append(np.exp(logits[0]) / np.exp(logits[0]).sum())
            last = word
        probs.append(rows)
    mean = np.mean(probs, axis=0)  # [Ty, V]
    return np.log([row[word] for row, word in zip(mean, ids, strict=True)]).sum()


def test_scores_are_those_of_the_mean_probabilities(members, both):
    decoding = Decoding.of(both.hp, n_best=2, max_length=5)
    lines = LINES[:4]
    results = list(both.stream(lines, decoding=decoding, details=True))
    for line, result in zip(lines, results, strict=True):
        if not line.strip():
            assert result.translations[0].text == ""
            continue
        for t in result.translations:
            ids = [WORDS.index(piece) for piece in t.target_pieces]
            expected = mean_log_prob(members, line, ids)
            np.testing.assert_allclose(t.log_prob, expected, rtol=1e-4)
            penalty = ((5 + len(ids)) / 6) ** both.hp.length_penalty_weight
            np.testing.assert_allclose(t.score, expected / penalty, rtol=1e-4)
            np.testing.assert_allclose(t.attention.sum(1), 1, rtol=1e-5)
            assert t.z[0].shape == (4,) and t.z[1] is None, "cond has no z"


def test_a_table_of_words_changes_no_translation(members, both):
    expected, again = both.n_best(LINES, n_best=2), ensemble(members)
    again.is_final = True
    found = again.n_best(LINES, n_best=2)
    assert [table.logits.shape for table in again._words] == [[len(WORDS)] * 2] * 2
    for a, b in zip(expected, found, strict=True):
        assert [each.text for each in a] == [each.text for each in b]
        np.testing.assert_allclose([x.score for x in a], [x.score for x in b], atol=1e-5)


def test_greedy_takes_the_word_with_the_highest_mean(members, both):
    x, x_len, _ = both.graph.encode(tf.constant(["a b c"]))
    decoding = Decoding.of(both.hp, search="greedy", max_length=1)
    seeds = tf.zeros([1], tf.int64)
    found, _ = decision.decide(both.graph, x, x_len, seeds=seeds, decoding=decoding)
    first = found.ids[0, 0, 0]
    values = [mean_log_prob(members, "a b c", [word]) for word in range(len(WORDS))]
    assert int(first) == int(np.argmax(values))


@pytest.mark.slow
def test_each_model_draws_its_own_z():
    """One model twice, so that all that can differ is the draw."""
    t = make("KLq", scale=1.2, beam_width=2)
    pair = ensemble([t, t])
    decoding = Decoding.of(t.hp, search="refine", refine_steps=1, max_length=3)
    x, x_len, _ = pair.graph.encode(tf.constant(["a b c"]))
    seeds = tf.constant([3], tf.int64)
    _, z = decision.decide(pair.graph, x, x_len, seeds=seeds, decoding=decoding)
    assert z[0].shape == z[1].shape == (1, 1, 4) and not np.allclose(z[0], z[1])
    found = pair.n_best(["a b c"], search="mbr", num_samples=3, n_best=3)
    assert found[0][0].text


def test_what_one_model_cannot_do_the_ensemble_cannot(both):
    with pytest.raises(UserError, match="refine search needs"):
        both.translate(["a"], search="refine")
    for call in (
        lambda: both.embed(["a"]),
        lambda: both.score(["a"], ["b"]),
        lambda: both.sample(1),
    ):
        with pytest.raises(UserError, match="an ensemble only translates"):
            call()


def with_words(t, words):
    tokenizer = text.VocabularyTokenizer(words)
    return Translator(Graph(t.model, t.x_tokenizer, tokenizer, t.hp))


def test_different_vocabularies_are_refused(members):
    other = with_words(members[1], [*WORDS[:-2], WORDS[-1], WORDS[-2]])
    with pytest.raises(
        UserError, match="b and a cannot form an ensemble: .* vocabularies differ"
    ):
        ensemble([members[0], other], names=["a", "b"])
    swapped = make(src="de", tgt="en")
    with pytest.raises(UserError, match="model 2 and model 1 cannot form an ensemble"):
        ensemble([make(src="en", tgt="de"), swapped])


@pytest.mark.slow
def test_load_of_several_runs(tmp_path):
    runs = [save_run(tmp_path / name, beam_width=0) for name in ("one", "two")]
    pair = aevnmt_tf.load(runs, infer_batch_size=3)
    assert len(pair.graph.members) == 2 and pair.hp.infer_batch_size == 3
    tiny.randomise(pair.graph.members[1].model, seed=9, scale=0.8)
    assert pair.translate(LINES) != aevnmt_tf.load(runs[:1]).translate(LINES)
