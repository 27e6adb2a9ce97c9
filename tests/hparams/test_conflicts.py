"""Values and combinations of settings, at random and by hand."""

import argparse
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.hparams.conflicts import PAPER_FORM
from tests.hparams.refusals import refusal


def from_flags(*words, groups=None):
    parser = argparse.ArgumentParser()
    hparams.add_flags(parser, groups)
    return hparams.from_args(parser.parse_args(words))


_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


def _one_value(setting):
    if setting.choices:
        return st.sampled_from(setting.choices)
    if setting.type is bool:
        return st.booleans()
    if setting.type is str:
        return _TEXTS
    low = setting.at_least if setting.above is None else setting.above
    if setting.type is int:
        return st.integers(int(low), 10**6)
    return st.floats(
        low,
        setting.below,
        exclude_min=setting.above is not None,
        exclude_max=setting.below is not None,
        allow_nan=False,
        allow_infinity=False,
    )


def _value(setting):
    value = _one_value(setting)
    if setting.many:
        many = st.lists(value, min_size=1, max_size=3)
        value = many if setting.many is True else value | many
    return value | st.none() if setting.nullable else value


@st.composite
def consistent(draw):
    """A random choice of settings with random values that go together."""
    names = draw(st.sets(st.sampled_from(sorted(hparams.SETTINGS))))
    v = {name: draw(_value(hparams.SETTINGS[name]), label=name) for name in sorted(names)}
    if v.get("z_inference_from") != "source_target":
        v.pop("r_train_mode", None)
    if v.get("model_type") == "vnmt":
        for name in ("z_inference_from", "r_train_mode", "prior"):
            v.pop(name, None)
    if v.get("objective") == "iwae":
        v.pop("free_bits", None)
        v.pop("mdr_rate", None)
    if v.get("mdr_rate"):
        v.pop("free_bits", None)
    if v.get("consistency_weight"):
        v.pop("num_train_samples", None)
        v.pop("objective", None)
        v.pop("model_type", None)
    if not v.get("KL_annealing_steps"):
        v.pop("KL_annealing_cycles", None)
    if v.get("prior") == "mixture":
        v.pop("free_bits_for", None)
    if v.get("prior") == "mixture" or v.get("model_type") == "vnmt":
        v.pop("bn_scale", None)
    if v.get("model_type") == "vae":
        for name in ("z_inference_from", "r_train_mode", "bow_target_weight"):
            v.pop(name, None)
        for name in ("mono_prefix", "synthetic_prefix", "synthetic_tag"):
            v.pop(name, None)
    if v.get("mono_prefix") is not None:
        for name in ("model_type", "z_inference_from", "r_train_mode", "synthetic_prefix"):
            v.pop(name, None)
        v.pop("synthetic_tag", None)
        if v.get("text_pipeline") == "moses":
            v.pop("mono_prefix")
    if v.get("decoder_style") == "tf_nmt":
        v.pop("feed_z", None)
    for name in ("infer_mode", "language_model", "embed_prefix"):
        v.pop(name, None)
    if any(name in v for name in PAPER_FORM):
        v.pop("decoder_style", None)
        v.pop("feed_z", None)
    if v.get("unit_type", "gru") != "gru":
        v.pop("gru_reset", None)
    if v.get("model_type") not in ("cond", "joint"):
        v.pop("pass_hidden_state", None)
    if v.get("attention") == "":
        v["attention"] = "luong"
    if v.get("output_attention") is False:
        v.pop("attention_architecture", None)
    if v.get("sampling_temperature"):
        v.pop("beam_width", None)
    for name in ("num_layers", "num_encoder_layers"):
        if v.get(name) is not None:
            v[name] += v[name] % 2
    for name in ("num_translations_per_input", "avg_ckpts", "sos", "eos", "train_ratios"):
        v.pop(name, None)
    if v.get("text_pipeline") == "moses":
        v.pop("subword_option", None)
    if v.get("text_pipeline") == "moses" or v.get("subword_option", "spm") != "spm":
        v.pop("subword_sampling", None)
    if v.get("decay_scheme") == "linear":
        v["check_convergence_every"] = 0
    if v.get("train_prefix") is None:
        for name in ("dev_prefix", "synthetic_prefix", "src", "tgt"):
            v.pop(name, None)
    else:
        v["src"], v["tgt"] = draw(st.lists(_TEXTS, min_size=2, max_size=2, unique=True))
    tag = v.get("synthetic_tag")
    if v.get("synthetic_prefix") is None or (tag and tag.split() != [tag]):
        v.pop("synthetic_tag", None)
    return v


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(values=consistent())
def test_any_settings_survive_save_and_load(tmp_path, values):
    hp = hparams.load(**values)
    hp.save(tmp_path / "saved.json")
    again = hparams.load(tmp_path / "saved.json")
    assert again == hp and hash(again) == hash(hp)
    assert again.to_dict() == hp.to_dict() == json.loads(json.dumps(hp.to_dict()))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(values=consistent())
