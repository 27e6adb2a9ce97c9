"""Train a model, or resume training from the last checkpoint in out_dir.

    aevnmt train --hparams FILE [--NAME VALUE ...]
    aevnmt train --src en --tgt de --train_prefix P --dev_prefix D --out_dir RUN

Without --hparams, the command chooses settings from the number of sentence pairs and prints
them. Without train_prefix, it trains on the demo corpus. Ctrl-C saves a checkpoint and stops;
the same command resumes.
"""

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevnmt_tf import hparams
from aevnmt_tf.cli import command, next_commands
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.hparams import Hparams, own_text, tf_nmt_names

if TYPE_CHECKING:
    from aevnmt_tf.training.training_loop import TrainingOutcome


def parser() -> command.Parser:
    """Return the flags of this verb."""
    flags = command.Parser("train", __doc__, advice=tf_nmt_names.FLAGS)
    hparams.add_flags(flags)
    return flags


def run(args: argparse.Namespace) -> int:
    """Train, and print what to do next."""
    if hparams.from_args(args).out_dir is None:
        raise UserError("out_dir is not set: choose a folder for the run with --out_dir RUN.")
    _keep_compiled_code()
    from aevnmt_tf.data.corpora import count_pairs
    from aevnmt_tf.training.training_run import train

    hp = own_text.from_args(args, count_pairs=count_pairs)
    outcome, results = train(hp)
    if outcome.interrupted:
        return command.INTERRUPTED
    if results is not None:
        _print_end(hp, outcome, results)
    return 0


def _print_end(hp: Hparams, outcome: "TrainingOutcome", results: dict[str, Any]) -> None:
    print(f"finished at step {outcome.step}: {outcome.reason}")
    if results["best"]:
        best = results["best"]
        place = f"at step {best['step']}"
        if "averaged_steps" in best:
            place = f"of the mean of {len(best['averaged_steps'])} checkpoints"
        print(f"best dev BLEU {best['dev_bleu']:.2f} {place}")
    logs, export_dir = (str(Path(hp.out_dir) / name) for name in ("logs", "export"))
    lines = [
        next_commands.verb("translate", "--model", hp.out_dir),
        next_commands.tool("tensorboard", "tensorboard.main", "--logdir", logs),
        next_commands.verb("export", "--model", hp.out_dir, "--export_dir", export_dir),
        next_commands.verb("serve", "--export_dir", export_dir),
    ]
    if hp.model_type == "vae":  # there is nothing to serve
        lines = [next_commands.verb("sample", "--model", hp.out_dir, "--num", "5"), lines[1]]
    if hp.language_model:
        lines = [next_commands.verb("score", "--model", hp.out_dir, "--src", "FILE"), lines[1]]
    print("\n  ".join(["next:", *lines]))


def _keep_compiled_code() -> None:
    """Let XLA reuse what it compiled in earlier runs on this machine.

    TensorFlow reads the flag when it is imported.
    """
    flags = os.environ.get("TF_XLA_FLAGS", "")
    if "tensorflow" in sys.modules or "persistent_cache" in flags:
        return
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "aevnmt_tf" / f"xla-{platform.node()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # without a cache, training is slower to start
    os.environ["TF_XLA_FLAGS"] = f"{flags} --tf_xla_persistent_cache_directory={folder}".strip()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the verb and return its exit code."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
