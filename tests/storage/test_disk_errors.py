import errno
import os

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import disk_errors


def sentence(error, **options):
    with pytest.raises(UserError) as raised, disk_errors.explained("save run/x", **options):
        raise error
    assert raised.value.__cause__ is error
    found = str(raised.value)
    assert found.startswith("cannot save run/x: ") and found.endswith(".")
    assert not found.endswith("..")
    return found


def tensorflow_error(kind, message):
    import tensorflow as tf

    return getattr(tf.errors, kind)(None, None, message)


@pytest.mark.parametrize("kind", ["ResourceExhaustedError", "UnavailableError", "UnknownError"])
@pytest.mark.parametrize("text", ["No space left on device", "Disk quota exceeded"])
def test_a_full_disk_is_a_sentence_from_tensorflow_too(kind, text):
    error = tensorflow_error(kind, f"run/.writing-step/variables.data; {text}")
    assert "full" in sentence(error)


def test_other_troubles_of_a_file_system_are_sentences_from_tensorflow_too():
    assert "stale file handle" in sentence(
        tensorflow_error("UnknownError", "Stale file handle\nmore\nlines")
    )
    error = tensorflow_error("PermissionDeniedError", "run/x; Permission denied")
    assert "another out_dir" in sentence(error, instead="choose another out_dir")


def test_the_weights_writer_of_keras_has_errors_of_its_own():
    """As h5py raises them where a write fails and, again, where the file is closed."""
    text = "file write failed: errno = 28, error message = 'No space left on device'"
    assert "full" in sentence(OSError(f"Can't write data ({text})"))
    assert "full" in sentence(RuntimeError(f"Can't decrement id ref count ({text})"))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EISDIR])
def test_errors_of_the_system_are_sentences(number):
    error = OSError(number, os.strerror(number))
    words = {errno.ENOSPC: "full", errno.EDQUOT: "full", errno.EROFS: "permission"}
    assert words.get(number, "directory") in sentence(error)


def test_a_bug_stays_a_bug():
    bugs = [
        ValueError("No space left on device"),
        RuntimeError("shapes differ"),
        tensorflow_error("InvalidArgumentError", "shapes differ"),
        UserError("a sentence already"),
    ]
    for bug in bugs:
        with pytest.raises(type(bug)) as raised, disk_errors.explained("save"):
            raise bug
        assert raised.value is bug
