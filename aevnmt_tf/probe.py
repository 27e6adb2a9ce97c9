"""Probe z: which properties of a sentence a linear model can read off it.

    aevnmt probe --model RUN --data news=data/news/dev --data talk=data/ted/dev
    aevnmt probe --model RUN --data gold=dev --data synthetic=dev.translation
    aevnmt probe --model RUN --data dev --labels dev.register --baseline_model COND_RUN
    aevnmt probe --model RUN --data dev --target chrf --quality_of back_translations

A set is the sentences of PREFIX.SRC, with the label NAME, or with one label a line of --labels.
Bayesian logistic regression (softmax for more than two classes) learns the labels from z; with
--target, Bayesian linear regression learns a number. Weights of standardised features have
Gaussian priors; HMC draws from the posterior, and R-hat says whether its chains agree. A part
of the sentences, the same for all features, is held out; repeated ones stay together, and so do
a line of PREFIX and the same line of PREFIX.translation.

    accuracy, R^2   mean over posterior draws, on held-out sentences
    95 %            of the posterior draws
    new sentences   95 % for other sentences of the kind: held-out ones are a small sample
    averaged        of predictions that are averaged over draws
    log-lik.        of those, in nats a sentence
    R-hat, ESS      the worst of all weights; R-hat above 1.1 is too much
"""

import dataclasses
import json
import os
import sys
import time

from aevnmt_tf import command, flags
from aevnmt_tf.errors import UserError

# What the JSON repeats of the flags.
SETTINGS = (
    *("model", "checkpoint", "data", "labels", "target", "quality_of", "baseline_model"),
    *("held_out", "max_lines", "prior_scale", "chains", "num_warmup", "num_draws", "seed"),
)

_part = flags.number(float, lambda n: 0 < n < 1, "between 0 and 1")
_draws = flags.number(int, lambda n: n >= 10, "10 or more")
_chains = flags.number(int, lambda n: n >= 2, "2 or more: they are compared")


def parser() -> command.Parser:
    """The command line."""
    p = command.Parser("probe", __doc__)
    flags.add_run(p)
    p.add_argument(
        "--data", action="append", required=True, metavar="NAME=PREFIX", help="a set; repeat it"
    )
    _add_target(p)
    p.add_argument(
        "--features",
        choices=("mean", "sample", "both"),
        default="both",
        help="the mean of q(z|x), a draw from it, or both (default)",
    )
    p.add_argument(
        "--baseline_model", metavar="RUN", help="a cond run: probe its average encoder state"
    )
    p.add_argument("--held_out", type=_part, default=0.2, metavar="P", help="(default: 0.2)")
    p.add_argument(
        "--max_lines",
        type=flags.natural,
        default=2000,
        metavar="N",
        help="of each set, drawn at random; 0: all (default: 2000)",
    )
    _add_sampling(p)
    p.add_argument("--json", action="store_true", help="everything, unrounded, instead")
    p.add_argument("--plot", metavar="FILE", help="a picture: .png, .pdf or .svg")
    p.add_argument("--projector", metavar="DIR", help="z for TensorBoard's projector")
    return p


def _add_target(p):
    p.add_argument(
        "--labels",
        action="append",
        metavar="FILE",
        help="one label a line, in the place of NAME; one file for each --data",
    )
    p.add_argument(
        "--target",
        metavar="WHAT",
        help="a number instead of a label: length (subwords), chrf, meteor, or a file with one "
        "a line",
    )
    p.add_argument(
        "--quality_of",
        choices=("translations", "back_translations"),
        help="chrf, meteor: of the model's translations of PREFIX.SRC against PREFIX.TGT "
        "(default), or of the sentences PREFIX.translation.SRC against PREFIX.SRC",
    )
    p.add_argument(
        "--search", choices=("beam", "greedy"), help="translations: default as the run's"
    )
    p.add_argument("--meteor_jar", metavar="FILE", help="meteor-1.5.jar")
    p.add_argument("--java", metavar="FILE", help="to run it (default: java)")


def _add_sampling(p):
    numbers = (("chains", 4, _chains), ("num_warmup", 500, flags.positive))
    for name, default, kind in (*numbers, ("num_draws", 500, _draws)):
        p.add_argument(
            f"--{name}", type=kind, default=default, metavar="N", help=f"(default: {default})"
        )
    p.add_argument(
        "--prior_scale",
        type=flags.above_zero,
        default=1.0,
        metavar="S",
        help="standard deviation of a weight before data (default: 1)",
    )
    p.add_argument("--seed", type=flags.seed, default=1, metavar="S", help="of what is drawn")


