"""The folder of exports: numbered versions, each of which appears whole or not at all.

A server polls the folder and takes the highest number that it finds. What is being written has
a name that is no number.
"""

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.serving.op_check import MODEL_FILE
from aevnmt_tf.storage import atomic_writes, disk_errors, locks

WRITING = ".writing-"
LARGEST = 2**63 - 1
Files = tuple[tuple[str, str, int, int, int], ...]


def listing(export_dir: str | os.PathLike[str]) -> dict[int, Path]:
    """Return the versions of a folder by number; other names are those of temporary folders."""
    paths = [path for path in Path(export_dir).iterdir() if path.is_dir()]
    numbers = {int(one.name): one for one in paths if one.name.isascii() and one.name.isdigit()}
    return {number: numbers[number] for number in sorted(numbers) if number <= LARGEST}


def find(folder: Path) -> dict[int, Path]:
    """Number -> folder of every version that is there; half-written ones are not."""
    found = listing(folder)
    return {number: path for number, path in found.items() if (path / MODEL_FILE).exists()}


def check(folder: Path) -> None:
    """Raise UserError where there is no version to serve."""
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {problem}: give the --export_dir of aevnmt export")
    if (folder / MODEL_FILE).exists():
        raise UserError(
            f"{folder} is one version of a model: give the folder that holds it, "
            f"{folder.resolve().parent}"
        )
    if not find(folder):
        raise UserError(f"{folder} has no version of a model: make one with aevnmt export")


def fingerprint(path: Path) -> Files:
    """Return what changes when a file of the version does, or who may read it."""
    files = []
    for root, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):  # gone, or not for us: loading will tell
                info = os.stat(os.path.join(root, name))
                files.append((root, name, info.st_size, info.st_mtime_ns, info.st_ctime_ns))
    return tuple(sorted(files))


def choose(export_dir: str | os.PathLike[str], version: int | None = None) -> int:
    """Return the number of the next version: a given one if it is free, else the next.

    Args:
        export_dir: the folder of all versions.
        version: the wanted number.
    """
    export_dir = Path(export_dir)
    with explained(export_dir):
        if export_dir.exists() and not export_dir.is_dir():
            raise UserError(f"{export_dir} is a file: give a folder as --export_dir")
        if (export_dir / MODEL_FILE).exists():
            raise UserError(
                f"{export_dir} is itself an exported model: give the folder around it"
            )
        taken = listing(export_dir) if export_dir.exists() else {}
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


def publish(
    export_dir: str | os.PathLike[str],
    *,
    version: int | None = None,
    write: Callable[[Path], object],
) -> Path:
    """Write a version and make it visible in one operation; return its folder.

    Args:
        export_dir: the folder of all versions, made where it is missing.
        version: its number; None: the next free one.
        write: called with the folder to write files into.
    """
    export_dir = Path(export_dir)
    choose(export_dir, version)
    with explained(export_dir):
        clean(export_dir)
        return atomic_writes.publish(
            # A name that nobody else has: containers share host names and process ids.
            export_dir / f"{WRITING}{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
            write=write,
            # Somebody else may have been quicker, so the number is chosen last.
            place=lambda: export_dir / str(choose(export_dir, version)),
        )


def clean(export_dir: str | os.PathLike[str]) -> None:
    """Remove what killed exports have left; what a live one is writing stays."""
    for folder in Path(export_dir).glob(f"{WRITING}*"):
        if locks.is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def explained(export_dir: Path) -> contextlib.AbstractContextManager[None]:
    """Turn trouble with the disk into one sentence."""
    return disk_errors.explained(
        f"write into {export_dir}", instead="give another --export_dir"
    )
