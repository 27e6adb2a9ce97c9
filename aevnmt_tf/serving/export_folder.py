"""The folder of exports, with one numbered folder per version.

Servers poll the folder and load the highest number. A version appears when it is complete:
until then, the name of its folder is not a number.
"""

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import atomic_writes, disk_errors, locks

MODEL_FILE = "saved_model.pb"  # of a version
MANIFEST = Path("assets.extra") / "manifest.json"  # of a version that this package exported
WRITING = ".writing-"
LARGEST = 2**63 - 1
Files = tuple[tuple[str, str, int, int, int], ...]


def listing(export_dir: str | os.PathLike[str]) -> dict[int, Path]:
    """Return the folders with a number as their name, by number."""
    paths = [path for path in Path(export_dir).iterdir() if path.is_dir()]
    numbers = {int(one.name): one for one in paths if one.name.isascii() and one.name.isdigit()}
    return {number: numbers[number] for number in sorted(numbers) if number <= LARGEST}


def find(folder: Path) -> dict[int, Path]:
    """Return the folders of all versions that contain a model, by number."""
    found = listing(folder)
    return {number: path for number, path in found.items() if (path / MODEL_FILE).exists()}


def is_export(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder has versions of a model, or is one."""
    folder = Path(folder)
    return folder.is_dir() and ((folder / MODEL_FILE).exists() or bool(find(folder)))


def newest(folder: str | os.PathLike[str]) -> Path:
    """Return the newest version of an export; a version is returned as it is."""
    folder = Path(folder)
    return folder if (folder / MODEL_FILE).exists() else max(find(folder).items())[1]


def read_manifest(version: Path) -> dict[str, Any]:
    """Return the manifest of a version; {} if this package did not export it."""
    try:
        return json.loads((version / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def check(folder: Path) -> None:
    """Raise UserError if there is no version to serve."""
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {problem}: give the --export_dir of aevnmt export.")
    _refuse_version(folder)
    if not find(folder):
        raise UserError(f"{folder} has no version of a model: make one with aevnmt export.")


def fingerprint(path: Path) -> Files:
    """Return a value that changes when a file of a version or its permissions change."""
    files = []
    for root, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):  # loading the version will report it
                info = os.stat(os.path.join(root, name))
                files.append((root, name, info.st_size, info.st_mtime_ns, info.st_ctime_ns))
    return tuple(sorted(files))


def choose(export_dir: str | os.PathLike[str], version: int | None = None) -> int:
    """Return the wanted version if it is free; without one, the next free number."""
    export_dir = Path(export_dir)
    with _explained(export_dir):
        if export_dir.exists() and not export_dir.is_dir():
            raise UserError(f"{export_dir} is a file: give a folder as --export_dir.")
        _refuse_version(export_dir)
        taken = listing(export_dir) if export_dir.exists() else {}
    if version is None:
        version = max(taken, default=0) + 1
    if not 0 <= version <= LARGEST:
        raise UserError(f"a version must be a number from 0 to {LARGEST}, not {version}.")
    place = taken.get(version, export_dir / str(version))
    if os.path.lexists(place):
        raise UserError(
            f"{place} exists already: give another --version, or none for the next free number."
        )
    return version


def publish(
    export_dir: str | os.PathLike[str],
    *,
    version: int | None = None,
    write: Callable[[Path], object],
) -> Path:
    """Write a version with `write(folder)`, then make it visible; return its folder."""
    export_dir = Path(export_dir)
    choose(export_dir, version)
    with _explained(export_dir):
        # Remove what killed exports left behind.
        for folder in export_dir.glob(f"{WRITING}*"):
            if locks.is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)
        return atomic_writes.publish(
            # A unique name: containers may share host names and process ids.
            export_dir / f"{WRITING}{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
            write=write,
            # Chosen last, because another export may have taken the number.
            place=lambda: export_dir / str(choose(export_dir, version)),
        )


def _refuse_version(folder: Path) -> None:
    if (folder / MODEL_FILE).exists():
        raise UserError(
            f"{folder} is one version of a model: give the folder around it, "
            f"{folder.resolve().parent}."
        )


def _explained(export_dir: Path) -> contextlib.AbstractContextManager[None]:
    """Turn disk errors into a UserError."""
    return disk_errors.explained(
        f"write into {export_dir}", instead="give another --export_dir"
    )
