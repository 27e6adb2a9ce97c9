"""Who may use an out_dir: one process at a time, and one model for ever."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage import locks, run_directory


def _names(*groups: str) -> tuple[str, ...]:
    return tuple(setting.name for group in groups for setting in hparams.GROUPS[group])


# With another value of one of these, the weights do not fit or mean something else.
SAME_MODEL = ("src", "tgt") + tuple(
    name
    for name in _names("model", "text")
    if not name.endswith(("dropout", "dropout_source", "stddev"))
)

# With another value of one of these, the optimizer's state or the count of steps does not fit.
SAME_TRAINING = ("optimizer", "gradient_accumulation_steps", "ema_decay")

# These add a net or a variable unless they are 0 or null.
SAME_PARTS = ("bow_source_weight", "bow_target_weight", "mdr_rate", "consistency_weight") + (
    "embed_prefix",
)

# The run's subword models are learned from these.
FROM_TEXT = _names("text") + ("share_vocab", "src", "tgt", "train_prefix", "synthetic_prefix")
FROM_TEXT += ("mono_prefix", "vocab_prefix", "demo_pairs", "max_train", "sos", "eos")

# These may change without notice, because they do not change what is trained. Decoding settings
# that affect scores on dev, and so the best weights, are not among them.
UNREMARKABLE = ("out_dir", "note", "max_steps", "max_minutes") + tuple(
    name
    for name in _names("machine", "decoding", "reporting")
    if name not in ("beam_width", "length_penalty_weight", "sampling_temperature")
)


@contextlib.contextmanager
def claim(hp: Hparams, *, report: Callable[[str], object] = print) -> Iterator[Path]:
    """Own the run's directory while the block runs, and save the settings in it.

    The directory is created if necessary and locked against a second process. It is refused if
    it holds another model or has lost its checkpoints. Other settings may change; `report` is
    called with a message about them.
    """
    out_dir = Path(hp.out_dir)
    busy = f"another process is training in {out_dir}: wait for it, or choose another out_dir."
    with locks.folder_held(out_dir, busy=busy, instead="choose another out_dir"):
        _refuse_a_run_without_checkpoints(out_dir)
        _compare(hp, out_dir, report=report)
        hp.save(out_dir / run_directory.HPARAMS)
        yield out_dir


def _refuse_a_run_without_checkpoints(out_dir: Path) -> None:
    """Refuse to overwrite the results of a run whose checkpoints were deleted.

    The loop saves a checkpoint before it saves any other weights.
    """
    if run_directory.listing(out_dir / run_directory.CHECKPOINTS):
        return
    for name in (run_directory.BEST, run_directory.AVERAGE):
        if run_directory.listing(out_dir / name):
            raise UserError(
                f"out_dir {out_dir} has weights in {name}/, but no checkpoint to resume from:"
                f" choose another out_dir, or remove {out_dir} to start over."
            )


def _compare(hp: Hparams, out_dir: Path, *, report: Callable[[str], object]) -> None:
    """Refuse the directory of another model; report other settings that have changed."""
    path = out_dir / run_directory.HPARAMS
    if not path.exists():
        return
    before, now = hparams.load(path).to_dict(), hp.to_dict()
    changed = [name for name in now if before.get(name) != now[name]]
    if not run_directory.listing(out_dir / run_directory.CHECKPOINTS):
        if any(name in FROM_TEXT for name in changed):
            # Nothing was trained with the old subword models: learn new ones.
            shutil.rmtree(out_dir / run_directory.TEXT, ignore_errors=True)
        return
    fatal = [name for name in changed if name in SAME_MODEL + SAME_TRAINING]
    fatal += [n for n in changed if n in SAME_PARTS and bool(before.get(n)) != bool(now[n])]
    if fatal:
        is_other = any(name in SAME_MODEL + SAME_PARTS for name in fatal)
        what = "another model" if is_other else "a run with other settings of the optimizer"
        raise UserError(
            f"out_dir {out_dir} holds {what} ({_listed(fatal, before, now)}): choose"
            " another out_dir, or the settings of that run."
        )
    remarkable = [name for name in changed if name not in UNREMARKABLE]
    if remarkable:
        report(f"changed since the last start: {_listed(remarkable, before, now)}")


def _listed(names: list[str], before: dict[str, Any], now: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {before.get(name)!r} there, {now[name]!r} now" for name in names)
