"""Train a model; continue where it stopped when out_dir has a checkpoint.

    aevnmt train --hparams FILE [--NAME VALUE ...]

Without train_prefix it trains on a demo corpus that it makes itself. Ctrl-C saves and stops;
the same command goes on from there.
"""

import importlib.util
import os
import platform
import shlex
import sys
from pathlib import Path

from aevnmt_tf import command, hparams
from aevnmt_tf.errors import UserError


def parser() -> command.Parser:
    """The flags of this verb."""
    flags = command.Parser("train", __doc__)
    hparams.add_flags(flags)
    return flags


def run(args) -> int:
    """Train, and say what to do next."""
    hp = hparams.from_args(args)
    if hp.out_dir is None:
        raise UserError("out_dir is not set: say where to keep the run, with --out_dir RUN")
    _keep_compiled_code()
    from aevnmt_tf.training.run import train

    outcome, results = train(hp)
    if outcome.interrupted:
        return command.INTERRUPTED
    if results is not None:
        _say_the_end(hp, outcome, results)
    return 0


def _say_the_end(hp, outcome, results):
    print(f"finished at step {outcome.step}: {outcome.reason}")
    if results["best"]:
        best = results["best"]
        place = f"at step {best['step']}"
        if "averaged_steps" in best:
            place = f"of the mean of {len(best['averaged_steps'])} checkpoints"
        print(f"best dev BLEU {best['dev_bleu']:.2f} {place}")
    out_dir = shlex.quote(hp.out_dir)
    export_dir = shlex.quote(str(Path(hp.out_dir) / "export"))
    print("next:")
    print(f"  python -m aevnmt_tf.translate --model {out_dir}")
    print(f"  tensorboard --logdir {out_dir}/logs")
    if importlib.util.find_spec("aevnmt_tf.export"):
        print(f"  python -m aevnmt_tf.export --model {out_dir} --export_dir {export_dir}")


def _keep_compiled_code():
    """Let XLA find again what it compiled in an earlier run on this machine.

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
        return  # a home that cannot be written costs time, not the run
    os.environ["TF_XLA_FLAGS"] = f"{flags} --tf_xla_persistent_cache_directory={folder}".strip()


def main(argv=None) -> int:
    """Run the verb and return its exit code."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
