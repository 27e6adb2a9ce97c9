import json

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import atomic_writes, locks


def test_a_file_is_written_with_the_folders_above_it(tmp_path):
    path = atomic_writes.write(tmp_path / "a" / "b.txt", "ü\n")
    assert path.read_bytes() == "ü\n".encode()
    assert atomic_writes.write(path, b"\xff").read_bytes() == b"\xff"
    atomic_writes.write_json(path, {"ü": [1]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"ü": [1]}
    assert [path] == list(path.parent.iterdir())


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = atomic_writes.write(tmp_path / "file", "old")
    with pytest.raises(ZeroDivisionError), atomic_writes.opened(path) as stream:
        stream.write(b"half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert [path] == list(tmp_path.iterdir())


def test_a_file_where_a_folder_should_be_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="cannot write"):
        atomic_writes.write(tmp_path / "file" / "a", "text")


def test_a_published_folder_appears_whole(tmp_path):
    temporary, final = tmp_path / "x" / ".writing", tmp_path / "x" / "final"

    def write(folder):
        assert folder == temporary and not final.exists()
        assert not locks.is_abandoned(folder)
        (folder / "sub").mkdir()
        (folder / "sub" / "file").write_text("whole")

    assert atomic_writes.publish(temporary, write=write, place=lambda: final) == final
    assert (final / "sub" / "file").read_text() == "whole"
    assert [final] == list(final.parent.iterdir())


def test_a_folder_that_is_not_finished_disappears(tmp_path):
    def write(folder):
        (folder / "file").write_text("half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        atomic_writes.publish(tmp_path / ".writing", write=write, place=lambda: tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