def test_a_file_an_argument_and_a_flag_mean_the_same(tmp_path, values):
    path = tmp_path / "given.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    words = [
        f"--{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in values.items()
        # On a command line, null is not a text, and a comma parts the items of a list.
        if not (isinstance(value, str) and re.search(r"^(null|none)$|,|^\s*\[", value, re.I))
    ]
    kept = {word[2:].partition("=")[0] for word in words}
    some = {name: values[name] for name in values if name in kept}
    if {"src", "tgt", "train_prefix"} & set(values) <= kept:
        assert from_flags(*words) == hparams.load(**some)
    assert hparams.load(path) == hparams.load(**values)


@settings(deadline=None)
@given(
    name=st.sampled_from(sorted(hparams.SETTINGS)),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=4,
    ),
)
def test_no_value_whatever_gives_anything_but_settings_or_a_sentence(name, value):
    try:
        hp = hparams.load(**{name: value})
    except UserError as error:
        assert name in str(error) and "\n" not in str(error)
    else:
        json.dumps(hp.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ({"r_train_mode": "KLr"}, ("r_train_mode", "z_inference_from")),
        (
            {"r_train_mode": "l2", "z_inference_from": "source_only"},
            ("r_train_mode", "z_inference_from"),
        ),
        (
            {"beam_width": 5, "sampling_temperature": 0.5},
            ("beam_width", "sampling_temperature"),
        ),
        (
            {"model_type": "vnmt", "z_inference_from": "source_only"},
            ("model_type", "z_inference_from"),
        ),
        ({"model_type": "vnmt", "r_train_mode": "KLq"}, ("model_type", "r_train_mode")),
        ({"model_type": "vnmt", "prior": "mixture"}, ("model_type", "prior")),
        ({"prior": "mixture", "free_bits_for": "dimension"}, ("prior", "free_bits_for")),
        ({"prior": "mixture", "free_bits_for": "batch_dimension"}, ("prior", "free_bits_for")),
        ({"objective": "iwae", "free_bits": 1.0}, ("objective", "free_bits")),
        ({"mdr_rate": 5.0, "free_bits": 1.0}, ("mdr_rate", "free_bits")),
        ({"mdr_rate": 5.0, "objective": "iwae"}, ("mdr_rate", "objective")),
        ({"consistency_weight": 1.0, "objective": "iwae"}, ("consistency_weight", "objective")),
        (
            {"consistency_weight": 1.0, "num_train_samples": 2},
            ("consistency_weight", "num_train_samples"),
        ),
        (
            {"consistency_weight": 1.0, "model_type": "vae"},
            ("consistency_weight", "model_type"),
        ),
        ({"KL_annealing_cycles": 2}, ("KL_annealing_cycles", "KL_annealing_steps")),
        (
            {"model_type": "vae", "z_inference_from": "source_target"},
            ("model_type", "z_inference_from"),
        ),
        ({"model_type": "vae", "mono_prefix": "a"}, ("model_type", "mono_prefix")),
        ({"model_type": "vae", "bow_target_weight": 1.0}, ("model_type", "bow_target_weight")),
        ({"bn_scale": 0.6, "prior": "mixture"}, ("bn_scale", "prior")),
        ({"bn_scale": 0.6, "model_type": "vnmt"}, ("bn_scale", "model_type")),
        ({"feed_z": True, "decoder_style": "tf_nmt"}, ("feed_z", "decoder_style")),
        ({"mono_prefix": "a", "model_type": "cond"}, ("mono_prefix", "model_type")),
        (
            {"mono_prefix": "a", "z_inference_from": "source_target"},
            ("mono_prefix", "z_inference_from"),
        ),
        (
            {"mono_prefix": "a", "text_pipeline": "moses"},
            ("mono_prefix", "text_pipeline"),
        ),
        (
            {
                "mono_prefix": "a",
                "synthetic_prefix": "b",
                "train_prefix": "c",
                "src": "x",
                "tgt": "y",
            },
            ("mono_prefix", "synthetic_prefix"),
        ),
        ({"num_encoder_layers": 3}, ("encoder_type", "num_encoder_layers")),
        ({"num_layers": 1}, ("encoder_type", "num_encoder_layers")),
        ({"avg_ckpts": 6}, ("avg_ckpts", "num_keep_ckpts")),
        ({"decay_scheme": "linear"}, ("decay_scheme", "check_convergence_every")),
        ({"sos": "</s>"}, ("sos", "eos")),
        ({"num_translations_per_input": 11}, ("num_translations_per_input", "beam_width")),
        (
            {"num_translations_per_input": 2, "beam_width": 0},
            ("num_translations_per_input", "beam_width"),
        ),
        ({"src": "en", "tgt": "en"}, ("src", "tgt")),
        ({"src": "fr"}, ("src", "train_prefix")),
        ({"train_prefix": "a", "src": "en"}, ("train_prefix", "tgt")),
        ({"train_prefix": "a", "tgt": "en"}, ("train_prefix", "src")),
        ({"dev_prefix": "a"}, ("dev_prefix", "train_prefix")),
        ({"synthetic_prefix": "a"}, ("synthetic_prefix", "train_prefix")),
        ({"train_ratios": [1]}, ("train_ratios", "train_prefix")),
        (
            {"train_prefix": ["a", "b"], "src": "x", "tgt": "y", "train_ratios": [1]},
            ("train_ratios", "train_prefix"),
        ),
        (
            {"train_prefix": "a", "src": "x", "tgt": "y", "train_ratios": [1, 2]},
            ("train_ratios", "train_prefix"),
        ),
        (
            {"text_pipeline": "moses", "subword_option": "spm"},
            ("text_pipeline", "subword_option"),
        ),
        (
            {"subword_sampling": 0.3, "subword_option": "bpe"},
            ("subword_sampling", "subword_option"),
        ),
        (
            {"joint_model_type": "dvae", "model_type": "cond"},
            ("joint_model_type", "model_type"),
        ),
    ],
)
def test_impossible_combinations_name_both_keys(write, values, keys):
    for found in (refusal(**values), refusal(write(values))):
        assert all(re.search(rf"\b{key}\b", found) for key in keys), found
    assert refusal(write(values)).startswith(str(write(values)))  # and the file


