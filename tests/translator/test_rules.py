"""Decision rules as they are declared: flags and refusals follow."""

import argparse
import dataclasses

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import rules
from aevnmt_tf.translator.rules import OPTIONS, RULES, Decoding
from tests import tiny


def parsed(*words, names=rules.FLAGS):
    parser = argparse.ArgumentParser()
    rules.add_flags(parser, names)
    return rules.given(parser.parse_args(words), names)


def test_every_field_is_declared():
    for field in dataclasses.fields(Decoding):
        option = OPTIONS[field.name]
        assert option.help and option.default == field.default
        assert set(option.rules) <= set(RULES)
    assert Decoding() == Decoding(**{name: o.default for name, o in OPTIONS.items()})


def test_flags_give_what_was_given():
    assert parsed() == {}
    words = "--search mbr --num_samples 4 --utility bleu --top_p 0.5".split()
    expected = {"search": "mbr", "num_samples": 4, "utility": "bleu", "top_p": 0.5}
    assert parsed(*words) == expected
    assert Decoding(**parsed(*words)).num_samples == 4


@pytest.mark.parametrize("name", OPTIONS)
def test_flags_refuse_what_python_refuses(name):
    with pytest.raises(UserError, match=f"--{name}: {name} must be"):
        parsed(f"--{name}", "nonsense", names=OPTIONS)
    with pytest.raises(UserError, match=f"^{name} must be"):
        Decoding(**{name: "nonsense"})


@pytest.mark.parametrize("name", ["n_best", "num_samples", "top_k", "force_length"])
def test_numbers_must_fit_tensorflow(name):
    with pytest.raises(UserError, match=f"{name} must be 2147483647 or less"):
        Decoding(**{name: 2**31})


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"utility": "bleu"}, "utility is for mbr search, and this is greedy search: give"),
        ({"num_samples": 5, "search": "sample"}, "num_samples is for mbr search"),
        ({"refine_steps": 2}, "refine_steps is for refine search"),
        ({"top_k": 3}, "top_k is for sample or mbr search, .* search sample, or leave top_k"),
        ({"beam_width": 3}, "beam_width is for beam or refine search, and this is greedy"),
        ({"given": {"sampling_temperature": 0.5}}, "sampling_temperature is for sample or mbr"),
        (
            {"given": {"length_penalty_weight": 0.5}, "search": "mbr"},
            "length_penalty_weight is for beam or greedy or sample or refine search",
        ),
        (
            {"given": {"sampling_temperature": 0.0}, "search": "sample"},
            "sampling_temperature 0 means no sample search: give one above 0, or no search",
        ),
        ({"given": {"beam_width": 0}, "search": "beam"}, "beam_width 0 means no beam search"),
    ],
)
def test_options_of_another_rule_are_refused(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        Decoding.of(tiny.settings("source_only", beam_width=0), **changes)


def test_decoding_follows_the_settings():
    def of(**changes):
        return Decoding.of(tiny.settings("source_only", **changes))

    assert of(beam_width=7).search == "beam" and of(beam_width=7).beam_width == 7
    assert of(beam_width=0).search == "greedy"
    sampled = of(sampling_temperature=0.5, num_translations_per_input=4)
    assert (sampled.search, sampled.temperature, sampled.n_best) == ("sample", 0.5, 4)
    assert of(tgt_max_len_infer=9).max_length == 9


def test_a_beam_has_no_temperature():
    hp = tiny.settings("source_only", sampling_temperature=0.5)
    with pytest.raises(UserError, match="beam search has no sampling_temperature.* 0.5 here"):
        Decoding.of(hp, search="beam")
    assert Decoding.of(hp, search="beam", beam_width=3).beam_width == 3
    assert Decoding.of(hp, search="greedy").search == "greedy"
    assert Decoding.of(hp.replace(beam_width=3), search="beam").beam_width == 3


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"search": "viterbi"}, "search must be"),
        ({"z": "mode"}, "z must be"),
        ({"n_best": 11}, "n_best 11 is more than beam search finds"),
        ({"n_best": 2, "search": "greedy"}, "n_best 2 is more than greedy search finds"),
        ({"num_z": 2}, "num_z above 1 needs z sample"),
    ],
)
def test_bad_options(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        Decoding(**changes)


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"search": "mbr", "num_samples": 0}, "num_samples must be"),
        ({"search": "mbr", "num_samples": 3, "n_best": 4}, "give a larger num_samples"),
        ({"search": "mbr", "num_z": 2}, "num_z above 1 needs z sample"),
        ({"search": "mbr", "utility": "ter"}, "utility must be"),
        (
            {"search": "mbr", "utility": "bleu", "references": "aggregate"},
            "references aggregate supports only utility chrf",
        ),
        ({"search": "refine", "z": "zero"}, "set z to sample or mean"),
        ({"search": "refine", "refine_steps": -1}, "refine_steps must be"),
        ({"search": "refine", "refine_start": "q"}, "refine_start must be"),
        ({"search": "refine", "n_best": 11}, "give a larger beam_width"),
    ],
)
def test_bad_options_of_mbr_and_refine(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        Decoding(**changes)


def test_label_smoothing_hurts_samples():
    smooth, plain = (tiny.settings("source_only", label_smoothing=s) for s in (0.1, 0.0))
    for rule in ("sample", "mbr"):
        assert "label_smoothing 0.1" in Decoding(search=rule).warning(smooth)
        for cure in ({"epsilon": 0.02}, {"top_p": 0.9}, {"top_k": 5}):
            assert not Decoding(search=rule, **cure).warning(smooth)
        assert not Decoding(search=rule).warning(plain)
    assert not Decoding(search="beam").warning(smooth)


def test_rules_that_are_about_draws_draw_z():
    assert Decoding(search="mbr").z == Decoding(search="refine").z == "sample"
    assert Decoding().z == "mean" and Decoding(search="mbr", z="mean").z == "mean"
