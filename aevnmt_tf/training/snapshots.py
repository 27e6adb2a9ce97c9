"""Folders that appear whole or not at all, so that a kill at any moment loses nothing.

A snapshot is written into a hidden folder next to its final place, listed with sizes and
checksums in `manifest.json`, flushed to the disk, and only then renamed. Renaming is one
operation of the file system: a reader sees the old state or the new one.
"""

import contextlib
import errno
import json
import os
import shutil
from pathlib import Path

from aevnmt_tf import machine
from aevnmt_tf.errors import UserError
from aevnmt_tf.run_directory import MANIFEST, checksum, listing, step_of


def publish(parent, *, step, write):
    """Write a snapshot and make it visible in one operation; return its folder.

    Args:
        parent: the folder of snapshots, made where it is missing.
        step: the step that names it. A second snapshot of a step gets a name of its own and
            counts as the newer one, because nothing can be replaced in one operation.
        write: called with the folder to write files into.
    """
    parent = Path(parent)
    final = _free_name(parent, step)
    temporary = parent / f".writing-{final.name}"
    with sentences(f"save {final}"):
        parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir()
            write(temporary)
            _write_manifest(temporary)
            _flush(temporary)
            os.rename(temporary, final)
            machine.flush(parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    return final


def remove(folder):
    """Remove a snapshot; it disappears in one operation before its files are deleted."""
    folder = Path(folder)
    doomed = folder.parent / f".removing-{folder.name}"
    shutil.rmtree(doomed, ignore_errors=True)
    os.rename(folder, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def keep_last(parent, number, *, every=1):
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


def regular(folders, *, every):
    """Those of snapshots in their order whose steps are multiples of `every`, and the last."""
    return [f for f in folders if step_of(f) % every == 0 or f == folders[-1]]


def keep_only(folder):
    """Remove the other snapshots next to this one."""
    for other in listing(Path(folder).parent):
        if other != Path(folder):
            remove(other)


def set_aside(folder):
    """Hide a damaged snapshot from every reader without deleting it."""
    folder = Path(folder)
    hidden = folder.parent / f".damaged-{folder.name}"
    shutil.rmtree(hidden, ignore_errors=True)
    os.rename(folder, hidden)


def clean(parent):
    """Remove half-written and half-removed snapshots."""
    parent = Path(parent)
    if parent.is_dir():
        for pattern in (".writing-*", ".removing-*"):
            for folder in parent.glob(pattern):
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def sentences(what):
    """Turn a full disk and a missing permission into one sentence: "cannot WHAT: ..."."""
    import tensorflow as tf

    try:
        yield
    except OSError as error:
        raise UserError(_sentence(what, error)) from error
    except tf.errors.PermissionDeniedError as error:
        raise UserError(f"cannot {what}: no permission to write there") from error
    except (tf.errors.ResourceExhaustedError, tf.errors.UnknownError) as error:
        # TensorFlow's file writer reports a full disk as one of these two.
        if "space" not in str(error).lower() and "quota" not in str(error).lower():
            raise
        raise UserError(_sentence(what, OSError(errno.ENOSPC, "full"))) from error


def _sentence(what, error):
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"cannot {what}: the disk is full; earlier checkpoints are untouched, free some"
            " space and run the same command again"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"cannot {what}: no permission to write there; choose another out_dir"
    reason = error.strerror or str(error)
    return f"cannot {what}: {reason[:1].lower()}{reason[1:]}"


def _free_name(parent, step):
    """Return a name that sorts after every other snapshot of the step."""
    name = f"step-{step:09d}"
    last = [folder for folder in listing(parent) if step_of(folder) == step][-1:]
    if last:
        return parent / f"{name}.{int(last[0].suffix[1:] or 0) + 1}"
    return parent / name


def _files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _write_manifest(folder):
    files = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "crc32": checksum(path),
        }
        for path in _files(folder)
    }
    text = json.dumps({"files": files}, indent=1)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _flush(folder):
    for path in _files(folder):
        machine.flush(path)
    machine.flush(folder)