def test_a_rate_that_ends_at_0_goes_with_no_convergence_checks():
    found = refusal(decay_scheme="linear", check_convergence_every=500)
    assert 'decay_scheme "linear"' in found and "set check_convergence_every to 0" in found
    assert hparams.load(decay_scheme="linear", check_convergence_every=0)
    assert hparams.load(decay_scheme="luong10").check_convergence_every == 500


def test_what_follows_from_other_settings():
    assert hparams.load(sampling_temperature=0.5).beam_width == 0
    assert hparams.load(sampling_temperature=0.5, num_translations_per_input=30).beam_width == 0
    assert hparams.load(beam_width=5, sampling_temperature=0).beam_width == 5
    assert hparams.load().r_train_mode is None
    assert hparams.load(z_inference_from="source_target").r_train_mode == "KLq"
    assert (
        hparams.load(z_inference_from="source_target", r_train_mode="l2").r_train_mode == "l2"
    )
    assert hparams.load(z_inference_from="source_only", r_train_mode=None).r_train_mode is None
    assert hparams.load(steps_per_stats=7).steps_per_checkpoint == 70
    assert hparams.load(text_pipeline="moses").subword_option == "bpe"
    assert (hparams.load().src, hparams.load().tgt) == ("en", "de")
    assert hparams.load(tgt="en").src == "de"


def test_a_later_beam_or_temperature_ends_the_other(write):
    sampling = hparams.load(beam_width=4).replace(sampling_temperature=0.5)
    assert (sampling.beam_width, sampling.sampling_temperature) == (0, 0.5)
    again = sampling.replace(beam_width=3)
    assert (again.beam_width, again.sampling_temperature) == (3, 0.0)
    assert again.replace(sampling_temperature=0).beam_width == 3
    assert sampling.replace(beam_width=0).sampling_temperature == 0.5
    write({"beam_width": 7}, name="base.json")
    path = write({"base": "base.json", "sampling_temperature": 0.7})
    assert hparams.load(path).beam_width == 0
    assert hparams.load(path, beam_width=2).sampling_temperature == 0
    # Of one and the same file neither is the later one.
    assert "beam_width 3" in refusal(beam_width=3, sampling_temperature=0.5)


def test_settings_of_z_are_harmless_without_z():
    of_z = {"KL_annealing_steps": 9, "free_bits": 1.0, "z_dim": 3, "feed_z": True}
    hp = hparams.load(model_type="cond", bn_scale=0.5, bow_target_weight=1.0, **of_z)
    assert hp.model_type == "cond"


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"unit_type": "lstm", "decoder_style": "paper"}, ("unit_type", "decoder_style")),
        ({"residual": True, "decoder_style": "paper"}, ("residual", "decoder_style")),
        ({"pass_hidden_state": True, "num_layers": 2}, ("pass_hidden_state", "model_type")),
        ({"attention": "", "model_type": "cond"}, ("attention", "pass_hidden_state")),
        ({"language_model": True}, ("language_model", "model_type")),
        ({"attention": ""}, ("attention", "model_type")),
        ({"attention": "", "model_type": "vnmt"}, ("attention", "model_type")),
        ({"attention": "", "attention_architecture": "gnmt"}, ("attention", "gnmt")),
        (
            {"output_attention": False, "attention_architecture": "gnmt"},
            ("output_attention", "attention_architecture"),
        ),
        ({"encoder_type": "gnmt", "num_encoder_layers": 1}, ("encoder_type", "layers")),
        ({"embed_prefix": "glove", "tie_embeddings": True}, ("embed_prefix", "tie_embed")),
        ({"unit_type": "lstm", "gru_reset": "after"}, ("unit_type", "gru_reset")),
    ],
)
def test_forms_of_tf_nmt_that_do_not_go_together(given, names):
    found = refusal(**given)
    assert "cannot be combined with" in found and all(name in found for name in names)


def test_a_form_of_tf_nmt_sets_the_decoder_style():
    assert hparams.load(attention="luong").decoder_style == "tf_nmt"
    assert hparams.load().decoder_style == "paper"


def test_mdr_takes_whole_batches():
    assert "mdr_rate" in refusal(mdr_rate=2.0, gradient_accumulation_steps=2)
