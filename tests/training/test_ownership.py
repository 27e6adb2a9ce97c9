"""Whose run a directory is."""

import contextlib
import os
import resource
import shutil

import pytest

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.training import ownership


def claim(hp, **arguments):
    with ownership.claim(hp, **arguments):
        pass


@pytest.fixture
def run(settings, tmp_path):
    """Return settings of a run that has saved a checkpoint."""
    hp = settings()
    claim(hp)
    (tmp_path / "run" / "checkpoints" / "step-000000001").mkdir(parents=True)
    return hp


def test_settings_are_kept(settings, tmp_path):
    hp = settings(learning_rate=0.125)
    claim(hp)
    assert hparams.load(tmp_path / "run" / "hparams.json") == hp


def test_another_model_is_refused_with_the_differing_keys(run, settings, tmp_path):
    with pytest.raises(UserError) as error:
        claim(settings(num_units=16, model_type="joint", learning_rate=0.5))
    sentence = str(error.value)
    assert "num_units: 8 there, 16 now" in sentence
    assert "model_type: 'aevnmt' there, 'joint' now" in sentence
    assert "learning_rate" not in sentence
    assert hparams.load(tmp_path / "run" / "hparams.json") == run


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gradient_accumulation_steps": 2}, "gradient_accumulation_steps: 1 there, 2 now"),
        ({"optimizer": "sgd"}, "optimizer: 'adam' there, 'sgd' now"),
    ],
)
def test_what_the_optimizer_s_state_hangs_on_is_refused(run, settings, tmp_path, change, words):
    with pytest.raises(UserError) as error:
        claim(settings(**change), report=pytest.fail)
    assert words in str(error.value) and "another out_dir" in str(error.value)
    assert hparams.load(tmp_path / "run" / "hparams.json") == run


def test_noise_may_change_in_the_middle_of_a_run(run, settings):
    said = []
    changes = {
        "dropout": 0.45,
        "output_dropout": 0.15,
        "word_dropout_source": False,
        "label_smoothing": 0.05,
        "subword_sampling": 0.3,
        "subword_samples": 4,
    }
    claim(settings(**changes), report=said.append)
    assert all(f"{name}: " in said[0] for name in changes)


def test_other_changes_are_mentioned_and_kept(run, settings, tmp_path):
    said = []
    claim(settings(learning_rate=0.5, max_steps=99, steps_per_stats=7), report=said.append)
    assert said == ["changed since the last start: learning_rate: 0.01 there, 0.5 now"]
    assert hparams.load(tmp_path / "run" / "hparams.json").learning_rate == 0.5


def test_another_search_is_mentioned_because_the_best_weights_are_of_the_old_one(run, settings):
    said = []
    claim(settings(beam_width=7, infer_batch_size=3), report=said.append)
    assert len(said) == 1 and "beam_width: 10 there, 7 now" in said[0]
    assert "infer_batch_size" not in said[0]


def test_the_same_settings_need_no_word(run):
    said = []
    claim(run, report=said.append)
    assert said == []


@pytest.mark.parametrize("name", ["best", "average"])
def test_a_run_without_its_checkpoints_is_refused(run, settings, tmp_path, name):
    (tmp_path / "run" / name / "step-000000001").mkdir(parents=True)
    claim(run)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(UserError) as error:
        claim(settings(learning_rate=0.5))
    assert f"has weights in {name}/, but no checkpoint" in str(error.value)
    assert f"another out_dir, or remove {tmp_path / 'run'}" in str(error.value)
    assert hparams.load(tmp_path / "run" / "hparams.json") == run


def test_without_weights_everything_may_change(settings, tmp_path):
    said = []
    claim(settings())
    claim(settings(num_units=16), report=said.append)
    assert said == []
    assert hparams.load(tmp_path / "run" / "hparams.json").num_units == 16


@pytest.mark.parametrize("change", [{"vocab_size": 500}, {"max_train": 100}])
def test_without_weights_other_text_settings_make_new_subword_models(
    settings, tmp_path, change
):
    model = tmp_path / "run" / "text" / "spm.en.model"
    claim(settings())
    model.parent.mkdir()
    model.write_text("old")
    claim(settings(learning_rate=0.5))
    assert model.exists()
    claim(settings(learning_rate=0.5, **change))
    assert not model.exists()


def test_a_second_process_is_refused(settings, tmp_path):
    claim(settings())
    with ownership.claim(settings()):
        with pytest.raises(UserError, match="another process is training"):
            claim(settings())
        # The file still says whose run it is.
        assert (tmp_path / "run" / ".lock").read_text() == f"{os.getpid()}\n"
    claim(settings())


def test_out_dir_is_a_file(settings, tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(UserError, match="cannot write into .*run"):
        claim(settings())


@contextlib.contextmanager
def no_room():
    """No file of this process may get longer: a disk that is full, to the last byte."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_is_a_sentence_that_names_the_lock(settings, tmp_path):
    with pytest.raises(UserError) as error, no_room():
        claim(settings())
    assert str(error.value) == f"cannot write {tmp_path / 'run' / '.lock'}: file too large."
    claim(settings())  # and the directory is free again


def test_no_permission_is_a_sentence(settings, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(UserError, match="no permission to write there; choose another out_dir"):
        claim(settings())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bow_target_weight", 0.5),
        ("mdr_rate", 2.0),
        ("consistency_weight", 2.0),
        ("embed_prefix", "glove"),
    ],
)
def test_a_part_that_the_run_has_not_is_refused_and_its_settings_stay(
    run, settings, tmp_path, name, value
):
    kept = (tmp_path / "run" / "hparams.json").read_bytes()
    with pytest.raises(UserError, match=name), ownership.claim(settings(**{name: value})):
        pass
    assert (tmp_path / "run" / "hparams.json").read_bytes() == kept
