"""The directory of a run: its file names, and which weights to load.

    out_dir/hparams.json                        the resolved settings
    out_dir/text/                               the tokenizers' files
    out_dir/checkpoints/step-000001000/         one folder for each of the last checkpoints
    out_dir/best/step-000001000/                best dev BLEU (one folder)
    out_dir/average/step-000001000/             mean of the last checkpoints (one folder)
    out_dir/logs/  metrics.jsonl  results.json

A folder with weights holds `model.weights.h5`, `state.json` with the step, scores and so on,
and `manifest.json` with the size and checksum of every file. It appears when it is complete.
"""

import hashlib
import json
import os
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevnmt_tf.cli.errors import UserError

if TYPE_CHECKING:
    import keras

HPARAMS = "hparams.json"
TEXT = "text"
CHECKPOINTS = "checkpoints"
BEST = "best"
AVERAGE = "average"
LOGS = "logs"
METRICS = "metrics.jsonl"
RESULTS = "results.json"

WEIGHTS = "model.weights.h5"
STATE = "state.json"
MANIFEST = "manifest.json"
CHOICES = {"best": BEST, "last": CHECKPOINTS, "average": AVERAGE}

_NAME = re.compile(r"step-(\d+)(?:\.(\d+))?")


def step_of(folder: str | os.PathLike[str]) -> int | None:
    """Return the step of a folder with weights, or None if it has another name."""
    match = _NAME.fullmatch(Path(folder).name)
    return int(match.group(1)) if match else None


def listing(parent: str | os.PathLike[str]) -> list[Path]:
    """Return the folders with weights inside `parent`, oldest first."""
    parent = Path(parent)
    if not parent.is_dir():
        return []
    found = [path for path in parent.iterdir() if path.is_dir() and step_of(path) is not None]
    return sorted(found, key=_step_and_attempt)


def settings_file(run: str | os.PathLike[str]) -> Path:
    """Return the settings file of a run; raise a UserError if the folder is not a run."""
    path = Path(run) / HPARAMS
    if not path.is_file():
        if any(path.parent.glob("saved_model.pb")) or any(path.parent.glob("*/saved_model.pb")):
            raise UserError(
                f"{run} is an exported SavedModel, not a training run: give the out_dir of the "
                "run that it was exported from, or serve it with `aevnmt serve`."
            )
        raise UserError(
            f"{run} is not a training run: it has no {HPARAMS}. Give the out_dir of a run."
        )
    return path


def find_weights(run: str | os.PathLike[str], *, checkpoint: str | None = None) -> Path:
    """Return the folder of the weights that a command should load.

    Args:
        run: The directory of a run.
        checkpoint: "best", "last" or "average"; None: best or average, whichever has the
            higher dev BLEU, or last if there is neither. For a language model, which has no
            meaningful BLEU, None is last.
    """
    run = Path(run)
    if not run.is_dir():
        raise UserError(f"the folder {run} does not exist: give the out_dir of a training run.")
    if checkpoint is None and read_json(run / HPARAMS).get("language_model"):
        checkpoint = "last"
    if checkpoint is not None:
        found = [_newest(run / CHOICES[checkpoint])]
    else:
        found = [_newest(run / BEST), _newest(run / AVERAGE)]
        found.sort(key=_dev_bleu, reverse=True)  # stable: best/ wins a tie
        found.append(_newest(run / CHECKPOINTS))
    for folder in found:
        if folder is not None:
            return folder
    if checkpoint == "average" and not read_json(run / HPARAMS).get("avg_ckpts"):
        raise UserError(
            f"{run} was trained without avg_ckpts, so it has no average: give another "
            "--checkpoint, or train with avg_ckpts."
        )
    where = "best/ or checkpoints/" if checkpoint is None else f"{CHOICES[checkpoint]}/"
    raise UserError(
        f"{run} has no complete weights in {where}: training may not have saved any yet."
    )


def _newest(parent: Path) -> Path | None:
    """Return the newest undamaged folder, or None."""
    return next((f for f in reversed(listing(parent)) if damage(f) is None), None)


def _dev_bleu(folder: Path | None) -> float:
    score = -1.0 if folder is None else state(folder).get("dev_bleu")
    return -0.5 if score is None else score


def state(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the state of a folder with weights; empty if it cannot be read."""
    return read_json(Path(folder) / STATE)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if the file is missing or truncated."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def save_weights(model: "keras.Model", folder: str | os.PathLike[str]) -> None:
    """Write the weights of a model into a folder."""
    model.save_weights(str(Path(folder) / WEIGHTS))


def load_weights(model: "keras.Model", folder: str | os.PathLike[str]) -> None:
    """Load weights from a folder into a model, whose variables must exist."""
    path = Path(folder) / WEIGHTS
    try:
        model.load_weights(str(path))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (ValueError, KeyError) as error:
        raise UserError(
            f"{path} does not match the model that {HPARAMS} describes: {error}."
        ) from error


def damage(folder: str | os.PathLike[str], *, checksums: bool = True) -> str | None:
    """Return what is wrong with a folder that has a manifest, or None if it is intact.

    Args:
        folder: The folder.
        checksums: Whether to compare checksums, or only sizes.
    """
    folder = Path(folder)
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files = dict(manifest["files"])
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except (OSError, ValueError, KeyError, TypeError):
        return f"{MANIFEST} cannot be read"
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != expected["bytes"]:
            return f"{name} has {path.stat().st_size} bytes instead of {expected['bytes']}"
        if checksums and checksum(path) != expected["crc32"]:
            return f"the checksum of {name} is wrong"
    return None


def checksum(path: str | os.PathLike[str]) -> int:
    """Return the CRC-32 of a file."""
    value = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            value = zlib.crc32(block, value)
    return value


def digest(path: str | os.PathLike[str], algorithm: str = "sha256") -> str:
    """Return the digest of a file as hexadecimal digits."""
    value = hashlib.new(algorithm, usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            value.update(block)
    return value.hexdigest()


def _step_and_attempt(folder: Path) -> tuple[int, int]:
    step, _, attempt = folder.name.removeprefix("step-").partition(".")
    return int(step), int(attempt or 0)
