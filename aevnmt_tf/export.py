"""Export a model for TensorFlow Serving: text in, text out.

    aevnmt export --model RUN --export_dir D
    aevnmt export --model RUN --export_dir D --version 7 --n_best 10 --beam_width 10
    aevnmt export --model RUN1 --model RUN2 --export_dir D          (an ensemble)

Writes D/1, or the next free number. The folder appears when it is complete, so that a server
that watches D can load it.
"""

import shlex
import sys
from typing import Any

from aevnmt_tf import hparams
from aevnmt_tf.cli import command, flags, next_commands, settings
from aevnmt_tf.serving.batching_file import Batching
from aevnmt_tf.translator import rules

SIZES = {
    "n_best": "translations of the nbest signature (default: 5, or as many as it finds)",
    "num_samples": "translations of the sample signature (default: 5)",
    "samples": "draws of z of the score signature (default: 10)",
    "mbr_samples": "samples that the mbr signature chooses from (default: 30)",
}
SETTINGS = ("beam_width", "length_penalty_weight")
LENGTHS = ("src_max_len_infer", "tgt_max_len_infer")


def parser() -> command.Parser:
    """Return the command line."""
    p = command.Parser("export", __doc__)
    flags.add_runs(p)
    p.add_argument(
        "--export_dir", required=True, metavar="D", help="folder of the numbered versions"
    )
    p.add_argument(
        "--version",
        type=flags.positive,
        metavar="N",
        help="version (default: the next free number)",
    )
    p.add_argument(
        "--example", metavar="TEXT", help="source sentence that the web page offers to try"
    )
    rules.add_flags(p, ["search"], owner="serving_default and nbest")
    group: Any = p.add_argument_group("fixed at export")
    for name, about in SIZES.items():
        group.add_argument(f"--{name}", type=flags.positive, metavar="N", help=about)
    rules.add_flags(group, rules.DRAWING, owner="sample, mbr")
    group = p.add_argument_group("settings of the run that may be changed")
    for name in SETTINGS:
        settings.add_flag(group, hparams.SETTINGS[name])
    flags.add_lengths(group)
    settings.add_flags(p, Batching)
    return p


def run(args) -> int:
    """Export and return the exit code."""
    from aevnmt_tf.serving import saved_model

    sizes = _given(args, SIZES)
    if "samples" in sizes:
        sizes["score_samples"] = sizes.pop("samples")
    exported = saved_model.export_runs(
        args.model,
        args.export_dir,
        checkpoint=args.checkpoint,
        version=args.version,
        example=args.example,
        batching=Batching.of(settings.given(args, Batching)),
        overrides={**rules.given(args, SETTINGS), **_given(args, LENGTHS)},
        sampling=rules.given(args, rules.DRAWING),
        **rules.given(args, ("search",)),
        **sizes,
    )
    print("\n".join(_lines(args, exported)))
    return 0


def _given(args, names):
    """Return the flags of these names that were given."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _lines(args, exported):
    """Yield a summary of the export, and what to run next."""
    described = exported.manifest
    yield f"written: {exported.folder}"
    for one in described["runs"]:
        dev = one["dev"]
        score = f", dev BLEU {dev['bleu']:.2f}" if dev else ""
        yield f"  {one['name']}, {one['checkpoint']}{score}"
    for side, name in (("source", "takes"), ("target", "gives")):
        form = described["text"][side]
        yield f"  {name} {form['lang']}: {form['note']}"
    yield "signatures:"
    for name, signature in described["signatures"].items():
        inputs, outputs = (", ".join(signature[side]) for side in ("inputs", "outputs"))
        yield f"  {name:16} {inputs} -> {outputs}"
    if exported.warning:
        yield f"warning: {exported.warning}"
    folder = shlex.quote(args.export_dir)
    yield "next:"
    yield f"  {next_commands.verb('serve', '--export_dir', args.export_dir)}"
    yield (
        f"  docker run -p 8501:8501 -p 8500:8500 -e MODEL_NAME=aevnmt "
        f'-v "$(realpath {folder})":/models/aevnmt tensorflow/serving '
        "--enable_batching --enable_per_model_batching_parameters"
    )


def main(argv=None) -> int:
    """Run the command and return its exit code."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
