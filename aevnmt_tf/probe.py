"""Probe z: which properties of a sentence a linear model can read off it.

    aevnmt probe --model RUN --data news=data/news/dev --data talk=data/ted/dev
    aevnmt probe --model RUN --data gold=dev --data synthetic=dev.translation
    aevnmt probe --model RUN --data dev --labels dev.register --baseline_model COND_RUN
    aevnmt probe --model RUN --data dev --target chrf --quality_of back_translations

A set is the sentences of PREFIX.SRC, with the label NAME, or with one label per line of
--labels. Bayesian logistic regression (softmax for more than two classes) learns the labels
from z; with --target, Bayesian linear regression learns a number. Weights of standardised
features have Gaussian priors. HMC draws from the posterior, and R-hat says whether its chains
agree. A part of the sentences, the same for all features, is held out. Repeated sentences stay
together, and so do a line of PREFIX and the same line of PREFIX.translation.

    accuracy, R^2   mean over posterior draws, on held-out sentences
    95 %            of the posterior draws
    new sentences   95 % for other sentences of the kind: held-out ones are a small sample
    averaged        of predictions that are averaged over draws
    log-lik.        of those, in nats per sentence
    R-hat, ESS      the worst of all weights; R-hat above 1.1 is too much
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence

from aevnmt_tf.cli import command, flags
from aevnmt_tf.probing.probe_request import FEATURES, QUALITY_OF, ProbeRequest

_share = flags.number(float, lambda n: 0 < n < 1, "between 0 and 1")
_draws = flags.number(int, lambda n: n >= 10, "10 or more")
_chains = flags.number(int, lambda n: n >= 2, "2 or more: they are compared")


def parser() -> command.Parser:
    """Return the command line."""
    p = command.Parser("probe", __doc__)
    flags.add_run(p)
    p.add_argument(
        "--data", action="append", required=True, metavar="NAME=PREFIX", help="a set; repeat it"
    )
    p.add_argument(
        "--labels",
        action="append",
        metavar="FILE",
        help="one label per line, in the place of NAME; one file for each --data",
    )
    p.add_argument(
        "--target",
        metavar="WHAT",
        help="a number instead of a label: length (subwords), chrf, meteor, or a file with one "
        "per line",
    )
    p.add_argument(
        "--quality_of",
        choices=QUALITY_OF,
        help="chrf, meteor: of the model's translations of PREFIX.SRC against PREFIX.TGT "
        "(default), or of the sentences PREFIX.translation.SRC against PREFIX.SRC",
    )
    p.add_argument(
        "--search", choices=("beam", "greedy"), help="translations: default as the run's"
    )
    p.add_argument("--meteor_jar", metavar="FILE", help="meteor-1.5.jar")
    p.add_argument("--java", metavar="FILE", help="to run it (default: java)")
    p.add_argument(
        "--features",
        choices=FEATURES,
        default=ProbeRequest.features,
        help="the mean of q(z|x), a draw from it, or both (default: %(default)s)",
    )
    p.add_argument(
        "--baseline_model", metavar="RUN", help="a cond run: probe its average encoder state"
    )
    for name, kind, metavar, words in (
        ("held_out", _share, "P", "share of the sentences to test on"),
        ("max_lines", flags.natural, "N", "of each set, drawn at random; 0: all"),
        ("chains", _chains, "N", "of HMC, side by side"),
        ("num_warmup", flags.positive, "N", "steps before draws are kept"),
        ("num_draws", _draws, "N", "draws that each chain keeps"),
        ("prior_scale", flags.above_zero, "S", "standard deviation of a weight before data"),
        ("seed", flags.seed, "S", "of what is drawn"),
    ):
        p.add_argument(
            f"--{name}",
            type=kind,
            default=getattr(ProbeRequest, name),
            metavar=metavar,
            help=f"{words} (default: %(default)s)",
        )
    p.add_argument("--json", action="store_true", help="everything, unrounded, instead")
    p.add_argument("--plot", metavar="FILE", help="a picture: .png, .pdf or .svg")
    p.add_argument("--projector", metavar="DIR", help="z for TensorBoard's projector")
    return p


def run(args: argparse.Namespace) -> int:
    """Probe and return the exit code."""
    fields = dataclasses.fields(ProbeRequest)
    request = ProbeRequest(**{field.name: getattr(args, field.name) for field in fields})
    from aevnmt_tf.probing import probe_run

    found = probe_run.run(request, report=_say)
    if args.json:
        print(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False, indent=2))
    else:
        found.show()
    return 0


def _say(sentence: str) -> None:
    print(f"aevnmt probe: {sentence}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """`aevnmt probe`."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
