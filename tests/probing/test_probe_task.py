"""Tasks, and splits without leaks."""

import collections

import numpy as np
import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.probing import probe_task


def test_the_split_is_seeded_and_stratified():
    texts = [f"sentence {i}" for i in range(200)]
    strata = ["rare"] * 20 + ["common"] * 180
    out = probe_task.split(texts, strata, share=0.25, seed=3)
    counts = collections.Counter(s for s, is_out in zip(strata, out, strict=True) if is_out)
    assert counts == {"rare": 5, "common": 45}
    np.testing.assert_array_equal(out, probe_task.split(texts, strata, share=0.25, seed=3))
    assert (out != probe_task.split(texts, strata, share=0.25, seed=4)).any()


def test_no_sentence_is_on_both_sides():
    dice = np.random.default_rng(0)
    texts = [f"a  {i} ﬁ" if i % 2 else f"a {i} fi " for i in dice.integers(60, size=400)]
    texts += ["the same"] * 300  # does not fit into what is held out
    strata = dice.integers(2, size=700).tolist()
    out = probe_task.split(texts, strata, share=0.2, seed=1)
    sides = collections.defaultdict(set)
    for text, is_out in zip(texts, out, strict=True):
        sides[text.replace("ﬁ", "fi").replace("  ", " ").strip()].add(bool(is_out))
    assert {len(side) for side in sides.values()} == {1}
    assert sides["the same"] == {False}
    assert 0.1 < out.mean() <= 0.21


def test_versions_of_a_sentence_stay_together_also_through_others():
    texts = [*"abcdef", *"ghijkl", "a", "k"]
    origins = [*range(6), *range(6), 20, 5]  # k is g's version and l's by way of its twin
    strata = ["x"] * 6 + ["y"] * 8
    for seed in range(20):
        out = probe_task.split(texts, strata, share=0.3, seed=seed, origins=origins)
        assert (out[:6] == out[6:12]).all()
        assert out[12] == out[0] and out[13] == out[10] == out[11]


def test_a_class_of_one_sentence_is_refused():
    labels = ["a"] * 10 + ["b"] * 5
    texts = [f"{i}" for i in range(10)] + ["again"] * 5
    with pytest.raises(UserError, match="class b has too few different sentences"):
        probe_task.class_task(texts, labels, share=0.2, seed=1)
    with pytest.raises(UserError, match="all sentences have the label a.*at least two classes"):
        probe_task.class_task(texts[:10], labels[:10], share=0.2, seed=1)


def test_a_number_that_never_differs_is_refused():
    with pytest.raises(UserError, match="length hardly differs"):
        probe_task.number_task(
            ["a", "b", "c", "d"], [1, 1, 1, 1], name="length", share=0.5, seed=1
        )


def test_numbers_are_held_out_over_their_whole_range():
    numbers = np.arange(100.0)
    task = probe_task.number_task(
        [str(n) for n in numbers], numbers, name="n", share=0.2, seed=1
    )
    assert len(task.test) == 20
    assert collections.Counter(int(n) // 20 for n in task.test) == dict.fromkeys(range(5), 4)
