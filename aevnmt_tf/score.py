"""Score sentence pairs: log-probabilities, the ELBO and importance-weighted bounds, in nats.

    aevnmt score --model RUN --src source.txt --tgt target.txt > scores.tsv
    aevnmt score --model RUN --src F.gz --tgt G.gz --samples 100 --format jsonl --output F.jsonl

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
--src only and has elbo, log_px, kl, iw_log_px and ess.
"""

import argparse
import contextlib
import json
import math
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aevnmt_tf.cli import command, flags
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import line_streams, pair_streams
from aevnmt_tf.translator.corpus_scores import CorpusScores

if TYPE_CHECKING:
    from aevnmt_tf.translator import PairScore, Translator


def parser() -> command.Parser:
    """Return the command line."""
    p = command.Parser("score", __doc__)
    flags.add_run(p)
    kinds = "a file (not a language, as in train), plain or .gz; - reads stdin"
    p.add_argument("--src", required=True, metavar="FILE", help=f"source sentences: {kinds}")
    p.add_argument("--tgt", metavar="FILE", help="target sentences: a file; none for a vae")
    p.add_argument(
        "--output", default="-", metavar="FILE", help="plain or .gz (default: stdout)"
    )
    p.add_argument("--format", choices=("tsv", "jsonl"), default="tsv")
    p.add_argument(
        "--samples",
        type=flags.positive,
        default=10,
        metavar="S",
        help="draws of z per pair (default: 10)",
    )
    p.add_argument(
        "--seed", type=flags.seed, default=1, metavar="S", help="random seed (default: 1)"
    )
    flags.add_errors(p)
    p.add_argument(
        "--src_max_len_infer", type=flags.positive, metavar="N", help="truncate longer lines"
    )
    return p


def run(args: argparse.Namespace) -> int:
    """Score and return the exit code."""
    _check(args)
    with contextlib.ExitStack() as stack:
        pairs = stack.enter_context(
            pair_streams.PairStream(args.src, args.tgt or args.src, errors=args.errors)
        )
        translator = _load(args)
        _check_sides(args, has_target=translator.model.decoder is not None)
        names = translator.scorer.names
        # Only now: a command that cannot work must not empty the file.
        output = stack.enter_context(line_streams.Output(args.output, source=args.src))
        if args.format == "tsv":
            output.write("\t".join([*names, "source_tokens", "target_tokens"]))
        corpus = CorpusScores(names, samples=args.samples)
        scores = translator.scorer.stream(pairs, samples=args.samples, seed=args.seed)
        for number, score in enumerate(_tracked(scores, args), 1):
            _say_cuts(number, score)
            source, target = pairs.waiting.popleft()
            row = {name: score.values[name] for name in names} | _tokens(score)
            if args.format == "jsonl":
                output.write(_jsonl({"line": number, "source": source, "target": target}, row))
            else:
                output.write("\t".join(map(_cell, row.values())))
            corpus.add(row)
            if not pairs.waiting:  # this window is done
                output.flush()
        output.flush()
        if pairs.problem:
            raise UserError(pairs.problem)
    print("aevnmt score: " + "\n".join(corpus.lines()), file=sys.stderr)
    if warning := corpus.warning():
        print(f"aevnmt score: {warning}", file=sys.stderr)
    return 0


def _load(args: argparse.Namespace) -> "Translator":
    from aevnmt_tf import translator as translators

    longest = args.src_max_len_infer
    overrides = {} if longest is None else {"src_max_len_infer": longest}
    return translators.load(args.model, checkpoint=args.checkpoint, **overrides)


def _check(args: argparse.Namespace) -> None:
    """Raise a UserError about what can be known before the model is loaded."""
    paths = (args.src, args.tgt or args.src)
    if paths == ("-", "-"):
        what = "--src can be no stdin without --tgt" if args.tgt is None else None
        raise UserError(f"{what or 'only one of --src and --tgt can be stdin'}.")
    line_streams.refuse_inputs(args.output, paths)
    pair_streams.check_counts(*paths)


def _check_sides(args: argparse.Namespace, *, has_target: bool) -> None:
    if has_target and args.tgt is None:
        raise UserError("--tgt is missing: only a vae model scores sentences alone.")
    if not has_target and args.tgt is not None:
        raise UserError(
            f"{args.model} is a vae, which scores sentences alone: leave --tgt out."
        )


def _tracked(scores: "Iterable[PairScore]", args: argparse.Namespace) -> "Iterable[PairScore]":
    """Return scores with a bar on stderr, unless they go to the same terminal."""
    if args.output == "-" and sys.stdout.isatty():
        return scores
    from aevnmt_tf.cli import progress

    total = pair_streams.count(args.src)
    return progress.track(scores, "scoring", total=total) if sys.stderr.isatty() else scores


def _say_cuts(number: int, score: "PairScore") -> None:
    for side, was_cut in (("source", score.source_was_cut), ("target", score.target_was_cut)):
        if was_cut:
            length = getattr(score, f"{side}_tokens") - 1
            sentence = f"line {number}: the {side} is cut to its first {length} subwords"
            print(f"aevnmt score: {sentence}", file=sys.stderr)


def _tokens(score: "PairScore") -> dict[str, int]:
    return {name: getattr(score, name) for name in ("source_tokens", "target_tokens")}


def _cell(value: float) -> str:
    return f"{value:.5f}" if isinstance(value, float) else str(value)


def _jsonl(head: dict[str, Any], row: dict[str, Any]) -> str:
    # JSON has no infinity.
    finite = {k: v if math.isfinite(v) else None for k, v in row.items()}
    return json.dumps({**head, **finite}, ensure_ascii=False)


def main(argv: list[str] | None = None) -> int:
    """Run `aevnmt score`."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
