"""Sample sentence pairs: z from the prior, a source from P(x|z), a target from P(y|x, z).

    aevnmt sample --model RUN --num 20 --seed 3
    aevnmt sample --model RUN --interpolate "A dog runs." "Two men sit on a bench." --steps 7

Prints a source, a tab and a target per line. The same seed gives the same pairs. --interpolate
moves in equal steps from the mean z of one sentence to that of another, and decodes a sentence
pair greedily at each step.
"""

import argparse
import json
import sys

from aevnmt_tf.cli import command, flags
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import line_streams
from aevnmt_tf.translator import rules

FLUSHED = 64  # pairs between flushes, so that a reader does not wait for long


def parser() -> command.Parser:
    """Return the command line."""
    p = command.Parser("sample", __doc__)
    flags.add_run(p)
    p.add_argument("--num", type=flags.positive, metavar="N", help="number of sentence pairs")
    p.add_argument("--seed", type=flags.seed, metavar="S", help="random seed (default: 1)")
    rules.add_flags(p, rules.DRAWING, owner="")
    p.add_argument(
        "--interpolate",
        nargs=2,
        metavar=("A", "B"),
        help="interpolate between two sentences instead of sampling",
    )
    p.add_argument(
        "--steps",
        type=flags.at_least(2),
        metavar="N",
        help="number of steps of --interpolate (default: 5)",
    )
    p.add_argument(
        "--output", default="-", metavar="FILE", help="plain or .gz (default: stdout)"
    )
    p.add_argument("--format", choices=("text", "jsonl"), default="text")
    return p


def run(args: argparse.Namespace) -> int:
    """Sample and return the exit code."""
    _check(args)
    from aevnmt_tf import translator as translators

    translator = translators.load(args.model, checkpoint=args.checkpoint)
    if args.interpolate is None:
        seed = 1 if args.seed is None else args.seed
        drawing = rules.given(args, rules.DRAWING)
        if warning := rules.Decoding(search="sample", **drawing).warning(translator.hp):
            print(f"aevnmt sample: {warning}", file=sys.stderr)
        pairs = translator.sampler.stream(args.num, seed=seed, **drawing)
    else:
        pairs = iter(translator.interpolate(*args.interpolate, steps=args.steps or 5))
    names = ("source", "target") if translator.model.decoder is not None else ("source",)
    # Only now, so that a command that fails does not empty the file.
    with line_streams.Output(args.output, source="-") as output:
        for number, pair in enumerate(pairs, 1):
            sides = dict(zip(names, pair, strict=False))  # a vae has no target
            output.write(_jsonl(number, sides) if args.format == "jsonl" else _text(sides))
            if number % FLUSHED == 0:
                output.flush()
        output.flush()
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raise a UserError for flags that exclude each other."""
    if (args.num is None) == (args.interpolate is None):
        raise UserError("give either --num N or --interpolate A B.")
    if args.interpolate is None:
        if args.steps is not None:
            raise UserError("--steps needs --interpolate.")
        return
    drawn = ([] if args.seed is None else ["seed"]) + list(rules.given(args, rules.DRAWING))
    if drawn:
        raise UserError(f"--{drawn[0]} has no effect with --interpolate: leave it out.")


def _text(sides: dict[str, str]) -> str:
    return "\t".join(side.translate(line_streams.LINE_BREAKS) for side in sides.values())


def _jsonl(number: int, sides: dict[str, str]) -> str:
    return json.dumps({"line": number, **sides}, ensure_ascii=False)


def main(argv: list[str] | None = None) -> int:
    """Run `aevnmt sample`."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
