"""Download a public German-English corpus and split it as the paper does.

    aevnmt data multi30k --out data/multi30k
    aevnmt data iwslt14 --out data/iwslt14
    aevnmt data nc --out data/news-commentary

multi30k  image captions: train, val and test_2016_flickr of task 1
iwslt14   TED talks with the splits of Ranzato et al. (2016): every 23rd pair that Moses'
          cleaning keeps (1 to 50 tokens, length ratio at most 1.5) is in the dev set
nc        News Commentary v12; newstest2014 and 2015 as dev set, newstest2016 as test set

Writes raw text to DIR/{train,dev,test}.{de,en}. Keeps the published files in DIR/downloads,
verifies their checksums and resumes interrupted downloads.
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence

from aevnmt_tf.cli import command
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data import published_corpora as published


def parser() -> command.Parser:
    """Return the parser of the command."""
    p = command.Parser("data", __doc__, usage="aevnmt data NAME --out DIR [--NAME VALUE ...]")
    names = [*published.CORPORA, *published.ALIASES]
    p.add_argument("name", metavar="NAME", choices=names, help=", ".join(names))
    p.add_argument(
        "--out", metavar="DIR", type=pathlib.Path, required=True, help="folder for the text"
    )
    p.add_argument(
        "--from",
        metavar="DIR",
        dest="source",
        type=pathlib.Path,
        help="read the published files from this folder instead of downloading them",
    )
    p.add_argument("--mirror", metavar="URL", help="download the files from this folder")
    p.add_argument(
        "--splits",
        nargs="+",
        choices=published.SPLITS,
        default=published.SPLITS,
        help="splits to write (default: all three)",
    )
    p.add_argument(
        "--unchecked", action="store_true", help="accept files whose checksum differs"
    )
    return p


def run(args: argparse.Namespace) -> int:
    """Write the splits and return the exit code."""
    try:
        published.make(
            args.name,
            args.out,
            source=args.source,
            mirror=args.mirror,
            splits=args.splits,
            checked=not args.unchecked,
        )
    except OSError as error:
        place = error.filename or args.out
        raise UserError(f"cannot write {place}: {error.strerror or error}.") from None
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
