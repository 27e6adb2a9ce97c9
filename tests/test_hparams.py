"""Settings: one declaration, three sources, TF-NMT's files, and errors that help."""

import argparse
import copy
import json
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aevnmt_tf import hparams, hparams_tfnmt
from aevnmt_tf.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "hparams").glob("*.json"))

# The authors' file for AEVNMT, every key of theirs that a file of TF-NMT may hold.
TF_NMT = {
    "joint_model_type": "dvae",
    "num_units": 256,
    "z_dim": "256",
    "z_inference_from": "source_only",
    "word_dropout": 0.1,
    "KL_annealing_steps": 80000,
    "dropout": 0.3,
    "encoder_type": "bi",
    "num_layers": 2,
    "num_encoder_layers": 2,
    "num_decoder_layers": 1,
    "num_lm_layers": 1,
    "attention": "bahdanau",
    "attention_architecture": "standard",
    "unit_type": "gru",
    "pass_hidden_state": False,
    "optimizer": "adam",
    "learning_rate": 0.0003,
    "max_gradient_norm": 1.0,
    "batch_size": 64,
    "infer_batch_size": 64,
    "num_train_steps": 140000,
    "check_convergence_every": 500,
    "steps_per_stats": 100,
    "steps_per_external_eval": 1000,
    "beam_width": 10,
    "length_penalty_weight": 1.0,
    "sampling_temperature": 0.0,
    "num_translations_per_input": 1,
    "num_buckets": 5,
    "src_max_len": 50,
    "tgt_max_len": 50,
    "src_max_len_infer": None,
    "tgt_max_len_infer": None,
    "subword_option": "bpe",
    "share_vocab": False,
    "sos": "<s>",
    "eos": "</s>",
    "src": "en",
    "tgt": "de",
    "train_prefix": "data/train",
    "dev_prefix": "data/dev",
    "test_prefix": "data/test",
    "vocab_prefix": "data/vocab",
    "embed_prefix": None,
    "out_dir": "runs/dvae",
    "synthetic_prefix": None,
    "mono_prefix": None,
    "mono_real_ratio": 1,
    "metrics": ["bleu"],
    "num_keep_ckpts": 5,
    "avg_ckpts": False,
    "random_seed": None,
    "max_train": 0,
    "decay_scheme": "",
    "warmup_steps": 0,
    "warmup_scheme": "t2t",
}
NO_MEANING = {
    "time_major": True,
    "colocate_gradients_with_ops": True,
    "forget_bias": 1.0,
    "num_gpus": 1,
    "num_inter_threads": 0,
    "num_intra_threads": 0,
    "log_device_placement": False,
    "scope": None,
    "residual": False,
    "Qx_encoder": None,
    "Qx_decoder": None,
    "Qx_covariance": "diagonal",
    "num_embeddings_partitions": 0,
    "jobid": 0,
    "num_workers": 1,
    "override_loaded_hparams": False,
    "init_weight": 0.1,
    "init_op": "uniform",
    "output_attention": True,
    "check_special_token": True,
}


@pytest.fixture
def write(tmp_path):
    """Writes a settings file, from a dictionary or as the text given."""

    def write(values, name="settings.json"):
        path = tmp_path / name
        text = values if isinstance(values, str) else json.dumps(values, indent=1)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refusal(path=None, **overrides):
    """The sentence with which settings are refused."""
    with pytest.raises(UserError) as caught:
        hparams.load(path, **overrides)
    return str(caught.value)


def from_flags(*words, groups=None):
    parser = argparse.ArgumentParser()
    hparams.add_flags(parser, groups)
    return hparams.from_args(parser.parse_args(words))


# ---------------------------------------------------------------- the declaration


def test_the_defaults_are_the_authors_values_for_aevnmt():
    hp = hparams.load()
    for name in set(TF_NMT) & set(hparams.SETTINGS):
        if name in ("word_dropout", "KL_annealing_steps", "num_buckets", "subword_option"):
            continue  # The paper's values, and ours.
        if name.endswith("_prefix") or name in ("out_dir", "z_dim", "num_layers"):
            continue
        if TF_NMT[name] is not None and name not in ("avg_ckpts", "metrics"):
            assert getattr(hp, name) == TF_NMT[name], name
    assert hp.z_dim == 256 and hp.metrics == ("bleu",) and hp.avg_ckpts == 0


