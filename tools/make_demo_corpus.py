#!/usr/bin/env python
"""Writes the demo corpus that the package ships: tools/make_demo_corpus.py [FOLDER].

The grammar is in demo_corpus/. Whoever changes it runs this and commits the text.
"""

import bz2
import sys
from pathlib import Path

from demo_corpus.generation import generate

from aevnmt_tf.data import demo_corpus as shipped

SEED = 1


def contents() -> dict[str, bytes]:
    """Return the text of every file by its ending: one line for each pair."""
    pairs = generate(seed=SEED, num_pairs=shipped.MOST_PAIRS + 2 * shipped.HELD_OUT)
    columns = zip(*pairs, strict=True)
    return {
        ending: "".join(f"{line}\n" for line in column).encode()
        for ending, column in zip(shipped.ENDINGS, columns, strict=True)
    }


def main(folder: Path = shipped.FOLDER) -> None:
    """Write the files, packed, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for ending, text in contents().items():
        (folder / f"pairs.{ending}.bz2").write_bytes(bz2.compress(text))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
