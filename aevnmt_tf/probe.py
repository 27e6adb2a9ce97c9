"""Probe z: predict properties of a sentence from its z with a linear model.

    aevnmt probe --model RUN --data news=data/news/dev --data talk=data/ted/dev
    aevnmt probe --model RUN --data gold=dev --data synthetic=dev.translation
    aevnmt probe --model RUN --data dev --labels dev.register --baseline_model COND_RUN
    aevnmt probe --model RUN --data dev --target chrf --quality_of back_translations

A data set is the sentences of PREFIX.SRC with the label NAME, or with the labels of --labels,
one per line. Bayesian logistic regression (softmax for more than two classes) predicts the
labels from z. With --target, Bayesian linear regression predicts a number. Features are
standardised, and weights have Gaussian priors. Hamiltonian Monte Carlo draws from the posterior
of the classifiers; the posterior of the regression has a closed form. Some sentences, the same
for all features, are held out. Copies of a sentence stay on the same side of the split, and so
do a line of PREFIX and the same line of PREFIX.translation.

    accuracy, R^2   mean over posterior draws, on held-out sentences
    95 %            interval over posterior draws
    new sentences   95 % interval for new sentences, which accounts for the held-out sample size
    averaged        accuracy of predictions averaged over draws
    log-lik.        log-likelihood of those predictions, in nats per sentence
    R-hat, ESS      convergence diagnostics, the worst over all weights; R-hat above 1.1 is bad
"""

import argparse
import json
import sys
from collections.abc import Sequence

from aevnmt_tf.cli import command, flags, settings
from aevnmt_tf.probing.probe_request import ProbeRequest


def parser() -> command.Parser:
    """Return the command line."""
    p = command.Parser("probe", __doc__)
    flags.add_run(p)
    p.add_argument(
        "--data",
        action="append",
        required=True,
        metavar="NAME=PREFIX",
        help="data set; give one flag per set",
    )
    p.add_argument(
        "--labels",
        action="append",
        metavar="FILE",
        help="file with one label per line, instead of NAME; give one per --data",
    )
    settings.add_flags(p, ProbeRequest)
    p.add_argument("--json", action="store_true", help="print all results as JSON, unrounded")
    return p


def request(args: argparse.Namespace) -> ProbeRequest:
    """Return the options that the flags give."""
    return ProbeRequest(
        args.model,
        args.data,
        args.checkpoint,
        args.labels,
        **settings.given(args, ProbeRequest),
    )


def run(args: argparse.Namespace) -> int:
    """Probe and return the exit code."""
    wanted = request(args)
    from aevnmt_tf.probing import probe_run

    found = probe_run.run(wanted, report=_say)
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
