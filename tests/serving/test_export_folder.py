"""Versions appear whole or not at all, under the next free number."""

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.serving import export_folder


def write(folder):
    (folder / "saved_model.pb").write_bytes(b"model")
    (folder / "variables").mkdir()


def test_numbers(tmp_path):
    folder = tmp_path / "some" / "models"
    assert export_folder.publish(folder, write=write) == folder / "1"
    assert export_folder.publish(folder, write=write) == folder / "2"
    assert export_folder.publish(folder, version=9, write=write) == folder / "9"
    # Not 3: what is new must be the highest.
    assert export_folder.publish(folder, write=write) == folder / "10"
    (folder / "notes").mkdir()
    (folder / "77").write_text("no folder")
    assert list(export_folder.listing(folder)) == [1, 2, 9, 10]
    assert sorted(os.listdir(folder / "1")) == ["saved_model.pb", "variables"]
    assert os.stat(folder / "1").st_mode == os.stat(folder / "notes").st_mode


def test_an_existing_version_is_refused(tmp_path):
    export_folder.publish(tmp_path, version=3, write=write)
    (tmp_path / "0007").mkdir()
    (tmp_path / "8").write_text("no folder")
    for version in (3, 7, 8):
        with pytest.raises(UserError, match="exists already: give another --version"):
            export_folder.publish(tmp_path, version=version, write=pytest.fail)
    assert sorted(os.listdir(tmp_path)) == ["0007", "3", "8"]


def test_nothing_is_seen_before_the_end(tmp_path):
    def look(folder):
        assert export_folder.listing(tmp_path) == {} and folder.parent == tmp_path
        write(folder)

    export_folder.publish(tmp_path, write=look)
    assert list(export_folder.listing(tmp_path)) == [1]


def test_somebody_else_was_quicker(tmp_path):
    def slow(folder):
        write(folder)
        (tmp_path / "1").mkdir()

    assert export_folder.publish(tmp_path, write=slow) == tmp_path / "2"

    def slower(folder):
        write(folder)
        (tmp_path / "5").mkdir()

    with pytest.raises(UserError, match="5 exists already"):
        export_folder.publish(tmp_path, version=5, write=slower)
    assert sorted(os.listdir(tmp_path)) == ["1", "2", "5"]


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, ValueError])
def test_a_failure_leaves_nothing(tmp_path, trouble):
    def fail(folder):
        write(folder)
        raise trouble

    with pytest.raises(trouble):
        export_folder.publish(tmp_path, write=fail)
    assert os.listdir(tmp_path) == []


KILLED = """
import sys
from aevnmt_tf.serving import export_folder

def write(folder):
    (folder / "half").write_text("x")
    print("writing", flush=True)
    sys.stdin.read()

export_folder.publish({folder!r}, write=write)
"""


def test_what_a_killed_export_left_is_removed_and_what_is_being_written_stays(tmp_path):
    source = KILLED.format(folder=str(tmp_path))
    other = subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout.readline() == "writing\n"
        export_folder.publish(tmp_path, write=write)
        (half,) = tmp_path.glob(".writing-*")
        assert (half / "half").exists()
    finally:
        other.kill()
        other.communicate()
    assert half.exists() and list(export_folder.listing(tmp_path)) == [1]
    export_folder.publish(tmp_path, write=write)
    assert sorted(os.listdir(tmp_path)) == ["1", "2"]


def test_what_another_one_of_this_process_writes_stays(tmp_path):
    """As in two containers, which have the same host name and process id."""

    def outer(folder):
        write(folder)
        export_folder.publish(tmp_path, write=write)
        assert (folder / "saved_model.pb").exists()

    assert export_folder.publish(tmp_path, write=outer) == tmp_path / "2"


@contextlib.contextmanager
def small_files(size):
    """Files of this process may have so many bytes, as on a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def save(folder):
    module = tf.Module()
    module.weights = tf.Variable(tf.random.stateless_uniform([10_000], [1, 2]))
    tf.saved_model.save(module, str(folder))


@pytest.mark.parametrize("one", [save, lambda folder: (folder / "a").write_bytes(bytes(9999))])
def test_a_disk_that_takes_no_more(tmp_path, one):
    """TensorFlow's own writers have errors of their own."""
    with small_files(8000), pytest.raises(UserError) as raised:
        export_folder.publish(tmp_path, write=one)
    assert f"cannot write into {tmp_path}: " in str(raised.value)
    assert "\n" not in str(raised.value) and "arge" in str(raised.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "number, sentence",
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EACCES, "no permission to write there; give another --export_dir"),
        (errno.EROFS, "no permission to write there"),
        (errno.EIO, "input/output error"),
    ],
)
def test_trouble_is_a_sentence(tmp_path, number, sentence):
    def fail(folder):
        raise OSError(number, os.strerror(number))

    with pytest.raises(UserError, match=sentence):
        export_folder.publish(tmp_path, write=fail)
    assert os.listdir(tmp_path) == []


def test_folders_that_will_not_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file: give a folder"):
        export_folder.publish(tmp_path / "file", write=pytest.fail)
    with pytest.raises(UserError, match="cannot write into .*: not a directory"):
        export_folder.publish(tmp_path / "file" / "inside", write=pytest.fail)
    inside = export_folder.publish(tmp_path, write=write)
    with pytest.raises(UserError, match="is one version of a model"):
        export_folder.publish(inside, write=pytest.fail)
    with pytest.raises(UserError, match="a version must be a number"):
        export_folder.publish(tmp_path, version=2**63, write=pytest.fail)
