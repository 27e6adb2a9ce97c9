import json

import keras
import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import run_directory, snapshots


def save(run, choice, step, **state):
    def write(folder):
        (folder / run_directory.STATE).write_text(json.dumps(state))

    parent = run / run_directory.CHOICES[choice]
    return snapshots.publish(parent, step=step, write=write)


@pytest.mark.parametrize(
    "best, average, found",
    [(7.0, 8.0, "average"), (7.0, 6.0, "best"), (7.0, 7.0, "best"), (7.0, None, "best")],
)
def test_the_higher_score_on_dev_is_loaded(tmp_path, best, average, found):
    save(tmp_path, "last", 3)
    save(tmp_path, "best", 1, dev_bleu=best)
    save(tmp_path, "average", 2, **({} if average is None else {"dev_bleu": average}))
    assert run_directory.find_weights(tmp_path).parent.name == found
    for choice, folder in run_directory.CHOICES.items():
        found = run_directory.find_weights(tmp_path, checkpoint=choice)
        assert found.parent.name == folder


def test_a_language_model_s_last_weights_are_loaded(tmp_path):
    save(tmp_path, "last", 3)
    save(tmp_path, "best", 1, dev_bleu=7.0)
    (tmp_path / "hparams.json").write_text('{"language_model": true}')
    assert run_directory.step_of(run_directory.find_weights(tmp_path)) == 3
    assert run_directory.step_of(run_directory.find_weights(tmp_path, checkpoint="best")) == 1


def test_the_newest_whole_folder_is_found(tmp_path):
    old, new = (save(tmp_path, "last", step) for step in (1, 2))
    assert run_directory.find_weights(tmp_path) == new
    for harm in ("not json", '{"files": {"gone": {"bytes": 1, "crc32": 1}}}'):
        (new / run_directory.MANIFEST).write_text(harm)
        assert run_directory.damage(new) is not None
        assert run_directory.find_weights(tmp_path) == old


def test_find_weights_says_what_is_missing(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        run_directory.find_weights(tmp_path / "nowhere")
    with pytest.raises(UserError, match="best/ or checkpoints/"):
        run_directory.find_weights(tmp_path)
    save(tmp_path, "last", 1)
    assert run_directory.step_of(run_directory.find_weights(tmp_path)) == 1
    with pytest.raises(UserError, match="avg_ckpts"):
        run_directory.find_weights(tmp_path, checkpoint="average")
    (tmp_path / "hparams.json").write_text('{"avg_ckpts": 3}')
    with pytest.raises(UserError, match="in average/"):
        run_directory.find_weights(tmp_path, checkpoint="average")


def test_a_folder_without_settings_is_no_run(tmp_path):
    with pytest.raises(UserError, match="hparams.json"):
        run_directory.settings_file(tmp_path)
    (tmp_path / "hparams.json").write_text("{}")
    assert run_directory.settings_file(tmp_path) == tmp_path / "hparams.json"


@pytest.mark.parametrize("given", ["", "7"])
def test_an_export_is_not_taken_for_a_run(tmp_path, given):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "saved_model.pb").touch()
    with pytest.raises(UserError, match="exported SavedModel"):
        run_directory.settings_file(tmp_path / given)


def test_weights_come_back_and_those_of_another_shape_are_refused(tmp_path):
    def model(units):
        made = keras.Sequential([keras.layers.Dense(units)])
        made.build((None, 2))
        return made

    with pytest.raises(UserError, match=run_directory.WEIGHTS):
        run_directory.load_weights(model(3), tmp_path)
    first, second = model(3), model(3)
    run_directory.save_weights(first, tmp_path)
    run_directory.load_weights(second, tmp_path)
    assert (first.get_weights()[0] == second.get_weights()[0]).all()
    with pytest.raises(UserError, match="does not match the model"):
        run_directory.load_weights(model(5), tmp_path)
