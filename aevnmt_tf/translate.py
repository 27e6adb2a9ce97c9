"""Translate text line by line.

    aevnmt translate --model RUN < source.txt > translation.txt
    aevnmt translate --model RUN --input source.gz --output out.jsonl --format jsonl --n_best 5
    aevnmt translate --model RUN --search mbr --num_samples 50 --utility bleu < source.txt
    aevnmt translate --model RUN --search refine --refine_steps 3 < source.txt
    aevnmt translate --model RUN1 --model RUN2 --model RUN3 < source.txt        (an ensemble)
    aevnmt translate --model RUN --input F --output F.3 --shard 3/8        (the third part of F)
    aevnmt translate --model RUN --input F --output G --engine ray --num_workers 8
    aevnmt translate --model EXPORT_DIR < source.txt > translation.txt     (a SavedModel)
    echo "A sentence." | aevnmt translate --model RUN --attention alignment.png

With --n_best N, the translations of a line are separated by tabs (text) or form a list (jsonl).
"""

import argparse
import contextlib
import sys
from typing import Any

from aevnmt_tf import hparams
from aevnmt_tf.cli import command, flags
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import LineRate
from aevnmt_tf.hparams import tf_nmt_names
from aevnmt_tf.plots.attention_plot import AlignmentFiles
from aevnmt_tf.serving import export_folder, export_jobs
from aevnmt_tf.storage import line_streams
from aevnmt_tf.translator import corpus_parts, rules
from aevnmt_tf.translator.corpus_jobs import CorpusJob, TranslateJob
from aevnmt_tf.translator.corpus_shards import CorpusInput


def parser() -> command.Parser:
    """Return the command line."""
    p = command.Parser("translate", __doc__, advice=tf_nmt_names.FLAGS)
    flags.add_runs(p, or_export=True)
    std = line_streams.STD
    p.add_argument(
        "--input",
        default=std,
        metavar="FILE",
        help="source text, plain or .gz (default: stdin)",
    )
    p.add_argument(
        "--output",
        default=std,
        metavar="FILE",
        help="translations, plain or .gz (default: stdout)",
    )
    p.add_argument("--format", choices=("text", "jsonl"), default="text")
    p.add_argument(
        "--attention",
        metavar="PATH",
        help="draw alignments: FILE.png for a single line, or a folder for one PNG per line",
    )
    p.add_argument(
        "--lines",
        type=flags.line_numbers,
        metavar="N,...",
        help="translate only these lines of the input, counted from 0",
    )
    flags.add_errors(p)
    p.add_argument("--seed", type=flags.seed, help="random seed (default: 1)")
    flags.add_lengths(p)
    flags.add_parts(p)
    rules.add_flags(p, ("n_best", "force_length", *rules.FLAGS))
    hparams.add_flags(p, ["decoding"], file=False)
    return p


def run(args: argparse.Namespace) -> int:
    """Translate and return the exit code."""
    pictures = AlignmentFiles(args.attention)
    job, source = _job(args), CorpusInput([args.input], errors=args.errors, only=args.lines)
    if corpus_parts.is_split(args):
        for name in ("attention", "lines"):
            if getattr(args, name) is not None:
                raise UserError(f"--{name} is not for --shard and --engine ray.")
        corpus_parts.run_split("aevnmt translate", args, job, source)
        return 0
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(source.opened())
        lines = pictures.allowed(reader)
        model = job.load()
        # Only now, so that a command that fails does not empty the file.
        pictures.make_folder()
        output = stack.enter_context(line_streams.Output(args.output, source=args.input))
        rate = LineRate("aevnmt translate")
        is_typed = args.input == line_streams.STD and sys.stdin.isatty()

        def seen(number: int, result: Any) -> None:
            if args.attention is not None:
                best = result.translations[0]
                pieces = {"source": result.source_pieces, "target": best.target_pieces}
                pictures.draw(number, best.attention, **pieces)
            if not is_typed:
                rate.move(number)

        if is_typed:
            rate.say("type sentences, one per line; Ctrl-D ends the input")
        summary = job.write(
            model,
            lines,
            output.write,
            flush=output.flush,
            is_ready=reader.is_ready,
            say=rate.say,
            seen=seen,
        )
        if not is_typed:
            rate.end()
        for sentence in summary.lines():
            rate.say(sentence)
        if reader.problem:
            raise UserError(reader.problem)
    return 0


def _job(args: argparse.Namespace) -> CorpusJob:
    overrides = hparams.overrides(args)
    changes = rules.given(args, ("n_best", "force_length", *rules.FLAGS))
    for name in ("src_max_len_infer", "tgt_max_len_infer"):
        if getattr(args, name) is not None:
            overrides[name] = getattr(args, name)
    if any(map(export_folder.is_export, args.model)):
        names = ("checkpoint", "attention", "seed")
        refused = [name for name in names if getattr(args, name) is not None]
        refused += [*overrides, *(name for name in changes if name != "n_best")]
        return export_jobs.ExportTranslateJob(
            export_jobs.newest_version(args.model, refused=refused),
            args.format,
            n_best=changes.get("n_best"),
        )
    return TranslateJob(
        args.model,
        args.checkpoint,
        overrides,
        changes,
        format=args.format,
        seed=1 if args.seed is None else args.seed,
        details=args.attention is not None,
    )


def main(argv: list[str] | None = None) -> int:
    """Run `aevnmt translate`."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
