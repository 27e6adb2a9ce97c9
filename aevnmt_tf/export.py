"""Export a model for TensorFlow Serving: text in, text out.

    aevnmt export --model RUN --export_dir D
    aevnmt export --model RUN --export_dir D --version 7 --n_best 10 --beam_width 10
    aevnmt export --model RUN1 --model RUN2 --export_dir D          (an ensemble)

Writes D/1, or the next free number, which appears in D when it is complete. A server that
watches D takes it up.
"""

import argparse
import shlex
import sys

from aevnmt_tf import command, flags

SETTINGS = ("beam_width", "length_penalty_weight", "src_max_len_infer", "tgt_max_len_infer")
BATCHING = (
    "max_batch_size",
    "allowed_batch_sizes",
    "batch_timeout_micros",
    "max_enqueued_batches",
    "num_batch_threads",
)
SEARCHES = ("beam", "greedy", "sample", "refine", "mbr")


def parser() -> command.Parser:
    """The command line."""
    p = command.Parser("export", __doc__)
    flags.add_runs(p)
    p.add_argument("--export_dir", required=True, metavar="D", help="folder of all versions")
    p.add_argument(
        "--version", type=flags.positive, metavar="N", help="default: the next free number"
    )
    p.add_argument(
        "--search",
        choices=SEARCHES,
        help="how to translate; default: beam, or what the run's settings say (not mbr, which "
        "chooses outside of the graph)",
    )
    _add_sizes(p)
    _add_settings(p)
    _add_batching(p)
    return p


def _add_sizes(p):
    group = p.add_argument_group("what is fixed at export")
    group.add_argument(
        "--n_best", type=flags.positive, metavar="N", help="N of nbest (default: 5)"
    )
    group.add_argument(
        "--num_samples",
        type=flags.positive,
        default=5,
        metavar="N",
        help="N of sample (default: 5)",
    )
    group.add_argument(
        "--samples",
        type=flags.positive,
        default=10,
        metavar="S",
        help="draws of z in score (default: 10)",
    )
    group.add_argument(
        "--temperature", type=flags.above_zero, metavar="T", help="of sample (default: 1)"
    )
    group.add_argument("--top_k", type=flags.positive, metavar="K", help="of sample")
    group.add_argument("--top_p", type=flags.share, metavar="P", help="of sample")


def _add_settings(p):
    group = p.add_argument_group("settings of the run to change")
    group.add_argument("--beam_width", type=flags.natural, metavar="N")
    group.add_argument("--length_penalty_weight", type=float, metavar="X")
    flags.add_lengths(group)


def _add_batching(p):
    group = p.add_argument_group("how a server puts requests together")
    group.add_argument("--max_batch_size", type=flags.positive, metavar="N", help="default: 64")
    group.add_argument(
        "--allowed_batch_sizes",
        type=_sizes,
        metavar="N,...",
        help="batches are padded to these; default: powers of two up to --max_batch_size",
    )
    group.add_argument(
        "--batch_timeout_micros", type=flags.natural, metavar="N", help="default: 2000"
    )
    group.add_argument(
        "--max_enqueued_batches", type=flags.positive, metavar="N", help="default: 100"
    )
    group.add_argument(
        "--num_batch_threads",
        type=flags.positive,
        metavar="N",
        help="default: as many as this machine has cores",
    )


def _sizes(words):
    try:
        return tuple(flags.positive(word) for word in words.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers like 1,8,64, not {words}") from None


def run(args) -> int:
    """Export and return the exit code."""
    from aevnmt_tf.serving import batching_file, export

    batching = _given(args, BATCHING)
    if "allowed_batch_sizes" in batching:
        batching.setdefault("max_batch_size", batching["allowed_batch_sizes"][-1])
    exported = export.export_runs(
        args.model,
        args.export_dir,
        checkpoint=args.checkpoint,
        version=args.version,
        batching=batching_file.Batching(**batching),
        overrides=_given(args, SETTINGS),
        num_samples=args.num_samples,
        score_samples=args.samples,
        sampling=_given(args, ("temperature", "top_k", "top_p")),
        **_given(args, ("n_best", "search")),
    )
    print("\n".join(_lines(args, exported)))
    return 0


def _given(args, names):
    """The flags of these names that were given."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _lines(args, exported):
    """What to say in the end."""
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
    folder = shlex.quote(args.export_dir)
    yield "next:"
    yield f"  python -m aevnmt_tf.serve --export_dir {folder}"
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
