"""Score sentence pairs: log-probabilities, the ELBO and importance-weighted bounds, in nats.

    aevnmt score --model RUN --src source.txt --tgt target.txt > scores.tsv
    aevnmt score --model RUN --src F.gz --tgt G.gz --samples 100 --format jsonl --output F.jsonl

One line for each pair, in their order. Totals and perplexities go to stderr.

    elbo            log_px + log_py - kl
    log_px, log_py  log P(x|z) and log P(y|x, z), means over --samples draws of z from q
    kl              KL(q(z|.) || p(z))
    iw_log_pxy      importance-weighted bound on log P(x, y), of all draws
    iw_log_px       the same for log P(x)
    iw_log_py       iw_log_pxy - iw_log_px, an estimate of log P(y|x)
    ess             effective sample size of iw_log_pxy: how many of the draws count
    log_py_at_mean  log P(y|x, z) with the z that translate uses
    source_tokens, target_tokens    subwords; </s> counts

A joint model has elbo, log_px and log_py alone, a cond model log_py.
"""

import contextlib
import json
import math
import sys

from aevnmt_tf import command, flags
from aevnmt_tf.data import line_files, line_pairs
from aevnmt_tf.errors import UserError

# What a perplexity divides by.
PER_TOKEN = {
    "elbo": ("source_tokens", "target_tokens"),
    "log_px": ("source_tokens",),
    "log_py": ("target_tokens",),
    "iw_log_pxy": ("source_tokens", "target_tokens"),
    "iw_log_px": ("source_tokens",),
    "iw_log_py": ("target_tokens",),
    "log_py_at_mean": ("target_tokens",),
}


def parser() -> command.Parser:
    """The command line."""
    p = command.Parser("score", __doc__)
    flags.add_run(p)
    p.add_argument("--src", required=True, metavar="FILE", help="plain or .gz; -: stdin")
    p.add_argument("--tgt", required=True, metavar="FILE", help="plain or .gz; -: stdin")
    p.add_argument("--output", default="-", metavar="FILE", help="plain or .gz; -: stdout")
    p.add_argument("--format", choices=("tsv", "jsonl"), default="tsv")
    p.add_argument(
        "--samples",
        type=flags.positive,
        default=10,
        metavar="S",
        help="draws of z (default: 10)",
    )
    p.add_argument("--seed", type=flags.seed, default=1, metavar="S", help="of the draws")
    flags.add_errors(p)
    p.add_argument(
        "--src_max_len_infer", type=flags.positive, metavar="N", help="cut longer sentences"
    )
    return p


def run(args) -> int:
    """Score and return the exit code."""
    _check(args)
    with contextlib.ExitStack() as stack:
        pairs = stack.enter_context(line_pairs.Pairs(args.src, args.tgt, errors=args.errors))
        translator = _load(args)
        names = translator.score_names
        # Only now: a command that cannot work must not empty the file.
        output = stack.enter_context(line_files.Output(args.output, source=args.src))
        if args.format == "tsv":
            output.write("\t".join([*names, "source_tokens", "target_tokens"]))
        totals = Totals(names)
        scores = translator.score_stream(pairs, samples=args.samples, seed=args.seed)
        for number, score in enumerate(_tracked(scores, args), 1):
            _say_cuts(number, score)
            source, target = pairs.waiting.popleft()
            row = {name: score.values[name] for name in names} | _tokens(score)
            if args.format == "jsonl":
                output.write(_jsonl({"line": number, "source": source, "target": target}, row))
            else:
                output.write("\t".join(map(_cell, row.values())))
            totals.add(row)
            if not pairs.waiting:  # this window is done
                output.flush()
        output.flush()
        if pairs.problem:
            raise UserError(pairs.problem)
    print("\n".join(totals.lines()), file=sys.stderr)
    return 0


def _load(args):
    from aevnmt_tf import translator as translators

    longest = args.src_max_len_infer
    overrides = {} if longest is None else {"src_max_len_infer": longest}
    return translators.load(args.model, checkpoint=args.checkpoint, **overrides)


def _check(args):
    """What can be known before the model is loaded."""
    paths = (args.src, args.tgt)
    if paths == ("-", "-"):
        raise UserError("only one of --src and --tgt can be stdin")
    line_files.refuse_inputs(args.output, paths)
    line_pairs.check_counts(*paths)


def _tracked(scores, args):
    """Scores with a bar on stderr, where that is a terminal and the scores are elsewhere."""
    if args.output == "-" and sys.stdout.isatty():
        return scores
    from aevnmt_tf.text import progress

    total = line_pairs.count(args.src)
    return progress.track(scores, "scoring", total=total) if sys.stderr.isatty() else scores


def _say_cuts(number, score):
    for side, was_cut in (("source", score.source_was_cut), ("target", score.target_was_cut)):
        if was_cut:
            length = getattr(score, f"{side}_tokens") - 1
            sentence = f"line {number}: the {side} is cut to its first {length} subwords"
            print(f"aevnmt score: {sentence}", file=sys.stderr)


def _tokens(score):
    return {name: getattr(score, name) for name in ("source_tokens", "target_tokens")}


def _cell(value):
    return f"{value:.5f}" if isinstance(value, float) else str(value)


def _jsonl(head, row):
    # JSON has no infinity.
    finite = {k: v if math.isfinite(v) else None for k, v in row.items()}
    return json.dumps({**head, **finite}, ensure_ascii=False)


class Totals:
    """Sums over the corpus."""

    def __init__(self, names):
        self._count = 0
        self._sums = dict.fromkeys([*names, "source_tokens", "target_tokens"], 0.0)

    def add(self, row):
        """One more pair."""
        self._count += 1
        for name, value in row.items():
            self._sums[name] += value

    def lines(self):
        """What to print."""
        pairs = "1 pair" if self._count == 1 else f"{self._count} pairs"
        source, target = (f"{self._sums[f'{s}_tokens']:.0f}" for s in ("source", "target"))
        sides = f"{source} source and {target} target subwords"
        yield f"aevnmt score: {pairs}, {sides} (</s> counts)"
        if not self._count:
            return
        yield f"{'':16}{'total':>16}{'a pair':>14}{'perplexity':>14}"
        for name, total in self._sums.items():
            if name.endswith("_tokens"):
                continue
            # A sum of effective sample sizes says nothing.
            shown = "" if name == "ess" else f"{total:.3f}"
            yield (
                f"{name:16}{shown:>16}{total / self._count:14.3f}{self._perplexity(name):>14}"
            ).rstrip()

    def _perplexity(self, name):
        if name not in PER_TOKEN:
            return ""
        tokens = sum(self._sums[side] for side in PER_TOKEN[name])
        try:
            return f"{math.exp(-self._sums[name] / tokens):.3f}"
        except OverflowError:
            return "inf"


def main(argv=None) -> int:
    """`aevnmt score`."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
