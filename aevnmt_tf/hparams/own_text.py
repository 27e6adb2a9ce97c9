"""Settings chosen from the number of sentence pairs, for users without a settings file.

The defaults are the authors' values for 150,000 pairs and more. On a small corpus, they train
for hours, and the posterior collapses after a few hundred updates. The rule below interpolates
settings that work in practice: those of hparams/multi30k_aevnmt.json for 29,000 pairs and of
hparams/demo.json for a few thousand.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any

from aevnmt_tf.hparams import merged_settings
from aevnmt_tf.hparams.declarations import GROUPS
from aevnmt_tf.hparams.merged_settings import Hparams
from aevnmt_tf.storage import run_directory

_MEASURED = 29_000  # pairs of Multi30k
_GROUPS = ("model", "text", "objective", "optimisation", "reporting")


def choose(num_pairs: int, *, hp: Hparams, given: Container[str] = ()) -> dict[str, Any]:
    """Return the settings to use in place of defaults.

    Args:
        num_pairs: Number of sentence pairs to train on.
        hp: The user's settings, and defaults for the rest.
        given: Names of the settings that the user has set; they are left alone.
    """
    ratio = max(num_pairs, 1) / _MEASURED
    steps = hp.num_train_steps
    if "num_train_steps" not in given:
        steps = min(max(_rounded(12_000 * ratio ** (2 / 3)), 400), 140_000)
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
        # KL annealing alone does not prevent posterior collapse; free bits do.
        chosen |= {"z_dim": 32, "free_bits": 10.0}
    is_moses, is_spm = hp.text_pipeline == "moses", hp.subword_option == "spm"
    if hp.vocab_prefix is None and (is_moses or is_spm):
        measured = 3000 if is_moses else 5000  # per language, and for both
        chosen["vocab_size"] = min(max(_rounded(measured * ratio**0.5), 500), 16_000)
    if hp.vocab_prefix is None and is_spm and not is_moses:
        chosen |= {"share_vocab": True, "tie_embeddings": hp.embed_prefix is None}
    if "check_convergence_every" not in given or not hp.check_convergence_every:
        chosen |= {"decay_scheme": "linear", "check_convergence_every": 0}
    return {name: value for name, value in chosen.items() if name not in given}


def _rounded(value: float) -> int:
    """Return a number rounded to two significant digits."""
    return int(float(f"{value:.1e}"))


def from_args(
    args: argparse.Namespace,
    *,
    count_pairs: Callable[[Hparams], int],
    report: Callable[[str], object] = print,
) -> Hparams:
    """Return the settings of a command line; without --hparams, choose them for the text.

    A resumed run keeps the settings that were chosen when it started.

    Args:
        args: The parsed flags.
        count_pairs: Returns the number of training pairs for given settings.
        report: Called with a description of the chosen settings.
    """
    hp = merged_settings.from_args(args)
    if args.hparams is not None:
        return hp
    given = merged_settings.overrides(args).keys()
    run = Path(hp.out_dir or "")
    if hp.out_dir and run_directory.listing(run / run_directory.CHECKPOINTS):
        stored = merged_settings.load(run_directory.settings_file(run)).to_dict()
        chosen = {name: stored[name] for name in choose(0, hp=hp, given=given)}
    else:
        num_pairs = count_pairs(hp)
        chosen = choose(num_pairs, hp=hp, given=given)
        report(_table(chosen, num_pairs=num_pairs))
    return merged_settings.from_args(args, below=chosen)


def _table(chosen: Mapping[str, Any], *, num_pairs: int) -> str:
    """Describe the chosen settings, group by group."""
    lines = [
        f"No --hparams given: using settings for {num_pairs:,} sentence pairs (flags override)"
    ]
    for group in _GROUPS:
        names = [s.name for s in GROUPS[group] if s.name in chosen]
        if names:
            text = ", ".join(f"{name} {chosen[name]}" for name in names)
            lines += textwrap.wrap(
                text, 96, initial_indent=f"  {group:14}", subsequent_indent=" " * 16
            )
    return "\n".join(lines)