@pytest.mark.parametrize("setting", hparams.SETTINGS.values(), ids=lambda s: s.name)
def test_a_declaration_is_complete_and_its_default_valid(setting):
    assert setting.check(setting.default) == setting.default
    assert setting.help and setting.help[0] != " " and "  " not in setting.help
    assert setting.group in hparams.GROUPS


def test_names_are_declared_once():
    names = [setting.name for group in hparams.GROUPS.values() for setting in group]
    assert len(names) == len(set(names)) == len(hparams.SETTINGS)
    assert not set(names) & (set(hparams_tfnmt.IGNORED) | set(hparams_tfnmt.ALIASES))


def test_the_readme_is_current():
    made = subprocess.run(
        [sys.executable, "-m", "aevnmt_tf.hparams"], cwd=ROOT, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    assert (ROOT / "hparams" / "README.md").read_text(encoding="utf-8") == made.stdout, (
        "run: python -m aevnmt_tf.hparams > hparams/README.md"
    )


def test_the_readme_names_every_setting_alias_and_file():
    text = (ROOT / "hparams" / "README.md").read_text(encoding="utf-8")
    for name in [
        *hparams.SETTINGS,
        *hparams_tfnmt.ALIASES,
        *hparams_tfnmt.IGNORED,
        *hparams_tfnmt.REFUSED,
        *[file.name for file in FILES],
    ]:
        assert f"| `{name}` |" in text, name


# ---------------------------------------------------------------- the object


def test_settings_are_frozen():
    hp = hparams.load()
    with pytest.raises(AttributeError, match="frozen"):
        hp.batch_size = 3
    with pytest.raises(AttributeError, match="frozen"):
        del hp.batch_size
    assert hp.batch_size == 64


def test_a_misspelt_attribute_names_the_right_one():
    with pytest.raises(
        AttributeError, match="no setting called kl_annealing.*KL_annealing_steps"
    ):
        _ = hparams.load().kl_annealing_steps


def test_equal_settings_are_equal_and_hash_alike():
    one, two = hparams.load(metrics=["bleu", "ter"]), hparams.load(metrics="bleu,ter")
    assert one == two and hash(one) == hash(two) and len({one, two}) == 1
    assert one != hparams.load() and one != "bleu"


def test_settings_survive_copy_and_pickle():
    hp = hparams.load(batch_size=7, train_prefix=["a", "b"], src="en", tgt="de")
    assert pickle.loads(pickle.dumps(hp)) == copy.deepcopy(hp) == copy.copy(hp) == hp


def test_replace_changes_some_and_checks_again():
    hp = hparams.load(batch_size=7)
    assert hp.replace(dropout=0.5) == hparams.load(batch_size=7, dropout=0.5)
    with pytest.raises(UserError, match="encoder_type.*num_encoder_layers"):
        hp.replace(num_encoder_layers=1)


def test_repr_shows_what_is_not_default():
    assert "batch_size=7" in repr(hparams.load(batch_size=7))
    assert "num_units" not in repr(hparams.load(batch_size=7))


def test_save_leaves_one_file_that_others_may_read(tmp_path):
    path = tmp_path / "new" / "hparams.json"
    hparams.load().save(path)
    hparams.load(batch_size=7).save(path)
    assert [file.name for file in path.parent.iterdir()] == ["hparams.json"]
    assert hparams.load(path).batch_size == 7
    plain = tmp_path / "plain"
    plain.write_text("")
    assert path.stat().st_mode == plain.stat().st_mode


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "hparams.json"
    hparams.load(batch_size=7).save(path)
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "disk full")))
    with pytest.raises(UserError, match="hparams.json cannot be written: disk full"):
        hparams.load(batch_size=8).save(path)
    assert hparams.load(path).batch_size == 7
    assert [file.name for file in tmp_path.iterdir()] == ["hparams.json"]


