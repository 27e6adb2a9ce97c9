"""Settings for people who bring text and no settings file, chosen by the number of pairs.

The defaults are the authors' values, which were made for 150,000 pairs and more: on a small
corpus they train for hours, and z is not in use after a few hundred updates. The rule below
goes through the settings that were measured to work: hparams/multi30k_aevnmt.json at 29,000
pairs and hparams/demo.json at a few thousand.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any

from aevnmt_tf.hparams import declarations
from aevnmt_tf.hparams.declarations import Hparams
from aevnmt_tf.storage import run_directory

_MEASURED = 29_000  # pairs of Multi30k
_GROUPS = ("model", "text", "objective", "optimisation", "reporting")


def choose(num_pairs: int, *, hp: Hparams, given: Container[str] = ()) -> dict[str, Any]:
    """Return the settings to use in place of defaults.

    Args:
        num_pairs: how many there are to train on.
        hp: the defaults and what the user says.
        given: the names of what the user says, which is never replaced.
    """
    ratio = max(num_pairs, 1) / _MEASURED
    steps = hp.num_train_steps
    if "num_train_steps" not in given:
        steps = min(max(_rounded(6000 * ratio ** (2 / 3)), 400), 140_000)
    steps_to_run = min(steps, hp.max_steps or steps)
    dropout = 0.4 if num_pairs < 100_000 else 0.3 if num_pairs < 500_000 else 0.2
    chosen: dict[str, Any] = {
        "num_units": 128 if num_pairs < 10_000 else 256,
        "embedding_stddev": 0.1,
        "dropout": dropout,
        "output_dropout": dropout,
        "label_smoothing": 0.1,
        "learning_rate": 0.002,
        "max_gradient_norm": 50.0,
        "warmup_steps": 100,
        "num_train_steps": steps,
        "steps_per_stats": min(max(_rounded(steps_to_run / 50), 10), 100),
        "steps_per_external_eval": min(max(_rounded(steps_to_run / 8), 1), 1000),
    }
    if hp.model_type in ("aevnmt", "vnmt"):
        # The annealing of the KL's weight alone does not keep z in use; free bits do.
        chosen |= {"z_dim": 32, "free_bits": 10.0}
    if hp.vocab_prefix is None and (hp.subword_option == "spm" or hp.text_pipeline == "moses"):
        chosen["vocab_size"] = min(max(_rounded(3000 * ratio**0.5), 500), 16_000)
    if "check_convergence_every" not in given or not hp.check_convergence_every:
        chosen |= {"decay_scheme": "linear", "check_convergence_every": 0}
    return {name: value for name, value in chosen.items() if name not in given}


def _rounded(value: float) -> int:
    """Return a number with two digits that count: nobody needs 1,320.4 updates."""
    return int(float(f"{value:.1e}"))


def from_args(
    args: argparse.Namespace,
    *,
    count_pairs: Callable[[Hparams], int],
    report: Callable[[str], object] = print,
) -> Hparams:
    """Return the settings of a command line; without --hparams, those that fit the text.

    A run in out_dir that goes on keeps what was chosen at its start.

    Args:
        args: what the parser gave.
        count_pairs: tells how many pairs settings name to train on.
        report: called with what was chosen.
    """
    hp = declarations.from_args(args)
    if args.hparams is not None:
        return hp
    given = declarations.overrides(args).keys()
    run = Path(hp.out_dir or "")
    if hp.out_dir and run_directory.listing(run / run_directory.CHECKPOINTS):
        stored = declarations.load(run_directory.settings_file(run)).to_dict()
        chosen = {name: stored[name] for name in choose(0, hp=hp, given=given)}
    else:
        num_pairs = count_pairs(hp)
        chosen = choose(num_pairs, hp=hp, given=given)
        report(_table(chosen, num_pairs=num_pairs))
    return declarations.from_args(args, below=chosen)


def _table(chosen: Mapping[str, Any], *, num_pairs: int) -> str:
    """Return what was chosen, a line for each group of settings."""
    lines = [
        f"No --hparams: settings chosen for {num_pairs:,} sentence pairs (flags override them)"
    ]
    for group in _GROUPS:
        names = [s.name for s in declarations.GROUPS[group] if s.name in chosen]
        if names:
            text = ", ".join(f"{name} {chosen[name]}" for name in names)
            lines += textwrap.wrap(
                text, 96, initial_indent=f"  {group:14}", subsequent_indent=" " * 16
            )
    return "\n".join(lines)
