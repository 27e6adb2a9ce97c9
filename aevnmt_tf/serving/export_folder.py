"""The folder of exports: numbered versions, each of which appears whole or not at all.

A server polls the folder and takes the highest number that it finds. What is being written has
a name that is no number.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import sys
from pathlib import Path

from aevnmt_tf import machine
from aevnmt_tf.errors import UserError

WRITING = ".writing-"
LARGEST = 2**63 - 1


def listing(export_dir) -> dict[int, Path]:
    """The versions of a folder by number."""
    export_dir = Path(export_dir)
    if not export_dir.is_dir():
        return {}
    paths = [path for path in export_dir.iterdir() if path.is_dir()]
    numbers = [path for path in paths if path.name.isascii() and path.name.isdigit()]
    return {int(path.name): path for path in sorted(numbers, key=lambda path: int(path.name))}


def choose(export_dir, version=None) -> int:
    """The number of the next version: a given one if it is free, else the next.

    Args:
        export_dir: the folder of all versions.
        version: the wanted number.
    """
    export_dir = Path(export_dir)
    with sentences(f"write into {export_dir}"):
        if export_dir.exists() and not export_dir.is_dir():
            raise UserError(f"{export_dir} is a file: give a folder as --export_dir")
        if (export_dir / "saved_model.pb").exists():
            raise UserError(
                f"{export_dir} is itself an exported model: give the folder around it"
            )
        taken = listing(export_dir)
    if version is None:
        version = max(taken, default=0) + 1
    if not 0 <= version <= LARGEST:
        raise UserError(f"a version is a number from 0 to {LARGEST}, not {version}")
    place = taken.get(version, export_dir / str(version))
    if os.path.lexists(place):
        raise UserError(
            f"{place} exists already: give another --version, or none for the next free number"
        )
    return version


def publish(export_dir, *, version=None, write) -> Path:
    """Write a version and make it visible in one operation; return its folder.

    Args:
        export_dir: the folder of all versions, made where it is missing.
        version: its number; None: the next free one.
        write: called with the folder to write files into.
    """
    export_dir = Path(export_dir)
    choose(export_dir, version)
    with sentences(f"write into {export_dir}"):
        export_dir.mkdir(parents=True, exist_ok=True)
        clean(export_dir)
        with _work(export_dir) as folder:
            write(folder)
            _flush(folder)
            # Somebody else may have been quicker.
            final = export_dir / str(choose(export_dir, version))
            os.rename(folder, final)
        machine.flush(export_dir)
    return final


def clean(export_dir) -> None:
    """Remove what killed exports have left; what a live one is writing stays."""
    for folder in Path(export_dir).glob(f"{WRITING}*"):
        with contextlib.suppress(OSError), _locked(folder):
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _work(export_dir):
    """A folder for what is being written, locked; it is gone in the end, renamed or removed."""
    folder = export_dir / f"{WRITING}{os.uname().nodename}-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a file system without locks
            stack.enter_context(_locked(folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder):
    """The folder's lock; an OSError where another process has it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def sentences(what):
    """Turn trouble with the disk into one sentence: "cannot WHAT: ..."."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot {what}: {_reason(error)}") from error
    except Exception as error:
        # TensorFlow's own writers have errors of their own. It need not be imported for that.
        tf = sys.modules.get("tensorflow")
        if tf is None or not isinstance(error, tf.errors.OpError):
            raise
        raise UserError(f"cannot {what}: {error.message.splitlines()[0]}") from error


def _reason(error):
    reasons = {
        errno.ENOSPC: "the disk is full; free some space and run the same command again",
        errno.EDQUOT: "the disk quota is used up; free some space and try again",
        errno.EACCES: "no permission to write there; give another --export_dir",
        errno.EPERM: "no permission to write there; give another --export_dir",
        errno.EROFS: "it can only be read; give another --export_dir",
    }
    reason = error.strerror or str(error)
    return reasons.get(error.errno, f"{reason[:1].lower()}{reason[1:]}")


def _flush(folder):
    for path in sorted(folder.rglob("*")):
        machine.flush(path)
    machine.flush(folder)