# ---------------------------------------------------------------- values at random

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
    if v.get("sampling_temperature"):
        v.pop("beam_width", None)
    for name in ("num_layers", "num_encoder_layers"):
        if v.get(name) is not None:
            v[name] += v[name] % 2
    for name in ("num_translations_per_input", "avg_ckpts", "sos", "eos", "train_ratios"):
        v.pop(name, None)
    if v.get("text_pipeline") == "moses":
        v.pop("subword_option", None)
    if v.get("train_prefix") is None:
        for name in ("dev_prefix", "synthetic_prefix", "src", "tgt"):
            v.pop(name, None)
    else:
        v["src"], v["tgt"] = draw(st.lists(_TEXTS, min_size=2, max_size=2, unique=True))
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


# ---------------------------------------------------------------- where settings come from


def test_flags_win_over_the_file_and_the_file_over_the_defaults(write):
    path = write({"batch_size": 7, "dropout": 0.5})
    hp = from_flags("--hparams", str(path), "--batch_size", "8")
    assert (hp.batch_size, hp.dropout, hp.num_units) == (8, 0.5, 256)
    assert hparams.load(path, batch_size=8) == hp
    assert hparams.load(str(path)).batch_size == 7


def test_base_is_found_relative_to_the_file_and_may_have_a_base(write, tmp_path):
    (tmp_path / "deep").mkdir()
    write({"batch_size": 1, "dropout": 0.1, "num_units": 8, "note": "the root"}, "root.json")
    write({"base": "../root.json", "dropout": 0.2, "num_units": 16}, "deep/middle.json")
    hp = hparams.load(write({"base": "deep/middle.json", "num_units": 32}))
    assert (hp.batch_size, hp.dropout, hp.num_units) == (1, 0.2, 32)
    assert hp.note is None  # A note is about the file that it stands in.
    assert hparams.load(tmp_path / "root.json").note == "the root"


def test_a_circle_of_bases_is_an_error(write):
    write({"base": "two.json"}, "one.json")
    two = write({"base": "one.json"}, "two.json")
    assert re.search(r"circle: .*two\.json -> .*one\.json -> .*two\.json", refusal(two))


def test_a_missing_base_names_both_files(write):
    path = write({"base": "absent.json"})
    assert re.search(r"absent\.json \(the base of .*settings\.json\) cannot be", refusal(path))
    assert "base must be a file's name, not 3" in refusal(write({"base": 3}))


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--share_vocab", "true"], "share_vocab", True),
        (["--share_vocab"], "share_vocab", True),
        (["--word_dropout_source=False"], "word_dropout_source", False),
        (["--metrics", "bleu,chrf"], "metrics", ("bleu", "chrf")),
        (["--metrics", '["ter"]'], "metrics", ("ter",)),
        (["--max_steps", "null"], "max_steps", None),
        (["--num_train_steps", "1e5"], "num_train_steps", 100000),
        (["--learning_rate", "1e-3"], "learning_rate", 0.001),
        (["--max_minutes", "3"], "max_minutes", 3.0),
        (["--jit_compile", "true"], "jit_compile", "true"),
        (["--decay_scheme", ""], "decay_scheme", ""),
        (["--avg_ckpts", "true", "--num_keep_ckpts", "3"], "avg_ckpts", 3),
        (["--avg_ckpts", "2"], "avg_ckpts", 2),
        (["--random_seed", "null"], "random_seed", 1),
        (["--model_type", "dvae"], "model_type", "aevnmt"),
        (["--joint_model_type", "dsimple"], "model_type", "joint"),
        (["--src", "de"], "tgt", "en"),
    ],
)
def test_flags(words, name, value):
    found = getattr(from_flags(*words), name)
    assert found == value and type(found) is type(value)


