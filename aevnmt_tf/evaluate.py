"""Score translations of test sets: BLEU, chrF, TER, METEOR and BEER; and look at z.

    aevnmt evaluate --model RUN --src test.en --ref test.de --json
    aevnmt evaluate --hyp translation.txt --ref test.de
    aevnmt evaluate --model RUN --test news=data/news --test talks=data/talks --output DIR
    aevnmt evaluate --model a=RUN1 --model b=RUN2 --test data/test --significance bootstrap
    aevnmt evaluate --hyp a=a.txt --hyp b=b.txt --ref test.de --significance ar
    aevnmt evaluate --model RUN --latent --plot z.png

Without files, a run is evaluated on its own test set, or on its dev set where it has none.
Several sets are scored one by one and together ("all"). The scores are those of the sacrebleu
command. With --significance systems are compared with the first one given.

--latent says whether the model uses z: KL, active units, mutual information, the
importance-weighted bound against the ELBO, and BLEU with the mean z, a draw, zero and the z of
another sentence.
"""

import argparse
import json
import os
import sys

from aevnmt_tf import command, flags, hparams, machine
from aevnmt_tf.data import line_files
from aevnmt_tf.errors import UserError

RULES = (
    "search z num_z top_k top_p num_samples utility refine_steps refine_start "
    "src_max_len_infer tgt_max_len_infer"
).split()


class _Named(argparse.Action):
    """[NAME=]PATH, in the order given; whether it is a model or a file is kept, too."""

    def __call__(self, parser, namespace, value, option_string=None):
        name, _, path = value.partition("=")
        if not path or "/" in name:  # no name, or a path with a = in it
            name, path = None, value
        found = [*(getattr(namespace, self.dest) or []), (option_string, name, path)]
        setattr(namespace, self.dest, found)


def parser() -> command.Parser:
    """The command line."""
    p = command.Parser("evaluate", __doc__)
    named = {"action": _Named, "dest": "systems"}
    p.add_argument(
        "--model",
        metavar="[NAME=]RUN",
        help="out_dir of a training run; RUN1,RUN2: an ensemble; again for another system",
        **named,
    )
    p.add_argument(
        "--hyp",
        metavar="[NAME=]FILE",
        help="translations; with several sets a folder with SET.txt for each, as --output has "
        "it; again for another system",
        **named,
    )
    p.add_argument("--src", metavar="FILE", help="sources, plain or .gz")
    p.add_argument("--ref", metavar="FILE", help="references, plain or .gz")
    p.add_argument(
        "--test",
        action=_Named,
        dest="sets",
        metavar="[NAME=]PREFIX",
        help="a test set PREFIX.SRC, PREFIX.TGT; again for more sets",
    )
    p.add_argument("--metrics", metavar="LIST", help="default: bleu,chrf,ter")
    p.add_argument("--json", action="store_true", help="print unrounded results as JSON")
    p.add_argument(
        "--output",
        metavar="PATH",
        help="keep translations: of one model and set in a file, else in SYSTEM/SET.txt",
    )
    p.add_argument("--sentences", metavar="FILE", help="scores of each sentence, as TSV")
    flags.add_checkpoint(p)
    flags.add_errors(p)
    p.add_argument("--seed", type=flags.seed, default=1, help="of whatever is drawn")
    flags.add_lengths(p)
    flags.add_rules(p)
    _add_significance(p)
    _add_programs(p)
    _add_latent(p)
    hparams.add_flags(p, ["decoding"], file=False)
    return p


def _add_significance(p):
    group = p.add_argument_group("several systems")
    group.add_argument(
        "--significance",
        choices=("bootstrap", "ar"),
        help="sacreBLEU's paired bootstrap or approximate randomisation",
    )
    group.add_argument(
        "--resamples",
        type=flags.positive,
        metavar="N",
        help="of --significance (default: 1000 for bootstrap, 10000 for ar)",
    )


def _add_programs(p):
    group = p.add_argument_group("METEOR and BEER, on text tokenised by 13a")
    group.add_argument("--meteor_jar", metavar="PATH", help="meteor-1.5.jar")
    group.add_argument("--beer", metavar="PATH", help="beer_2.0, or the program beer in it")
    group.add_argument("--java", default="java", metavar="PATH", help="default: java")
    group.add_argument(
        "--language",
        metavar="LANG",
        help="target language, for METEOR and for --test without a model (default: the run's)",
    )


def _add_latent(p):
    group = p.add_argument_group("the latent variable")
    group.add_argument("--latent", action="store_true", help="is z in use?")
    group.add_argument(
        "--samples",
        type=flags.positive,
        metavar="S",
        help="with --latent: draws (default: 10)",
    )
    group.add_argument("--plot", metavar="FILE.png", help="with --latent: a picture of it")


