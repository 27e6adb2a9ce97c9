"""Score translations with BLEU, chrF, TER and other metrics, and check whether z is in use.

    aevnmt evaluate --model RUN --src test.en --ref test.de --json
    aevnmt evaluate --hyp translation.txt --ref test.de
    aevnmt evaluate --model RUN --test news=data/news --test talks=data/talks --output DIR
    aevnmt evaluate --model a=RUN1 --model b=RUN2 --test data/test --significance bootstrap
    aevnmt evaluate --hyp a=a.txt --hyp b=b.txt --ref test.de --significance ar
    aevnmt evaluate --model RUN --metrics bleu,multi_bleu,ter_13a --tokenize intl
    aevnmt evaluate --model RUN --latent --plot z.png

Without --test, --src and --ref, a run is evaluated on its own test set, or on its dev set if it
has none. Several test sets are scored separately and together ("all"). BPE (@@) is undone in
references and translations. --significance compares every system with the first one.

Metrics:
    bleu, chrf, ter                 as computed by the sacrebleu command
    ter_13a                         TER on 13a-tokenised text, as in the AEVNMT paper
    multi_bleu                      multi-bleu.perl on Moses-tokenised, lower-cased text, as in
                                    papers on Multi30k
    rouge, accuracy, word_accuracy  as in TF-NMT
    meteor, beer                    computed by the authors' programs on 13a-tokenised text

--latent reports whether the model uses z: the KL, active units, mutual information, the ELBO
and the importance-weighted bound, and BLEU with the mean of z, a sample, zero, and the z of
another sentence.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial

from aevnmt_tf import hparams
from aevnmt_tf.cli import command, flags, machine, settings
from aevnmt_tf.evaluation import evaluation_report, evaluation_run, metrics
from aevnmt_tf.evaluation.evaluation_request import EvaluationRequest
from aevnmt_tf.evaluation.external_metrics import Programs
from aevnmt_tf.translator import rules

LENGTHS = ("src_max_len_infer", "tgt_max_len_infer")


def _named(text: str) -> tuple[str | None, str]:
    """Split [NAME=]PATH; the path may contain a "=", too."""
    name, _, path = text.partition("=")
    return (name, path) if path and "/" not in name else (None, text)


def parser() -> command.Parser:
    """Return the command line."""
    p = command.Parser("evaluate", __doc__)
    add = partial(p.add_argument, action="append", default=[])
    add(
        "--model",
        dest="systems",
        type=lambda text: (True, *_named(text)),
        metavar="[NAME=]RUN",
        help="out_dir of a training run, or RUN1,RUN2 for an ensemble (repeatable)",
    )
    add(
        "--hyp",
        dest="systems",
        type=lambda text: (False, *_named(text)),
        metavar="[NAME=]FILE",
        help="translations to score; for several test sets, a folder with one SET.txt per set, "
        "as --output writes it (repeatable)",
    )
    add(
        "--test",
        dest="sets",
        type=_named,
        metavar="[NAME=]PREFIX",
        help="test set in the files PREFIX.SRC and PREFIX.TGT (repeatable)",
    )
    settings.add_flags(p, EvaluationRequest)
    p.add_argument("--json", action="store_true", help="print the results as JSON, unrounded")
    flags.add_checkpoint(p)
    flags.add_errors(p)
    settings.add_flags(p, Programs)
    group = p.add_argument_group("options of sacreBLEU")
    for option in metrics.OPTIONS:
        settings.add_flag(group, option)
    group = p.add_argument_group("how models translate")
    rules.add_flags(group)
    flags.add_lengths(group)
    hparams.add_flags(p, ["decoding"], file=False)
    return p


def request(args: argparse.Namespace) -> EvaluationRequest:
    """Return the request that the flags describe."""
    lengths = {name: getattr(args, name) for name in LENGTHS}
    names = [option.name for option in metrics.OPTIONS]
    return EvaluationRequest(
        args.systems,
        args.sets,
        args.checkpoint,
        args.errors,
        decoding={
            **hparams.overrides(args),
            **rules.given(args, rules.FLAGS),
            **{name: value for name, value in lengths.items() if value is not None},
        },
        programs=Programs(**settings.given(args, Programs)),
        options={name: getattr(args, name) for name in names if hasattr(args, name)},
        **settings.given(args, EvaluationRequest),
    )


def run(args: argparse.Namespace) -> int:
    """Evaluate and return the exit code."""
    machine.tune_for_throughput()
    result = evaluation_run.run(request(args), report=_say)
    if args.json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        evaluation_report.show(result)
    return 0


def _say(message: str) -> None:
    print(f"aevnmt evaluate: {message}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `aevnmt evaluate`."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
