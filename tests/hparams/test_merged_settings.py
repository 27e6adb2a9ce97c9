"""The settings of a run: a frozen object, made of defaults, files and flags in this order."""

import argparse
import copy
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


def from_flags(*words, groups=None):
    parser = argparse.ArgumentParser()
    hparams.add_flags(parser, groups)
    return hparams.from_args(parser.parse_args(words))


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


def test_flags_win_over_the_file_and_the_file_over_the_defaults(write):
    path = write({"batch_size": 7, "dropout": 0.5})
    hp = from_flags("--hparams", str(path), "--batch_size", "8")
    assert (hp.batch_size, hp.dropout, hp.num_units) == (8, 0.5, 256)
    assert hparams.load(path, batch_size=8) == hp
    assert hparams.load(str(path)).batch_size == 7


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
        (["--unit_type", "nas"], '--unit_type: unit_type "nas" is not supported'),
        (
            ["--beam_width", "5", "--sampling_temperature", "1"],
            "--beam_width: beam_width 5 ",
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
    assert re.search(r"--batch_size N [^()]+ \(default: 64\)", text)
    assert "(default: 1)" in text and "(default: true)" in text and "(default: bleu)" in text
    for name in hparams.SETTINGS:
        assert f"--{name} " in text


def test_settings_are_light():
    """Reading settings, and so --help, imports nothing slow."""
    code = (
        "import sys, argparse, aevnmt_tf.hparams as h; h.add_flags(argparse.ArgumentParser());"
        "sys.exit(any(m in sys.modules for m in ('tensorflow', 'keras', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_a_seed_has_31_bits():
    assert hparams.load(None, random_seed=2**31 - 1).random_seed == 2**31 - 1
    with pytest.raises(UserError, match="random_seed"):
        hparams.load(None, random_seed=2**31)


def test_help_of_a_command_that_loads_a_run_shows_no_default():
    """The settings of the run are the defaults, not those of the table."""
    parser = argparse.ArgumentParser()
    hparams.add_flags(parser, ["decoding"], file=False)
    text = parser.format_help()
    assert "By default, as in the run." in text and "(default:" not in text