def test_prefixes_as_flags():
    common = ("--src", "en", "--tgt", "de")
    assert from_flags("--train_prefix", "a/b", *common).train_prefix == "a/b"
    assert from_flags("--train_prefix", "a,b", *common).train_prefix == ("a", "b")
    assert from_flags("--train_prefix", '["a,b"]', *common).train_prefix == ("a,b",)


def test_flags_of_some_groups_leave_a_verbs_own_flags_alone():
    parser = argparse.ArgumentParser()
    hparams.add_flags(parser, ["decoding"], file=False)
    parser.add_argument("--src", default="news.en")
    args = parser.parse_args(["--beam_width", "3"])
    assert hparams.overrides(args) == {"beam_width": 3}
    assert hparams.from_args(args).src == "en"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--batch_size", "0"], "--batch_size: batch_size must be a whole number .* 1, not 0"),
        (["--batch_size", "1.5"], "must be a whole number of at least 1, not 1.5"),
        (["--dropout", "nan"], "dropout must be a number of at least 0 and below 1, not NaN"),
        (["--share_vocab", "maybe"], 'share_vocab must be true or false, not "maybe"'),
        (["--optimizer", "adamm"], "did you mean adam"),
        (["--train_ratios", "1,x"], "a list of numbers above 0"),
        (["--metrics", "[bleu"], "metrics must be a list of"),
        (["--attention", "luong"], '--attention: attention "luong" is not supported'),
        (
            ["--beam_width", "5", "--sampling_temperature", "1"],
            "--beam_width: beam_width 5 and",
        ),
    ],
)
def test_bad_flags(words, sentence):
    with pytest.raises(UserError, match=sentence):
        from_flags(*words)


def test_help_shows_groups_and_defaults():
    parser = argparse.ArgumentParser()
    hparams.add_flags(parser)
    text = re.sub(r"\s+", " ", parser.format_help())
    for group in hparams.GROUPS:
        assert f"settings: {group}:" in text
    assert "--batch_size N sentence pairs a batch, over all devices (default: 64)" in text
    assert "(default: 1)" in text and "(default: true)" in text and "(default: bleu)" in text
    for name in hparams.SETTINGS:
        assert f"--{name} " in text


# ---------------------------------------------------------------- errors in files


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{\n"batchsize": 3}', "line 2: .* setting called batchsize; did you mean batch_size"),
        ('{\n\n"kl_annealing_steps": 3}', "line 3: .* did you mean KL_annealing_steps"),
        ('{"xyzzy": 3}', "no setting called xyzzy; --help lists"),
        ('{\n"batch_size": "many"}', 'line 2: batch_size must be a whole number .* not "many"'),
        ('{"batch_size": true}', "not true"),
        ('{"batch_size": null}', "not null"),
        ('{"share_vocab": 1}', "share_vocab must be true or false, not 1"),
        ('{"dropout": 1.0}', "dropout must be a number of at least 0 and below 1, not 1.0"),
        ('{"learning_rate": 0}', "learning_rate must be a number above 0, not 0"),
        ('{"learning_rate": Infinity}', "not Infinity"),
        ('{"metrics": []}', "metrics must be a list"),
        ('{"metrics": ["rouge"]}', 'not "rouge"'),
        ('{"train_prefix": ["a", 3]}', "must be a text or a list of them or null, not 3"),
        ('{"out_dir": ""}', 'out_dir must be a text or null, not ""'),
        ('{"decoder_style": "papr"}', "did you mean paper"),
        ('{"joint_model_type": "dvea"}', "joint_model_type must be .*; did you mean dvae"),
        ('{\n"batch_size": 3,\n}', "line 3: this is not JSON"),
        ('{"dropout": 0.1,\n "dropout": 0.2}', "dropout is given twice"),
        ("[1]", "must hold one JSON object"),
        ("", "line 1: this is not JSON"),
        ("[" * 100000, "nested too deeply|not JSON"),
        ('{"learning_rate": 1' + "0" * 400 + "}", "learning_rate must be a number above 0"),
        ('{"batch_size": 1' + "0" * 5000 + "}", "is not JSON: .*digits"),
    ],
)  # fmt: skip
def test_an_error_in_a_file_names_file_line_and_key(write, text, sentence):
    found = refusal(write(text))
    assert "settings.json" in found and re.search(sentence, found), found


