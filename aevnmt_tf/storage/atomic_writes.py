"""Atomic writes: files and folders appear complete or not at all, even after a kill.

They are written next to their final place, flushed to disk and then renamed. Renaming is
atomic: a reader sees either the old state or the new one.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from aevnmt_tf.storage import disk_errors, locks


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a binary stream whose content replaces the file if the block succeeds."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
        flush(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file, create its parent folders, and return its path."""
    target = Path(path)
    with disk_errors.explained(f"write {target}"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with opened(target) as stream:
            stream.write(content if isinstance(content, bytes) else content.encode("utf-8"))
    return target


def write_json(path: str | os.PathLike[str], value: Any) -> Path:
    """Write a value as a JSON file; return its path."""
    return write(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def publish(
    temporary: Path, *, write: Callable[[Path], object], place: Callable[[], Path]
) -> Path:
    """Write a folder, then rename it to its final place, which is returned.

    Args:
        temporary: Where to write it; locked until it is renamed, see `locks.is_abandoned`.
        write: Called with `temporary` to write the files.
        place: Called when they are on disk; returns the final place, next to `temporary`.
    """
    temporary.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        with locks.held(temporary, busy=f"another process is writing {temporary}."):
            write(temporary)
            for path in sorted(temporary.rglob("*")):
                flush(path)
            flush(temporary)
            final = place()
            os.rename(temporary, final)
        flush(final.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return final


def flush(path: str | os.PathLike[str]) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
