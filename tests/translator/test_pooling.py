"""Lists of translations in which each text stands once."""

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import search, text
from aevnmt_tf.translator import Decoding, Graph, Translator, decision, pooling
from tests import tiny

WORDS = "<unk> <s> </s> a@@ b ab".split()  # "ab" has two segmentations
LIMIT = 3  # </s> counts
NOTHING = search.MINUS_INFINITY


@pytest.fixture(scope="module")
def segmented():
    """A translator with subwords, whose beam holds every hypothesis."""
    size = len(WORDS)
    model = tiny.build("source_only", vocab_x=size, vocab_y=size, scale=0.8)
    tokenizer = text.VocabularyTokenizer(WORDS, subword_option="bpe")
    hp = tiny.settings("source_only", beam_width=150, tgt_max_len_infer=LIMIT)
    return Translator(Graph(model, tokenizer, tokenizer, hp))


def all_texts(t, line, z):
    """log P(text|x, z) by the sum over all of its segmentations, and the best of each."""
    x, x_len, _ = t.graph.encode(tf.constant([line]))
    words = [n for n in range(len(WORDS)) if n != text.EOS]
    ids = [
        [*start, text.EOS]
        for length in range(LIMIT)
        for start in itertools.product(words, repeat=length)
    ]
    lengths = np.array([len(one) for one in ids])
    y = np.array([one + [text.EOS] * (LIMIT - len(one)) for one in ids])
    rows = len(ids)
    batch = {"x": tf.repeat(x, rows, 0), "x_len": tf.repeat(x_len, rows, 0)}
    batch |= {"y": tf.constant(y), "y_len": tf.constant(lengths)}
    log_probs = -t.model.loss_terms(batch, z=tf.repeat(z, rows, 0)).nll_y.numpy()
    found = {}
    for name, length, value in zip(
        t.y_tokenizer.decode(y).numpy(), lengths, log_probs, strict=True
    ):
        found.setdefault(name.decode(), []).append((value, length))
    return found


def test_each_text_has_the_probability_of_all_its_segmentations(segmented):
    """Against the exhaustive sum."""
    t, line = segmented, "a@@ b ab"
    x, x_len, _ = t.graph.encode(tf.constant([line]))
    expected = all_texts(t, line, t.graph.z(x, x_len))
    assert any(len(parts) > 1 for parts in expected.values())
    for weight in (0.0, 1.0):
        (found,) = t.n_best([line], n_best=40, length_penalty_weight=weight)
        assert len({one.text for one in found}) == len(found) == len(expected)
        for one in found:
            parts = expected[one.text]
            total = np.logaddexp.reduce([value for value, _ in parts])
            np.testing.assert_allclose(one.log_prob, total, rtol=1e-4)
            scores = [v / ((5 + n) / 6) ** weight for v, n in parts]
            length = parts[int(np.argmax(scores))][1]
            assert one.length == length
            np.testing.assert_allclose(one.score, total / ((5 + length) / 6) ** weight, 1e-4)
        assert [one.score for one in found] == sorted((o.score for o in found), reverse=True)


def test_places_that_become_free_are_filled_from_the_beam(segmented):
    short, whole = (segmented.n_best(["ab"], n_best=n)[0] for n in (4, 40))
    assert [one.text for one in short] == [one.text for one in whole[:4]]


def hypotheses(ids, lengths, log_probs):
    scores = [[v / ((5 + n) / 6) for v, n in zip(*p, strict=True)]
              for p in zip(log_probs, lengths, strict=True)]  # fmt: skip
    parts = (ids, lengths, scores, log_probs)
    return search.Hypotheses(*(tf.constant(part) for part in parts))


def test_absent_hypotheses_are_no_texts():
    """Their ids read as an empty text, which a real hypothesis may have as well."""
    found = hypotheses([[[5, 2], [2, 2], [2, 2]]], [[2, 1, 0]], [[-1.0, -2.0, NOTHING]])
    merged = pooling.merge_segmentations(found, tf.constant([["ab", "", ""]]), weight=1.0)
    assert merged.lengths.numpy().tolist() == [[2, 1, 0]]
    np.testing.assert_allclose(merged.log_probs, found.log_probs)
    np.testing.assert_allclose(merged.scores, found.scores)


def test_copies_are_counted_once():
    """Samples may be the same words: that is one segmentation."""
    ids, half = [[[3, 4, 2], [3, 4, 2], [5, 2, 2]]], math.log(0.5)
    found = hypotheses(ids, [[3, 3, 2]], [[half - 1, half - 1, half]])
    merged = pooling.merge_segmentations(found, tf.constant([["ab"] * 3]), weight=1.0)
    assert merged.lengths.numpy().tolist() == [[0, 0, 2]]
    expected = np.logaddexp(half - 1, half)
    np.testing.assert_allclose(merged.log_probs[0], [NOTHING, NOTHING, expected], rtol=1e-6)


def test_of_equal_texts_of_several_draws_the_best_stays():
    ids = [[5, 2, 2], [6, 2, 2], [5, 2, 2], [6, 7, 2], [5, 2, 2], [2, 2, 2]]
    lengths, scores = [2, 2, 2, 3, 2, 0], [-3.0, -2.5, -1.0, -4.0, -1.0, NOTHING]
    parts = (ids, lengths, scores, scores)
    # Of one sentence: three draws of z that found two translations each.
    found = search.Hypotheses(*(tf.reshape(v, [3, 2, *np.shape(v)[1:]]) for v in parts))
    texts = tf.constant([["five", "six"], ["five", "six seven"], ["five", ""]])
    z = tf.constant([[[0.0]] * 2, [[1.0]] * 2, [[2.0]] * 2])
    found, z, texts = pooling.together((found, z, texts), draws=3)
    found, z = pooling.best_texts(found, z, texts, n_best=4)
    assert found.ids.numpy().tolist()[0][:3] == [[5, 2, 2], [6, 2, 2], [6, 7, 2]]
    assert found.lengths.numpy().tolist() == [[2, 2, 3, 0]]
    assert found.scores.numpy().tolist() == [[-1.0, -2.5, -4.0, NOTHING]]
    assert z.numpy()[0, :3, 0].tolist() == [1.0, 0.0, 1.0]


def test_probabilities_under_different_z_are_not_added(segmented):
    """Of each draw the sum over segmentations; of all draws the best."""
    x, x_len, _ = segmented.graph.encode(tf.constant(["ab"]))
    decoding = Decoding.of(segmented.hp, z="sample", num_z=2, n_best=8)
    seeds = tf.constant([3], tf.int64)
    found, _ = decision.decide(segmented.graph, x, x_len, seeds=seeds, decoding=decoding)
    best = {}
    for k in range(2):
        seed = search.split_seeds(seeds, count=2)[:, k]
        z = segmented.graph.z(x, x_len, kind="sample", seeds=seed)
        for name, parts in all_texts(segmented, "ab", z).items():
            total = np.logaddexp.reduce([value for value, _ in parts])
            best[name] = max(total, best.get(name, total))
    texts = segmented.y_tokenizer.decode(found.ids).numpy()[0]
    for name, log_prob in zip(texts, found.log_probs[0], strict=True):
        np.testing.assert_allclose(log_prob, best[name.decode()], rtol=1e-4)
    assert len(set(texts)) == 8