def test_files_that_cannot_be_read(tmp_path):
    assert "absent.json cannot be read" in refusal(tmp_path / "absent.json")
    assert "cannot be read" in refusal(tmp_path)
    (tmp_path / "latin1.json").write_bytes('{"note": "Grüße"}'.encode("latin-1"))
    assert "latin1.json is not UTF-8" in refusal(tmp_path / "latin1.json")


# ---------------------------------------------------------------- combinations


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
        ({"num_encoder_layers": 3}, ("encoder_type", "num_encoder_layers")),
        ({"num_layers": 1}, ("encoder_type", "num_encoder_layers")),
        ({"avg_ckpts": 6}, ("avg_ckpts", "num_keep_ckpts")),
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
            {"joint_model_type": "dvae", "model_type": "cond"},
            ("joint_model_type", "model_type"),
        ),
    ],
)
def test_impossible_combinations_name_both_keys(write, values, keys):
    for found in (refusal(**values), refusal(write(values))):
        assert all(re.search(rf"\b{key}\b", found) for key in keys), found
    assert refusal(write(values)).startswith(str(write(values)))  # and the file


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


def test_settings_of_z_are_harmless_without_z():
    hp = hparams.load(model_type="cond", KL_annealing_steps=9, free_bits=1.0, z_dim=3)
    assert hp.model_type == "cond"


# ---------------------------------------------------------------- TF-NMT's files


def test_a_file_of_the_authors_loads_unchanged(write):
    with pytest.warns(UserWarning) as caught:
        hp = hparams.load(write({**TF_NMT, **NO_MEANING}))
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == len(NO_MEANING)
    for key in NO_MEANING:
        assert sum(f": {key} has no meaning here" in text for text in texts) == 1, key
    assert all("settings.json, line " in text and "\n" not in text for text in texts)
    renamed = {"joint_model_type", "num_layers", "metrics", "z_dim", "avg_ckpts"}
    resolved = {"random_seed", "src_max_len_infer"}
    for name in set(TF_NMT) - renamed - resolved:
        assert getattr(hp, name) == TF_NMT[name], name
    assert (hp.model_type, hp.z_dim, hp.metrics, hp.avg_ckpts) == ("aevnmt", 256, ("bleu",), 0)
    assert (hp.random_seed, hp.src_max_len_infer, hp.num_layers) == (1, 512, None)


def test_a_saved_file_of_tf_nmt_gives_no_warning_the_second_time(write, tmp_path):
    with pytest.warns(UserWarning):
        hp = hparams.load(write({**TF_NMT, **NO_MEANING}))
    hp.save(tmp_path / "again.json")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hparams.load(tmp_path / "again.json") == hp


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("none", "cond"),
        (None, "cond"),
        ("baseline", "cond"),
        ("dsimple", "joint"),
        ("dvae", "aevnmt"),
    ],
)
def test_old_model_types(old, new):
    assert hparams.load(joint_model_type=old).model_type == new
    assert hparams.load(joint_model_type=old, model_type=new).model_type == new
    if old not in (None, "none"):
        assert hparams.load(model_type=old).model_type == new


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("joint_model_type", "cbaseline"),
        ("joint_model_type", "csimple"),
        ("joint_model_type", "cvae"),
        ("model_type", "cvae"),
        ("unit_type", "lstm"),
        ("unit_type", "layer_norm_lstm"),
        ("unit_type", "nas"),
        ("attention", "luong"),
        ("attention", "scaled_luong"),
        ("attention", "normed_bahdanau"),
        ("attention", ""),
        ("attention_architecture", "gnmt_v2"),
        ("encoder_type", "uni"),
        ("encoder_type", "gnmt"),
        ("residual", True),
        ("pass_hidden_state", True),
        ("embed_prefix", "glove"),
        ("mono_prefix", "mono"),
        ("num_sampled_softmax", 100),
        ("coverage_penalty_weight", 0.2),
        ("language_model", True),
        ("use_char_encode", True),
    ],
)
def test_refused_values_are_named_with_their_key(write, key, value):
    found = refusal(write({"note": "a file", key: value}))
    assert f"settings.json, line 3: {key} {json.dumps(value)} is not supported: " in found
    assert found.endswith(".")


