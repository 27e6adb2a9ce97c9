"""Draws of z that compete, and refinement, against loops that do the same by hand."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from aevnmt_tf import search, text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import (
    Decoding,
    decision,
)
from tests.tiny_translator import LINES, make


@pytest.mark.slow
def test_draws_of_z_compete():
    """The best of several draws is the best of what each draw finds, each sentence once."""
    t = make(scale=1.5, beam_width=2)
    decoding = Decoding.of(t.hp, z="sample", num_z=3, n_best=4)
    x, x_len, _ = t.graph.encode(tf.constant(LINES[:2]))
    seeds = tf.constant([7, 8])
    found, _ = decision.decide(t.graph, x, x_len, seeds=seeds, decoding=decoding)
    assert found.ids.shape[:2] == (2, 4)
    best = [{}, {}]  # score by sentence
    for k in range(3):
        one = dataclasses.replace(decoding, num_z=1, n_best=2)
        split = search.split_seeds(seeds, count=3)[:, k]
        alone, _ = decision.decide(t.graph, x, x_len, seeds=split, decoding=one)
        for row, place in np.ndindex(2, 2):
            words = tuple(alone.ids[row, place, : alone.lengths[row, place]].numpy())
            score = float(alone.scores[row, place])
            best[row][words] = max(score, best[row].get(words, score))
    for row, scores in enumerate(best):
        expected = sorted(scores.values(), reverse=True)[:4]
        expected += [search.MINUS_INFINITY] * (4 - len(expected))
        np.testing.assert_allclose(found.scores[row], expected, rtol=1e-4)


def test_a_model_without_z_has_none_to_draw():
    t = make("cond", beam_width=0)
    for changes in ({"z": "sample", "num_z": 2}, {"z": "sample"}, {"z": "zero"}):
        with pytest.raises(UserError, match="model_type cond.* has no z: leave z and num_z"):
            t.translate(["a"], **changes)
    assert len(t.translate(["a"], search="mbr", num_samples=2)) == 1


def test_a_point_is_not_drawn():
    t = make("l2", beam_width=0)
    for changes in ({"z": "sample", "num_z": 2}, {"z": "sample"}):
        with pytest.raises(UserError, match="predicts z as a point"):
            t.translate(["a"], **changes)
    t.check(Decoding.of(t.hp, search="mbr"))
    t.check(Decoding.of(t.hp, search="refine", beam_width=2))


@pytest.fixture(scope="module")
def paired():
    """A model whose posterior reads the target, with a large influence of z."""
    return make("KLq", scale=1.2, beam_width=2)


def by_hand(t, lines, *, seed, steps):
    """The rule of Shah and Barber, sentence by sentence in Python."""
    found = []
    beam = Decoding.of(t.hp, search="beam", max_length=4)
    for row, line in enumerate(lines):
        seeds = tf.constant([(seed << 32) + row], tf.int64)
        x, x_len, _ = t.graph.encode(tf.constant([line]))
        z = search.normals(seeds, stream=-2, count=4)
        for step in range(steps + 1):
            best = decision.search_with(t.graph, z, x, x_len, seeds=seeds, decoding=beam)
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


def test_each_translation_has_the_z_it_was_made_with(shared):
    """log P(y|x, z) of what was found, recomputed with the z that came with it."""
    decoding = Decoding.of(shared.hp, search="greedy", z="sample", num_z=3, n_best=3)
    (result,) = shared.stream(["a b c"], decoding=decoding, details=True)
    x, x_len, _ = shared.graph.encode(tf.constant(["a b c"]))
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
