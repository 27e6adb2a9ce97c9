import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import run_directory, snapshots


def publish(parent, step, content="x"):
    return snapshots.publish(
        parent, step=step, write=lambda folder: (folder / "file").write_text(content)
    )


def steps(folder):
    return [run_directory.step_of(path) for path in run_directory.listing(folder)]


def test_a_snapshot_lists_its_files(tmp_path):
    folder = publish(tmp_path, 7)
    assert folder.name == "step-000000007"
    assert run_directory.damage(folder) is None
    (folder / "file").write_text("y")
    assert "checksum" in run_directory.damage(folder)


def test_a_second_snapshot_of_a_step_is_the_newer_one(tmp_path):
    folders = [publish(tmp_path, 7) for _ in range(12)]
    assert run_directory.listing(tmp_path) == folders
    snapshots.keep_last(tmp_path, 3)
    assert run_directory.listing(tmp_path) == folders[-1:]


def test_the_last_ones_stay_and_a_stop_counts_only_while_it_is_the_newest(tmp_path):
    for step in (10, 20, 25, 30, 33):
        publish(tmp_path, step)
    snapshots.keep_last(tmp_path, 3, every=10)
    assert steps(tmp_path) == [20, 30, 33]
    snapshots.keep_only(run_directory.listing(tmp_path)[1])
    assert steps(tmp_path) == [30]


def test_what_is_half_written_or_set_aside_is_not_listed(tmp_path):
    folder = publish(tmp_path, 1)
    publish(tmp_path, 2)
    snapshots.set_aside(folder)
    for name in (".writing-step-000000003", ".removing-step-000000001"):
        (tmp_path / name).mkdir()
    assert steps(tmp_path) == [2]
    snapshots.clean(tmp_path)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".damaged-step-000000001", "step-000000002"]


def test_snapshot_sentence_for_an_out_dir_that_is_a_file(tmp_path):
    (tmp_path / "run").write_text("not a folder")
    with pytest.raises(UserError, match="cannot save"):
        snapshots.publish(tmp_path / "run" / "checkpoints", step=1, write=lambda _: None)
