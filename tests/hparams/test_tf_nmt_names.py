"""TF-NMT's own files load unchanged."""

import json
import re
import warnings
from pathlib import Path

import pytest

from aevnmt_tf import hparams
from aevnmt_tf.hparams import tf_nmt_names
from tests.hparams.refusals import refusal

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
    "forget_bias": 1.0,
    "residual": False,
    "output_attention": True,
    "coverage_penalty_weight": 0.0,
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
    "num_gpus": 1,
    "num_inter_threads": 0,
    "num_intra_threads": 0,
    "log_device_placement": False,
    "scope": None,
    "Qx_encoder": None,
    "Qx_decoder": None,
    "Qx_covariance": "diagonal",
    "num_embeddings_partitions": 0,
    "jobid": 0,
    "num_workers": 1,
    "override_loaded_hparams": False,
    "init_weight": 0.1,
    "init_op": "uniform",
    "check_special_token": True,
}


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
        ("unit_type", "nas"),
        ("num_sampled_softmax", 100),
        ("use_char_encode", True),
        ("num_encoder_residual_layers", 1),
        ("num_decoder_residual_layers", 3),
        ("src_embed_file", "glove.en"),
        ("tgt_embed_file", "glove.de"),
    ],
)
def test_refused_values_are_named_with_their_key(write, key, value):
    found = refusal(write({"note": "a file", key: value}))
    assert f"settings.json, line 3: {key} {json.dumps(value)} is not supported: " in found
    assert found.endswith(".")


# The four files that TF-NMT ships; what they share first.
RECIPE = {
    "batch_size": 128,
    "beam_width": 10,
    "colocate_gradients_with_ops": True,
    "dropout": 0.2,
    "eos": "</s>",
    "forget_bias": 1.0,
    "infer_batch_size": 32,
    "init_weight": 0.1,
    "learning_rate": 1.0,
    "max_gradient_norm": 5.0,
    "metrics": ["bleu"],
    "num_buckets": 5,
    "optimizer": "sgd",
    "share_vocab": False,
    "sos": "<s>",
    "src_max_len": 50,
    "src_max_len_infer": None,
    "steps_per_external_eval": None,
    "steps_per_stats": 100,
    "tgt_max_len": 50,
    "tgt_max_len_infer": None,
    "time_major": True,
    "unit_type": "lstm",
}
WMT16 = {"num_units": 1024, "num_train_steps": 340000, "decay_scheme": "luong10"}
GNMT = {
    "attention": "normed_bahdanau",
    "attention_architecture": "gnmt_v2",
    "encoder_type": "gnmt",
    "residual": True,
    "subword_option": "bpe",
    "length_penalty_weight": 1.0,
}
RECIPES = {
    "iwslt15": {
        "attention": "scaled_luong",
        "attention_architecture": "standard",
        "encoder_type": "bi",
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "num_train_steps": 12000,
        "decay_scheme": "luong234",
        "num_units": 512,
        "residual": False,
        "subword_option": "",
    },
    "wmt16": {
        **WMT16,
        "attention": "normed_bahdanau",
        "attention_architecture": "standard",
        "encoder_type": "bi",
        "num_encoder_layers": 4,
        "num_decoder_layers": 4,
        "residual": False,
        "subword_option": "bpe",
    },
    "wmt16_gnmt_4_layer": {**WMT16, **GNMT, "num_encoder_layers": 4, "num_decoder_layers": 4},
    "wmt16_gnmt_8_layer": {**WMT16, **GNMT, "num_encoder_layers": 8, "num_decoder_layers": 8},
}


@pytest.mark.filterwarnings("ignore:.*has no meaning here")
@pytest.mark.parametrize("name", list(RECIPES))
def test_the_recipes_of_tf_nmt_load_unchanged(write, name):
    file = {**RECIPE, **RECIPES[name]}
    hp = hparams.load(write(file))
    for key in (file.keys() & hparams.SETTINGS.keys()) - {"metrics"}:
        if file[key] is not None:
            assert getattr(hp, key) == file[key], key
    assert (hp.model_type, hp.decoder_style) == ("cond", "tf_nmt")
    # TF-NMT's own defaults where the file is silent.
    assert hp.pass_hidden_state and hp.output_attention
    assert (hp.init_op, hp.init_weight, hp.check_convergence_every) == ("uniform", 0.1, 0)
    assert hp.length_penalty_weight == file.get("length_penalty_weight", 0.0)


