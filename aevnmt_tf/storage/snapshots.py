"""Folders of weights, one for each step: published whole, counted, removed, set aside.

`manifest.json` in each lists its files with their sizes and checksums.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from aevnmt_tf.storage import atomic_writes, disk_errors
from aevnmt_tf.storage.run_directory import MANIFEST, checksum, listing, step_of


def publish(parent: Path, *, step: int, write: Callable[[Path], object]) -> Path:
    """Write a snapshot and make it visible in one operation; return its folder.

    Args:
        parent: The folder of snapshots, made where it is missing.
        step: The step that names it. A second snapshot of a step gets a name of its own and
            counts as the newer one, because nothing can be replaced in one operation.
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
    """Remove a snapshot; it disappears in one operation before its files are deleted."""
    doomed = folder.parent / f".removing-{folder.name}"
    shutil.rmtree(doomed, ignore_errors=True)
    with disk_errors.explained(f"remove {folder}"):
        os.rename(folder, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def keep_last(parent: Path, number: int, *, every: int = 1) -> None:
    """Remove all but the newest `number` snapshots, and older ones of the same step.

    A step that is no multiple of `every` is one at which a run was stopped: it stays as long as
    it is the newest, so that a run that went on has what one has that was never stopped.
    """
    folders = listing(parent)
    newest = {step_of(folder): folder for folder in folders}
    kept = regular(list(newest.values()), every=every)[-max(1, number) :]
    for folder in folders:
        if folder not in kept:
            remove(folder)


def regular(folders: list[Path], *, every: int) -> list[Path]:
    """Return the snapshots whose steps are multiples of `every`, and the last one."""
    return [f for f in folders if (step_of(f) or 0) % every == 0 or f == folders[-1]]


def keep_only(folder: Path) -> None:
    """Remove the other snapshots next to this one."""
    for other in listing(folder.parent):
        if other != folder:
            remove(other)


def set_aside(folder: Path) -> None:
    """Hide a damaged snapshot from every reader without deleting it."""
    hidden = folder.parent / f".damaged-{folder.name}"
    shutil.rmtree(hidden, ignore_errors=True)
    with disk_errors.explained(f"set {folder} aside"):
        os.rename(folder, hidden)


def clean(parent: Path) -> None:
    """Remove half-written and half-removed snapshots."""
    for pattern in (".writing-*", ".removing-*"):
        for folder in parent.glob(pattern):
            shutil.rmtree(folder, ignore_errors=True)


def _free_name(parent: Path, step: int) -> Path:
    """Return a name that sorts after every other snapshot of the step."""
    name = f"step-{step:09d}"
    last = [folder for folder in listing(parent) if step_of(folder) == step][-1:]
    if last:
        return parent / f"{name}.{int(last[0].suffix[1:] or 0) + 1}"
    return parent / name


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
