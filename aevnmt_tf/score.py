"""Score sentence pairs: log-probabilities, the ELBO and importance-weighted bounds, in nats.

    aevnmt score --model RUN --src source.txt --tgt target.txt > scores.tsv
    aevnmt score --model RUN --src F.gz --tgt G.gz --samples 100 --format jsonl --output F.jsonl
    aevnmt score --model EXPORT_DIR --src source.txt --tgt target.txt            (a SavedModel)

Prints one line per pair, in order. Totals and perplexities go to stderr.

    elbo            log_px + log_py - kl
    log_px, log_py  log P(x|z) and log P(y|x, z), averaged over --samples draws of z from q
    kl              KL(q(z|.) || p(z))
    iw_log_pxy      importance-weighted lower bound on log P(x, y)
    iw_log_px       the same for log P(x)
    iw_log_py       iw_log_pxy - iw_log_px, an estimate of log P(y|x); a bound for vnmt
    ess             effective sample size of iw_log_pxy; do not trust the iw_ bounds if it is
                    close to 1
    log_py_at_mean  log P(y|x, z) with the z that translate uses
    source_tokens, target_tokens    number of subwords, including </s>

A joint model has elbo, log_px and log_py only, a cond model log_py only. For a vnmt model, elbo
is log_py - kl, and iw_log_py is a lower bound on log P(y|x). A vae model takes
--src only and has elbo, log_px, kl, iw_log_px and ess. A language model (language_model true)
takes its text as --src; log_py is log P(y), which does not depend on another file.
"""

import argparse
import sys

from aevnmt_tf.cli import command, flags
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import LineRate
from aevnmt_tf.serving import export_folder, export_jobs
from aevnmt_tf.storage import line_streams, pair_streams
from aevnmt_tf.translator import corpus_parts
from aevnmt_tf.translator.corpus_jobs import CorpusJob, ScoreJob
from aevnmt_tf.translator.corpus_shards import CorpusInput


def parser() -> command.Parser:
    """Return the command line."""
    p = command.Parser("score", __doc__)
    flags.add_run(p, or_export=True)
    kinds = "a file (not a language, as in train), plain or .gz; - reads stdin"
    p.add_argument("--src", required=True, metavar="FILE", help=f"source sentences: {kinds}")
    p.add_argument(
        "--tgt",
        metavar="FILE",
        help="target sentences: a file; none for a vae or language model",
    )
    p.add_argument(
        "--output", default="-", metavar="FILE", help="plain or .gz (default: stdout)"
    )
    p.add_argument("--format", choices=("tsv", "jsonl"), default="tsv")
    p.add_argument(
        "--samples",
        type=flags.positive,
        metavar="S",
        help="draws of z per pair (default: 10)",
    )
    p.add_argument("--seed", type=flags.seed, metavar="S", help="random seed (default: 1)")
    flags.add_errors(p)
    flags.add_parts(p)
    p.add_argument(
        "--src_max_len_infer", type=flags.positive, metavar="N", help="truncate longer lines"
    )
    return p


def run(args: argparse.Namespace) -> int:
    """Score and return the exit code."""
    _check(args)
    job = _job(args)
    source = CorpusInput([args.src, args.tgt or args.src], errors=args.errors)
    if corpus_parts.is_split(args):
        corpus_parts.run_split("aevnmt score", args, job, source)
        return 0
    with source.opened() as pairs:
        model = job.load()
        rate = LineRate("aevnmt score")
        # Only now, so that a command that fails does not empty the file.
        with line_streams.Output(args.output, source=args.src) as output:

            def seen(number: int, _: object) -> None:
                if sys.stderr.isatty():
                    rate.move(number)

            summary = job.write(
                model, pairs, output.write, flush=output.flush, say=rate.say, seen=seen
            )
        if pairs.problem:
            raise UserError(pairs.problem)
    print("aevnmt score: " + "\n".join(summary.lines()), file=sys.stderr)
    return 0


def _job(args: argparse.Namespace) -> CorpusJob:
    longest = args.src_max_len_infer
    if export_folder.is_export(args.model):
        names = ("checkpoint", "samples", "seed", "src_max_len_infer")
        refused = [name for name in names if getattr(args, name) is not None]
        version = export_jobs.newest_version([args.model], refused=refused)
        if args.tgt is None:
            raise UserError("--tgt is missing: an exported SavedModel scores sentence pairs.")
        return export_jobs.ExportScoreJob(version, args.format)
    return ScoreJob(
        [args.model],
        args.checkpoint,
        {} if longest is None else {"src_max_len_infer": longest},
        format=args.format,
        samples=args.samples or 10,
        seed=1 if args.seed is None else args.seed,
        has_target=args.tgt is not None,
    )


def _check(args: argparse.Namespace) -> None:
    """Raise a UserError for mistakes that show before the model is loaded."""
    paths = (args.src, args.tgt or args.src)
    if paths == ("-", "-"):
        if args.tgt is None:
            raise UserError("--src cannot be stdin without --tgt: give a file.")
        raise UserError("only one of --src and --tgt can be stdin.")
    line_streams.refuse_inputs(args.output, paths)
    pair_streams.check_counts(*paths)


def main(argv: list[str] | None = None) -> int:
    """Run `aevnmt score`."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