@pytest.mark.filterwarnings("ignore:.*has no meaning here")
def test_command_lines_of_tf_nmt_start_from_its_defaults(write):
    """--hparams tfnmt is a file of TF-NMT that says nothing else."""
    flags = {"attention": "scaled_luong", "num_layers": 4, "num_units": 128}
    hp = hparams.load("tfnmt", **flags)
    assert hp.replace(note=None) == hparams.load(write({"time_major": True}), **flags)
    assert (hp.model_type, hp.encoder_type, hp.num_encoder_layers) == ("cond", "uni", 4)


def test_every_flag_of_the_page_is_a_setting_or_names_its_replacement():
    page = Path(__file__).parents[2] / "docs" / "tf_nmt.md"
    table = page.read_text(encoding="utf-8").split("| Flag | Here |")[1]
    names = {
        name
        for row in table.splitlines()[2:]
        for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert len(names) > 70
    for name in names:
        assert (name in hparams.SETTINGS) != (f"--{name}" in tf_nmt_names.FLAGS), name
    others = set(NO_MEANING) - set(hparams.SETTINGS)
    assert {name for name in others if not name.startswith("Qx")} <= names


def test_a_file_that_names_a_model_gets_none_of_tf_nmt_s_defaults(write):
    hp = hparams.load(write({"model_type": "aevnmt", "forget_bias": 0.5, "unit_type": "lstm"}))
    assert (hp.optimizer, hp.pass_hidden_state, hp.init_op) == ("adam", False, None)
    assert (hp.decoder_style, hp.forget_bias) == ("tf_nmt", 0.5)


def test_depths_that_differ_turn_pass_hidden_state_off(write):
    file = {**RECIPE, **RECIPES["wmt16"], "num_decoder_layers": 2}
    with pytest.warns(UserWarning, match="no meaning"):
        assert not hparams.load(write(file)).pass_hidden_state


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"infer_mode": "greedy", "beam_width": 5}, (0, 0.0)),
        ({"infer_mode": "beam_search", "beam_width": 5}, (5, 0.0)),
        ({"infer_mode": "sample", "sampling_temperature": 0.7}, (0, 0.7)),
    ],
)
def test_infer_mode_chooses_the_search(given, expected):
    hp = hparams.load(**given)
    assert (hp.beam_width, hp.sampling_temperature) == expected
    assert hp.replace(beam_width=3).beam_width == 3
    assert "infer_mode" in refusal(infer_mode="beam_search", beam_width=0)
    assert "infer_mode" in refusal(infer_mode="sample")


def test_a_saved_language_model_of_tf_nmt_loads(write):
    saved = {"attention": "", "attention_architecture": "", "language_model": True}
    saved |= {"best_rouge": 0.1, "avg_best_word_accuracy_dir": "x", "residual": None}
    saved |= {"src": "de", "tgt": "de", "train_prefix": "x"}
    with pytest.warns(UserWarning, match="no meaning"):
        hp = hparams.load(write({**RECIPE, **RECIPES["iwslt15"], **saved}))
    assert (hp.language_model, hp.share_vocab, hp.attention) == (True, True, "")


def test_residual_layers_that_tf_nmt_saved_are_checked(write):
    saved = {**RECIPE, **RECIPES["wmt16_gnmt_4_layer"], "num_encoder_residual_layers": 2}
    with pytest.warns(UserWarning, match="it follows from residual"):
        assert hparams.load(write(saved)).residual
    assert "num_decoder_residual_layers 3 is not supported" in refusal(
        write({**saved, "num_decoder_residual_layers": 3})
    )


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


@pytest.mark.parametrize("name", sorted({*tf_nmt_names.EMPTY_IS_NULL} & {*hparams.SETTINGS}))
def test_an_empty_prefix_is_none(name):
    assert getattr(hparams.load(None, **{name: ""}), name) is None


def test_warm_up_of_null_is_none():
    assert hparams.load(None, warmup_steps=None).warmup_steps == 0
