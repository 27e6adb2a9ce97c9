"""Export a model for TensorFlow Serving: text in, text out.

    aevnmt export --model RUN --export_dir D
    aevnmt export --model RUN --export_dir D --version 7 --n_best 10 --beam_width 10
    aevnmt export --model RUN1 --model RUN2 --export_dir D          (an ensemble)

Writes D/1, or the next free number. The folder appears when it is complete, so that a server
that watches D can load it.
"""

import shlex
import sys

from aevnmt_tf import hparams
from aevnmt_tf.cli import command, flags, next_commands, settings
from aevnmt_tf.serving.batching_file import Batching
from aevnmt_tf.translator import rules

SETTINGS = ("beam_width", "length_penalty_weight")  # of the run, those with a declaration
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
    _add_sizes(p)
    _add_settings(p)
    settings.add_flags(p, Batching)
    return p


def _add_sizes(p):
    group = p.add_argument_group("fixed at export")
    group.add_argument(
        "--n_best",
        type=flags.positive,
        metavar="N",
        help="translations of the nbest signature (default: 5)",
    )
    group.add_argument(
        "--num_samples",
        type=flags.positive,
        default=5,
        metavar="N",
        help="translations of the sample signature (default: 5)",
    )
    group.add_argument(
        "--samples",
        type=flags.positive,
        default=10,
        metavar="S",
        help="draws of z of the score signature (default: 10)",
    )
    group.add_argument(
        "--mbr_samples",
        type=flags.positive,
        default=30,
        metavar="N",
        help="samples that mbr chooses among (default: 30)",
    )
    rules.add_flags(group, rules.DRAWING, owner="sample, mbr")


def _add_settings(p):
    group = p.add_argument_group("settings of the run that may be changed")
    for name in SETTINGS:
        settings.add_flag(group, hparams.SETTINGS[name])
    flags.add_lengths(group)


def run(args) -> int:
    """Export and return the exit code."""
    from aevnmt_tf.serving import saved_model

    exported = saved_model.export_runs(
        args.model,
        args.export_dir,
        checkpoint=args.checkpoint,
        version=args.version,
        example=args.example,
        batching=Batching.of(settings.given(args, Batching)),
        overrides={**rules.given(args, SETTINGS), **_given(args, LENGTHS)},
        num_samples=args.num_samples,
        mbr_samples=args.mbr_samples,
        score_samples=args.samples,
        sampling=rules.given(args, rules.DRAWING),
        **rules.given(args, ("search",)),
        **_given(args, ("n_best",)),
    )
    print("\n".join(_lines(args, exported)))
    return 0


def _given(args, names):
    """Return the flags of these names that were given."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _lines(args, exported):
    """Return what to say in the end."""
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
        sides = (signature["inputs"], signature["outputs"])
        inputs, outputs = (", ".join(side) for side in sides)
        yield f"  {name:16} {inputs} -> {outputs}"
    yield f"warm-up requests: {exported.num_warmup_requests}"
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
    """`aevnmt export`."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