def test_num_layers_sets_both_depths():
    hp = hparams.load(num_layers=4)
    assert (hp.num_encoder_layers, hp.num_decoder_layers, hp.num_layers) == (4, 4, None)
    hp = hparams.load(num_layers=4, num_decoder_layers=1)
    assert (hp.num_encoder_layers, hp.num_decoder_layers) == (4, 1)
    hp = hparams.load(num_layers=4, num_encoder_layers=None)
    assert (hp.num_encoder_layers, hp.num_decoder_layers) == (4, 4)


def test_num_layers_as_a_flag_wins_over_depths_in_a_file(write):
    hp = hparams.load(write({"num_encoder_layers": 2, "num_decoder_layers": 1}), num_layers=4)
    assert (hp.num_encoder_layers, hp.num_decoder_layers) == (4, 4)


# ---------------------------------------------------------------- the files that ship


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_shipped_file_loads_without_a_warning_and_says_what_it_is(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hp = hparams.load(path)
    assert hp.note
    complete = "_" in path.stem or path.stem == "demo"
    assert hp.out_dir == (f"runs/{path.stem}" if complete else None)


@pytest.mark.parametrize("direction", ["en-de", "de-en"])
@pytest.mark.parametrize("system", ["cond", "joint", "aevnmt"])
@pytest.mark.parametrize("task", ["iwslt14", "nc", "mixed", "synthetic"])
def test_the_papers_values(task, system, direction):
    hp = hparams.load(ROOT / "hparams" / f"{task}_{system}_{direction}.json")
    assert (hp.model_type, f"{hp.src}-{hp.tgt}") == (system, direction)
    assert hp.num_train_steps == (140000 if task in ("iwslt14", "nc") else 280000)
    if system == "aevnmt":
        rates = (0.3, 0.2 if task == "iwslt14" else 0.1, 80000)
    else:
        rates = (0.4 if direction == "en-de" and task != "iwslt14" else 0.5, 0.0, 0)
    assert (hp.dropout, hp.word_dropout, hp.KL_annealing_steps) == rates
    assert (hp.text_pipeline, hp.subword_option, hp.vocab_size) == ("moses", "bpe", 32000)
    assert (hp.src_max_len, hp.tgt_max_len, hp.num_units, hp.z_dim) == (100, 100, 256, 256)
    assert (hp.batch_size, hp.learning_rate, hp.beam_width) == (64, 0.0003, 10)
    assert (hp.check_convergence_every, hp.patience, hp.length_penalty_weight) == (500, 20, 1.0)
    assert isinstance(hp.train_prefix, tuple) == (task == "mixed")
    assert (hp.synthetic_prefix is not None) == (task == "synthetic")
    if task in ("mixed", "synthetic"):
        assert "the paper gives no rates" in hp.note


@pytest.mark.parametrize("system", ["cond", "joint", "aevnmt"])
def test_multi30k(system):
    hp = hparams.load(ROOT / "hparams" / f"multi30k_{system}.json")
    assert (hp.model_type, hp.src, hp.tgt) == (system, "en", "de")
    assert (hp.subword_option, hp.vocab_size) == ("spm", 8000)


def test_the_demo_needs_no_data():
    hp = hparams.load(ROOT / "hparams" / "demo.json")
    assert (hp.model_type, hp.train_prefix, hp.out_dir) == ("aevnmt", None, "runs/demo")


def test_settings_are_light():
    """Reading settings, and so --help, imports nothing slow."""
    code = (
        "import sys, argparse, aevnmt_tf.hparams as h; h.add_flags(argparse.ArgumentParser());"
        "sys.exit(any(m in sys.modules for m in ('tensorflow', 'keras', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
