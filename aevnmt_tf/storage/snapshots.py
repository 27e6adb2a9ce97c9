"""Snapshots: folders with weights, one per step.

The `manifest.json` of each lists its files with their sizes and checksums.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from aevnmt_tf.storage import atomic_writes, disk_errors
from aevnmt_tf.storage.run_directory import MANIFEST, checksum, listing, step_of


def publish(parent: Path, *, step: int, write: Callable[[Path], object]) -> Path:
    """Write a snapshot atomically and return its folder.

    Args:
        parent: The folder of snapshots, created if necessary.
        step: The step. A second snapshot of a step gets its own name and counts as newer,
            because a folder cannot be replaced atomically.
        write: Called with the folder to write files into.
    """
    final = _free_name(parent, step)

    def write_all(folder: Path) -> None:
        write(folder)
        _write_manifest(folder)

    with disk_errors.explained(f"save {final}", instead="choose another out_dir"):
        temporary = parent / f".writing-{final.name}"
        return atomic_writes.publish(temporary, write=write_all, place=lambda: final)


def remove(folder: Path) -> None:
    """Remove a snapshot: hide it atomically, then delete its files."""
    doomed = folder.parent / f".removing-{folder.name}"
    shutil.rmtree(doomed, ignore_errors=True)
    with disk_errors.explained(f"remove {folder}"):
        os.rename(folder, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def keep_last(parent: Path, number: int, *, every: int = 1) -> None:
    """Keep the newest `number` snapshots, one per step, and remove the others.

    A run that was stopped saves at a step that is not a multiple of `every`. This snapshot is
    kept only while it is the newest, so that a resumed run keeps the same snapshots as an
    uninterrupted one.
    """
    folders = listing(parent)
    newest = {step_of(folder): folder for folder in folders}
    kept = regular(list(newest.values()), every=every)[-max(1, number) :]
    for folder in folders:
        if folder not in kept:
            remove(folder)


def regular(folders: list[Path], *, every: int) -> list[Path]:
    """Return the snapshots at multiples of `every`, and the last one."""
    return [f for f in folders if (step_of(f) or 0) % every == 0 or f == folders[-1]]


def keep_only(folder: Path) -> None:
    """Remove all other snapshots next to this one."""
    for other in listing(folder.parent):
        if other != folder:
            remove(other)


def set_aside(folder: Path) -> None:
    """Hide a damaged snapshot without deleting it."""
    hidden = folder.parent / f".damaged-{folder.name}"
    shutil.rmtree(hidden, ignore_errors=True)
    with disk_errors.explained(f"set {folder} aside"):
        os.rename(folder, hidden)


def clean(parent: Path) -> None:
    """Remove partly written and partly removed snapshots."""
    for pattern in (".writing-*", ".removing-*"):
        for folder in parent.glob(pattern):
            shutil.rmtree(folder, ignore_errors=True)


def _free_name(parent: Path, step: int) -> Path:
    """Return a name that sorts after every other snapshot of the step."""
    name = f"step-{step:09d}"
    same = [folder for folder in listing(parent) if step_of(folder) == step]
    return parent / (f"{name}.{int(same[-1].suffix[1:] or 0) + 1}" if same else name)


def _write_manifest(folder: Path) -> None:
    files = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "crc32": checksum(path),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    atomic_writes.write_json(folder / MANIFEST, {"files": files})