def run(args) -> int:
    """Probe and return the exit code."""
    started = time.monotonic()
    _check(args)
    from aevnmt_tf import translator as translators
    from aevnmt_tf.analysis import chains, features, probe_request, probing

    def given(cls):
        return cls(**{f.name: getattr(args, f.name) for f in dataclasses.fields(cls)})

    request, options = given(probe_request.Request), given(chains.Options)
    translator = translators.load(args.model, checkpoint=args.checkpoint)
    features.check_has_z(translator, args.model)
    baseline = _load_baseline(args, translator) if args.baseline_model else None
    sentences = request.sentences(translator.hp)
    task = request.task(translator, sentences)
    _say_task(sentences, task, features.z_origin(translator))
    results, z = [], None
    for found in request.all_features(translator, baseline, sentences):
        z = z or found  # the first is z
        results.append(_learn(found, task, args, options))
    results.append(probing.without_features(task, seed=args.seed))
    head = {name: getattr(args, name) for name in SETTINGS}
    head |= {"z": features.z_origin(translator), "seconds": time.monotonic() - started}
    _write(args, z, sentences, task, results, head)
    return 0


def _check(args):
    """What can be known before anything is loaded."""
    for flag, path in (("plot", args.plot), ("projector", args.projector)):
        folder = os.path.dirname(os.path.abspath(path)) if path else "."
        if not os.path.isdir(folder):
            raise UserError(f"there is no folder {folder} for --{flag}")
    if args.plot and not args.plot.endswith((".png", ".pdf", ".svg")):
        raise UserError(f"{args.plot} is no picture: --plot ends in .png, .pdf or .svg")
    if args.projector and os.path.isfile(args.projector):
        raise UserError(f"{args.projector} is no folder: give another --projector")


def _load_baseline(args, translator):
    from aevnmt_tf import translator as translators

    baseline = translators.load(args.baseline_model, checkpoint=args.checkpoint)
    if baseline.hp.src != translator.hp.src:
        raise UserError(
            f"{args.baseline_model} reads {baseline.hp.src} and {args.model} reads "
            f"{translator.hp.src}: a baseline reads the same sentences"
        )
    return baseline


def _learn(found, task, args, options):
    from aevnmt_tf.analysis import probing
    from aevnmt_tf.text import progress

    result = probing.learn(
        found,
        task,
        options=options,
        prior_scale=args.prior_scale,
        track=lambda items: progress.track(items, f"sampling, {found.name}"),
    )
    seconds = f"{result.posterior.draws.seconds:.1f} s"
    r_hat = f"R-hat {result.posterior.diagnostics.r_hat:.3f}"
    _say(f"{found.name}, {result.dimensions} dimensions: {r_hat}, {seconds}")
    for warning in result.warnings:
        _say(f"warning: {warning}")
    return result


def _say(sentence):
    print(f"aevnmt probe: {sentence}", file=sys.stderr)


def _say_task(sentences, task, origin):
    from aevnmt_tf.analysis import probing

    learned, tested = len(task.train), len(task.test)
    words = f"{len(sentences)} sentences, {learned} to learn from and {tested} held out"
    if task.classes is not None:
        parts = (f"{name} {sum(n.values())}" for name, n in probing.counts(task).items())
        words += f" ({', '.join(parts)})"
    if sentences.left_out:
        words += f"; empty lines left out: {sentences.left_out}"
    _say(words)
    _say(f"z is from {origin}")


def _write(args, z, sentences, task, results, head):
    from aevnmt_tf.analysis import probe_files, probe_plots, probe_table

    if args.plot:
        probe_plots.draw(results, task, args.plot)
    if args.projector:
        probe_files.write_projector(args.projector, z, sentences, task)
    if args.json:
        found = {**head, **probe_files.to_dict(results, task, sentences=sentences)}
        print(json.dumps(found, ensure_ascii=False, allow_nan=False, indent=2))
    elif sys.stdout.isatty():
        from rich.console import Console

        Console().print(probe_table.rich_table(results, task))
    else:
        print("\n".join(probe_table.plain(results, task)))


def main(argv=None) -> int:
    """`aevnmt probe`."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
