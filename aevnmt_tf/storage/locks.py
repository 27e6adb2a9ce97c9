"""Locks on folders and files. They are released when their process ends for any reason."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import disk_errors

FILE = ".lock"  # inside the locked folder
PATIENCE = 120.0  # seconds to wait for the children of a process that was killed
_POLL = 0.2  # seconds


@contextlib.contextmanager
def folder_held(
    folder: Path,
    *,
    busy: str | None,
    report: Callable[[str], object] | None = None,
    instead: str = "choose another folder",
) -> Iterator[int]:
    """Lock a folder, which is created if necessary, and yield the lock's descriptor.

    Child processes that inherit the descriptor keep the lock. If their parent is killed, the
    next process waits for them.

    Args:
        folder: The folder. Its file FILE is locked and holds the process id.
        busy: The error message if another process holds the lock; None: wait for it.
        report: Called with a message before waiting for children; None: do not wait for them.
        instead: What to do if the folder cannot be written.
    """
    with disk_errors.explained(f"write into {folder}", instead=instead):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).touch()
    with held(folder / FILE, busy=busy, report=report) as descriptor:
        with disk_errors.explained(f"write {folder / FILE}", instead=instead):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield descriptor


@contextlib.contextmanager
def held(
    path: Path, *, busy: str | None, report: Callable[[str], object] | None = None
) -> Iterator[int]:
    """Lock a file, or a folder itself; see `folder_held`."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        try:
            if busy is None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            else:
                _take(descriptor, path, busy=busy, report=report)
        except OSError:
            pass  # some network file systems have no locks
        yield descriptor
    finally:
        os.close(descriptor)


def is_abandoned(folder: Path) -> bool:
    """Return whether no process holds the lock of a folder itself; False if unknown."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _take(
    descriptor: int, path: Path, *, busy: str, report: Callable[[str], object] | None
) -> None:
    end, said = time.monotonic() + PATIENCE, False
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if report is None or _owner_lives(descriptor) or time.monotonic() > end:
                raise UserError(busy) from None
        if not said:
            report(f"waiting for child processes of a killed command to leave {path.parent}")
            said = True
        time.sleep(_POLL)


def _owner_lives(descriptor: int) -> bool:
    owner = os.pread(descriptor, 32, 0).strip()
    try:
        os.kill(int(owner), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return True
