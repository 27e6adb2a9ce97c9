"""Clean raw parallel text and learn its subword models and vocabularies.

    aevnmt prepare --hparams FILE --out FOLDER [--NAME VALUE ...]

Reads train_prefix, dev_prefix, test_prefix and synthetic_prefix (PREFIX.LANG, plain or .gz).
Training pairs with an empty side or more than 50 words are dropped and counted; dev and test
sets are kept whole. FOLDER/hparams.json holds the settings to train with. Without --hparams
they are chosen from the number of sentence pairs.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from aevnmt_tf import hparams
from aevnmt_tf.cli import command, next_commands
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.hparams import own_text


def parser() -> command.Parser:
    """Return the parser of the command."""
    flags = command.Parser("prepare", __doc__)
    flags.add_argument("--out", metavar="FOLDER", help="folder for the prepared text")
    for side, words in {"src": "source", "tgt": "target"}.items():
        flags.add_argument(
            f"--mono_{side}",
            metavar="FILE",
            action="append",
            default=[],
            help=f"additional {words} text to learn subword models from; repeatable",
        )
    hparams.add_flags(flags, groups=("data", "text", "model"))
    return flags


def run(args: argparse.Namespace) -> int:
    """Prepare the text, print a summary and the next command."""
    if args.out is None:
        raise UserError("--out is missing: choose a folder for the prepared text.")
    from aevnmt_tf.data.corpora import count_pairs
    from aevnmt_tf.data.corpus_preparation import HPARAMS, prepare
    from aevnmt_tf.data.pair_counts import counts_table

    hp = own_text.from_args(args, count_pairs=count_pairs)
    mono = {hp.src: args.mono_src, hp.tgt: args.mono_tgt}
    mono = {lang: files for lang, files in mono.items() if files}
    manifest = prepare(hp, args.out, mono=mono)
    corpora = manifest["corpora"].items()
    print(counts_table({name: corpus["counts"] for name, corpus in corpora}))
    sizes = [f"{lang} {size:,}" for lang, size in manifest["vocab_sizes"].items()]
    print(f"\nvocabulary: {', '.join(sizes)}")
    run_flag = () if hp.out_dir else ("--out_dir", "RUN")
    settings = str(Path(args.out) / HPARAMS)
    print(f"next: {next_commands.verb('train', '--hparams', settings, *run_flag)}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
