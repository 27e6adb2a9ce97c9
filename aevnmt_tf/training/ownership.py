"""Whose run an out_dir is: one process at a time, one model for ever."""

import contextlib
import shutil
from pathlib import Path

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import locks, run_directory

# With another value of one of these, the weights of the run mean something else or do not fit.
SAME_MODEL = tuple(
    setting.name
    for group in ("model", "text")
    for setting in hparams.GROUPS[group]
    if not setting.name.endswith(("dropout", "dropout_source", "stddev"))
) + ("src", "tgt")

# With another value of one of these, the optimizer's state or the count of steps do not fit.
SAME_TRAINING = ("optimizer", "gradient_accumulation_steps", "ema_decay")

# What is there or not, a net or a variable: 0 or null is another run than any other value.
SAME_PARTS = ("bow_source_weight", "bow_target_weight", "mdr_rate", "consistency_weight") + (
    "embed_prefix",
)

# What the run's subword models are made from.
FROM_TEXT = tuple(setting.name for setting in hparams.GROUPS["text"]) + (
    "share_vocab",
    "src",
    "tgt",
    "train_prefix",
    "synthetic_prefix",
    "mono_prefix",
    "vocab_prefix",
    "demo_pairs",
    "max_train",
    "sos",
    "eos",
)

# These may differ without changing what is trained, so that nobody has to be told.
UNREMARKABLE = tuple(
    setting.name
    for group in ("machine", "decoding", "reporting")
    for setting in hparams.GROUPS[group]
    # Scores on dev, and so the best weights, are those of a search.
    if setting.name not in ("beam_width", "length_penalty_weight", "sampling_temperature")
) + ("out_dir", "note", "max_steps", "max_minutes")


@contextlib.contextmanager
def claim(hp, *, report=print):
    """Make the run's directory ours while the block runs.

    It is made where it is missing, locked against a second process, refused where it holds
    another model or has lost its checkpoints, and gets the settings as hparams.json.

    Args:
        hp: the settings.
        report: called with a sentence where other settings have changed since the last start.
    """
    out_dir = Path(hp.out_dir)
    busy = f"another process is training in {out_dir}: wait for it, or choose another out_dir."
    with locks.folder_held(out_dir, busy=busy, instead="choose another out_dir"):
        _refuse_a_run_without_checkpoints(out_dir)
        _compare(hp, out_dir, report=report)
        hp.save(out_dir / run_directory.HPARAMS)
        yield out_dir


def _refuse_a_run_without_checkpoints(out_dir):
    """Refuse to start at step 0 over the results of a run whose checkpoints were deleted.

    The loop saves a checkpoint before it saves any other weights.
    """
    if run_directory.listing(out_dir / run_directory.CHECKPOINTS):
        return
    for name in (run_directory.BEST, run_directory.AVERAGE):
        if run_directory.listing(out_dir / name):
            raise UserError(
                f"out_dir {out_dir} has weights in {name}/, but no checkpoint to resume from:"
                f" choose another out_dir, or remove {out_dir} to start over"
            )


def _compare(hp, out_dir, *, report):
    """Refuse the directory of another model; mention what else has changed."""
    path = out_dir / run_directory.HPARAMS
    if not path.exists():
        return
    before, now = hparams.load(path).to_dict(), hp.to_dict()
    changed = [name for name in now if before.get(name) != now[name]]
    if not run_directory.listing(out_dir / run_directory.CHECKPOINTS):
        if any(name in FROM_TEXT for name in changed):
            # Nothing was learnt with the old subword models, so that new ones cost nothing.
            shutil.rmtree(out_dir / run_directory.TEXT, ignore_errors=True)
        return
    fatal = [name for name in changed if name in SAME_MODEL + SAME_TRAINING]
    fatal += [n for n in changed if n in SAME_PARTS and bool(before.get(n)) != bool(now[n])]
    if fatal:
        is_other = any(name in SAME_MODEL + SAME_PARTS for name in fatal)
        what = "another model" if is_other else "a run that only its own settings continue"
        raise UserError(
            f"out_dir {out_dir} holds {what} ({_listed(fatal, before, now)}); choose"
            " another out_dir, or the settings of that run"
        )
    remarkable = [name for name in changed if name not in UNREMARKABLE]
    if remarkable:
        report(f"changed since the last start: {_listed(remarkable, before, now)}")


def _listed(names, before, now):
    return ", ".join(f"{name}: {before.get(name)!r} there, {now[name]!r} now" for name in names)
