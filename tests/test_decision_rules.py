"""Minimum Bayes risk and refinement, against loops that do the same by hand."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import metrics

from aevnmt_tf import search, text
from aevnmt_tf.errors import UserError
from aevnmt_tf.translator import Decoding, Translation, mbr
from tests.tiny_translator import LINES, make

K = 8
METRICS = {"chrf": metrics.CHRF(), "bleu": metrics.BLEU(effective_order=True)}


@pytest.fixture(scope="module")
def shared():
    return make()


@pytest.fixture(scope="module")
def paired():
    """A model whose posterior reads the target, with a large influence of z."""
    return make("KLq", scale=1.2, beam_width=2)


# mbr.


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_mbr_is_the_brute_force_choice_among_the_samples(shared, utility):
    samples = shared.n_best(LINES, search="sample", z="sample", n_best=K, seed=2)
    chosen = shared.n_best(LINES, search="mbr", num_samples=K, utility=utility, seed=2)
    for line, drawn, (best,) in zip(LINES, samples, chosen, strict=True):
        if not line.strip():
            assert (best.text, best.score) == ("", 0.0)
            continue
        assert len(drawn) == K and len({t.text for t in drawn}) > 1
        score = METRICS[utility].sentence_score
        means = [np.mean([score(h.text, [y.text]).score for y in drawn]) for h in drawn]
        first = next(k for k, mean in enumerate(means) if mean > max(means) - 1e-9)
        assert best.text == drawn[first].text
        assert best.log_prob == pytest.approx(drawn[first].log_prob)
        assert best.score == pytest.approx(means[first])


def test_mbr_depends_on_the_seed_alone(shared):
    options = {"search": "mbr", "num_samples": K}
    one = shared.n_best(LINES, seed=3, **options)
    assert one == shared.n_best(LINES, seed=3, **options)
    assert one != shared.n_best(LINES, seed=4, **options)
    alone = shared.n_best(["", LINES[1]], seed=3, **options)[1]
    assert [t.text for t in alone] == [t.text for t in one[1]]


def test_mbr_n_best_are_different_and_in_order(shared):
    for found in shared.n_best(LINES[:2], search="mbr", num_samples=K, n_best=4):
        assert len({t.text for t in found}) == len(found) > 1
        assert sorted((t.score for t in found), reverse=True) == [t.score for t in found]


def samples_of(*texts):
    return [Translation(t, 0.0, -float(k)) for k, t in enumerate(texts)]


def test_ties_go_to_the_first_sample():
    for texts in (("ab", "cd"), ("cd", "ab"), ("cd", "ab", "ab", "cd")):
        (best,) = mbr.rank(samples_of(*texts), utility="chrf")
        assert (best.text, best.log_prob) == (texts[0], 0.0)
    found = mbr.rank(samples_of("x", "ab", "y", "ab"), utility="chrf", n_best=9)
    assert [t.text for t in found] == ["ab", "x", "y"], "more samples, more utility"
    assert found[0].score == 50.0 and found[0].log_prob == -1.0


def test_the_order_of_the_samples_cannot_break_a_tie():
    """b and c have the same utilities in another order, of which a naive sum may differ."""
    texts = ["abcdefg", "abcdxyz", "stcdefg", "abqqefg"]
    scores = {}
    for shift in range(4):
        turned = texts[shift:] + texts[:shift]
        found = mbr.rank(samples_of(*turned), utility="chrf", n_best=4)
        for t in found:
            assert scores.setdefault(t.text, t.score) == t.score


@given(st.lists(st.text("ab c.é日", max_size=12), min_size=1, max_size=6, unique=True))
def test_chrf_is_sacrebleus(texts):
    expected = mbr.expected_utilities(dict.fromkeys(texts, 1), utility="chrf")
    for h in texts:
        scores = [METRICS["chrf"].sentence_score(h, [y]).score for y in texts]
        assert expected[h] == math.fsum(scores) / len(texts)


def test_mbr_without_z():
    """The words alone are drawn."""
    (found,) = make("cond").n_best(["a b c"], search="mbr", num_samples=4, n_best=4)
    assert len(found) > 1


# refine.


def by_hand(t, lines, *, seed, steps):
    """The rule of Shah and Barber, sentence by sentence in Python."""
    found = []
    beam = Decoding.of(t.hp, search="beam", max_length=4)
    for row, line in enumerate(lines):
        seeds = tf.constant([(seed << 32) + row], tf.int64)
        x, x_len, _ = t.encode(tf.constant([line]))
        z = search.normals(seeds, stream=-2, count=4)
        for step in range(steps + 1):
            best = t.search_with(z, x, x_len, seeds=seeds, decoding=beam)
            ids = best.ids[0, 0, : int(best.lengths[0, 0])].numpy().tolist()
            if step == steps:
                break
            ids += [] if ids[-1] == text.EOS else [text.EOS]
            batch = {"x": x, "x_len": x_len, "y": tf.constant([ids])}
            q = t.model.infer({**batch, "y_len": tf.constant([len(ids)])}).distribution
            new = search.split_seeds(seeds, count=steps)[:, step]
            z = q.loc + q.scale * search.normals(new, stream=-2, count=4)
        found.append((t.y_tokenizer.decode(tf.constant([ids]))[0].numpy().decode(), z[0]))
    return found


@pytest.mark.slow
def test_refine_is_the_rule_by_hand(paired):
    lines = LINES[:2]
    decoding = Decoding.of(paired.hp, search="refine", refine_steps=2, max_length=4)
    results = list(paired.stream(lines, decoding=decoding, seed=3, details=True))
    for result, (best, z) in zip(results, by_hand(paired, lines, seed=3, steps=2), strict=True):
        assert result.translations[0].text == best
        np.testing.assert_allclose(result.translations[0].z, z, rtol=1e-4, atol=1e-5)
    draft = by_hand(paired, lines, seed=3, steps=0)
    assert [r.translations[0].text for r in results] != [best for best, _ in draft]


@pytest.mark.slow
def test_refine_without_steps_is_decoding_from_the_first_z(paired):
    def texts(**options):
        return [[t.text for t in found] for found in paired.n_best(LINES, **options)]

    no_steps = {"search": "refine", "refine_steps": 0, "n_best": 2}
    beam = {"search": "beam", "n_best": 2}
    assert texts(**no_steps, refine_start="r") == texts(**beam, z="sample")
    assert texts(**no_steps, refine_start="prior", z="mean") == texts(**beam, z="zero")


@pytest.mark.parametrize("system", ["cond", "joint", "source_only"])
def test_refine_needs_a_posterior_of_both_sides(system):
    with pytest.raises(UserError, match="only a model with z_inference_from source_target"):
        make(system).translate(["a"], search="refine")


def test_a_sentence_ends_in_eos():
    def hypotheses(*rows):
        ids = tf.constant(rows)[:, None]
        lengths = tf.constant([[2], [3]])
        return search.Hypotheses(ids, lengths, scores=None, log_probs=None)

    eos = text.EOS
    ids, lengths = search.sentences(hypotheses([5, eos, eos], [6, 7, 8]), eos=eos)
    assert ids.numpy().tolist() == [[5, eos, eos, eos], [6, 7, 8, eos]]
    assert lengths.numpy().tolist() == [2, 4]
    ids, _ = search.sentences(hypotheses([5, eos, eos], [6, 7, eos]), eos=eos)
    assert ids.shape == (2, 3)


# z.


def test_each_translation_has_the_z_it_was_made_with(shared):
    """log P(y|x, z) of what was found, recomputed with the z that came with it."""
    decoding = Decoding.of(shared.hp, search="greedy", z="sample", num_z=3, n_best=3)
    (result,) = shared.stream(["a b c"], decoding=decoding, details=True)
    x, x_len, _ = shared.encode(tf.constant(["a b c"]))
    checked = 0
    for t in result.translations:
        ids = [shared.y_tokenizer.words.index(piece) for piece in t.target_pieces]
        batch = {"x": x, "x_len": x_len, "y": tf.constant([ids])}
        batch["y_len"] = tf.constant([len(ids)])
        nll_y = shared.model.loss_terms(batch, z=t.z[None]).nll_y[0]
        np.testing.assert_allclose(-nll_y, t.log_prob, rtol=1e-4)
        checked += 1
    assert checked == 3 and len({t.z.tobytes() for t in result.translations}) == 3
    zero = dataclasses.replace(decoding, z="zero", num_z=1, n_best=1)
    (result,) = shared.stream(["a b c"], decoding=zero, details=True)
    assert not result.translations[0].z.any()


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"search": "mbr", "num_samples": 0}, "num_samples must be at least 1"),
        ({"search": "mbr", "num_samples": 3, "n_best": 4}, "give a larger num_samples"),
        ({"search": "mbr", "num_z": 2}, "num_z above 1 needs z sample, and beam, greedy or"),
        ({"search": "mbr", "utility": "ter"}, "utility must be chrf or bleu"),
        ({"search": "refine", "z": "zero"}, "give z sample or z mean"),
        ({"search": "refine", "refine_steps": -1}, "refine_steps at least 0"),
        ({"search": "refine", "refine_start": "q"}, "refine_start must be prior or r"),
        ({"search": "refine", "n_best": 11}, "give a larger beam_width"),
    ],
)
def test_bad_options(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        Decoding(**changes)


def test_rules_that_are_about_draws_draw_z():
    assert Decoding(search="mbr").z == Decoding(search="refine").z == "sample"
    assert Decoding().z == "mean" and Decoding(search="mbr", z="mean").z == "mean"