def run(args) -> int:
    """Evaluate and return the exit code."""
    from aevnmt_tf.analysis import evaluation_request

    _check(args)
    machine.many_sentences()
    request = evaluation_request.Request(
        systems=[(kind == "--model", *rest) for kind, *rest in args.systems],
        sets=[(name, path) for _, name, path in args.sets or []],
        src=args.src,
        ref=args.ref,
        metrics=_metrics(args),
        checkpoint=args.checkpoint,
        decoding=_decoding(args),
        seed=args.seed,
        errors=args.errors,
        output=args.output,
        reports=[path for path in (args.sentences, args.plot) if path],
        programs={
            "meteor_jar": args.meteor_jar,
            "beer": args.beer,
            "java": args.java,
            "language": args.language,
        },
        significance=args.significance,
        resamples=args.resamples,
        latent=args.latent,
        samples=args.samples or 10,
    )
    outcome = evaluation_request.run(request, report=_say)
    if args.sentences:
        outcome.write_sentences(args.sentences)
    if args.plot:
        outcome.write_plot(args.plot)
    if args.json:
        print(json.dumps(outcome.result, indent=2, ensure_ascii=False))
    else:
        outcome.show()
    return 0


def _check(args):
    """What can be known before anything is read."""
    if not args.systems:
        raise UserError("give --model RUN or --hyp FILE (see --help)")
    if args.sets and (args.src or args.ref):
        raise UserError("give either --test or --src and --ref, not both")
    has_model = any(kind == "--model" for kind, *_ in args.systems)
    if args.src and not args.ref:
        raise UserError("--src has no --ref: give the references")
    if args.ref and has_model and not args.src:
        raise UserError("--ref has no --src: give the sources that the model translates")
    if not has_model and not (args.ref or args.sets):
        raise UserError("--hyp needs --ref FILE or --test PREFIX")
    if not has_model and args.sets and not args.language:
        raise UserError("--test without a model needs --language, the ending of its references")
    if args.significance and len(args.systems) < 2:
        raise UserError("--significance compares systems: give two or more --model or --hyp")
    if args.latent and (len(args.systems) > 1 or not has_model):
        raise UserError("--latent looks at one --model alone")
    if args.plot and not args.latent:
        raise UserError("--plot draws what --latent finds: give both")
    if args.plot and not args.plot.endswith(".png"):
        raise UserError(f"{args.plot} is no picture: --plot ends in .png")
    _refuse_idle(args, has_model=has_model)
    for path in (args.sentences, args.plot):
        folder = os.path.dirname(os.path.abspath(path or "."))
        if not os.path.isdir(folder):
            raise UserError(f"cannot write {path}: there is no folder {folder}")
    inputs = [args.src, args.ref, *(path for _, _, path in args.systems)]
    for path in (args.output, args.sentences, args.plot):
        line_files.refuse_inputs(path, inputs)


def _refuse_idle(args, *, has_model):
    """Raise a UserError about a flag that would change nothing."""
    decoding = _decoding(args)
    if "num_translations_per_input" in decoding:
        raise UserError(
            "evaluate scores one translation of each line: leave --num_translations_per_input "
            "out"
        )
    given = [name for name in ("checkpoint", "output") if getattr(args, name) is not None]
    if (names := [*decoding, *given]) and not has_model:
        raise UserError(f"--{names[0]} is for --model: --hyp is translated already")
    if args.samples is not None and not args.latent:
        raise UserError("--samples is how often --latent draws z: give both")
    if args.resamples is not None and not args.significance:
        raise UserError("--resamples is for --significance: give both")


def _metrics(args):
    words = "bleu,chrf,ter" if args.metrics is None else args.metrics
    names = [word.strip().lower() for word in words.split(",")]
    # A path that is given says that its metric is wanted.
    names += ["meteor"] if args.meteor_jar else []
    names += ["beer"] if args.beer else []
    wanted = list(dict.fromkeys(name for name in names if name))
    if not wanted:
        raise UserError("--metrics names no metric: give some of bleu, chrf and ter")
    return wanted


def _decoding(args):
    given = {name: getattr(args, name) for name in RULES}
    changes = {name: value for name, value in given.items() if value is not None}
    return {**hparams.overrides(args), **changes}


def _say(sentence):
    print(f"aevnmt evaluate: {sentence}", file=sys.stderr, flush=True)


def main(argv=None) -> int:
    """`aevnmt evaluate`."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
