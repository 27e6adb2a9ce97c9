"""Settings as files: base, errors with their line, saved and shipped files, README."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.hparams import tf_nmt_names
from tests.hparams.refusals import refusal

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "hparams").glob("*.json"))


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
    assert re.search(r"absent\.json \(the base of .*settings\.json\)", refusal(path))
    assert "base must be a file's name, not 3" in refusal(write({"base": 3}))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{\n"batchsize": 3}', "line 2: .* setting called batchsize; did you mean batch_size"),
        ('{\n\n"kl_annealing_steps": 3}', "line 3: .* did you mean KL_annealing_steps"),
        ('{"xyzzy": 3}', "no setting called xyzzy; aevnmt train --help lists"),
        ('{\n"batch_size": "many"}', 'line 2: batch_size must be a whole number .* not "many"'),
        ('{"batch_size": true}', "not true"),
        ('{"batch_size": null}', "not null"),
        ('{"share_vocab": 1}', "share_vocab must be true or false, not 1"),
        ('{"dropout": 1.0}', "dropout must be a number of at least 0 and below 1, not 1.0"),
        ('{"learning_rate": 0}', "learning_rate must be a number above 0, not 0"),
        ('{"learning_rate": Infinity}', "not Infinity"),
        ('{"metrics": []}', "metrics must be a list"),
        ('{"metrics": ["meteor"]}', 'not "meteor"'),
        ('{"train_prefix": ["a", 3]}', "must be a text or a list of them or null, not 3"),
        ('{"out_dir": ""}', 'out_dir must be a text or null, not ""'),
        ('{"decoder_style": "papr"}', "did you mean paper"),
        ('{"joint_model_type": "dvea"}', "joint_model_type must be .*; did you mean dvae"),
        ('{\n"batch_size": 3,\n}', "line 3: .*JSON"),
        ('{"dropout": 0.1,\n "dropout": 0.2}', "dropout is given twice"),
        ("[1]", "JSON object"),
        ("", "line 1: .*JSON"),
        ("[" * 100000, "nested too deeply|not JSON"),
        ('{"learning_rate": 1' + "0" * 400 + "}", "learning_rate must be a number above 0"),
        ('{"batch_size": 1' + "0" * 5000 + "}", "JSON: .*digits"),
    ],
)  # fmt: skip
def test_an_error_in_a_file_names_file_line_and_key(write, text, sentence):
    found = refusal(write(text))
    assert "settings.json" in found and re.search(sentence, found), found


def test_files_that_cannot_be_read(tmp_path):
    assert "absent.json" in refusal(tmp_path / "absent.json")
    assert str(tmp_path) in refusal(tmp_path)
    (tmp_path / "latin1.json").write_bytes('{"note": "Grüße"}'.encode("latin-1"))
    assert "latin1.json is not UTF-8" in refusal(tmp_path / "latin1.json")


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
    with pytest.raises(UserError, match="hparams.json: the disk is full"):
        hparams.load(batch_size=8).save(path)
    assert hparams.load(path).batch_size == 7
    assert [file.name for file in tmp_path.iterdir()] == ["hparams.json"]


def test_the_readme_is_current():
    made = subprocess.run(
        [sys.executable, "-m", "aevnmt_tf.hparams.declarations"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    assert (ROOT / "hparams" / "README.md").read_text(encoding="utf-8") == made.stdout, (
        "run: python -m aevnmt_tf.hparams.declarations > hparams/README.md"
    )


def test_the_readme_names_every_setting_alias_and_file():
    text = (ROOT / "hparams" / "README.md").read_text(encoding="utf-8")
    for name in [
        *hparams.SETTINGS,
        *tf_nmt_names.ALIASES,
        *tf_nmt_names.IGNORED,
        *tf_nmt_names.REFUSED,
        *[file.name for file in FILES],
    ]:
        assert f"| `{name}` |" in text, name


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
    assert (hp.subword_option, hp.vocab_size, hp.tie_embeddings) == ("spm", 5000, True)


def test_the_demo_needs_no_data():
    hp = hparams.load(ROOT / "hparams" / "demo.json")
    assert (hp.model_type, hp.train_prefix, hp.out_dir) == ("aevnmt", None, "runs/demo")


def test_a_bare_name_is_a_shipped_file_unless_there_is_one_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert hparams.load("demo") == hparams.load(ROOT / "hparams" / "demo.json")
    Path("demo").write_text('{"batch_size": 3}')
    assert hparams.load("demo").batch_size == 3
    with pytest.raises(UserError, match="did you mean multi30k_cond"):
        hparams.load("multi30k_con")
    with pytest.raises(UserError, match="absent.json"):
        hparams.load("absent.json")
