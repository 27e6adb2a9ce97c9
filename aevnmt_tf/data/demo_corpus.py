"""The demo corpus: English-German pairs for a first training run, shipped as text.

A grammar (tools/demo_corpus) generated the pairs in demo/: first the dev set, then the test
set, then training pairs. No sentence of either language occurs twice.
"""

from __future__ import annotations

import bz2
from pathlib import Path

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import atomic_writes

FOLDER = Path(__file__).parent / "demo"
REGISTER = "register"  # the file with the register of each pair
REGISTERS = {"0": "news", "1": "talk"}
ENDINGS = ("en", "de", REGISTER)
HELD_OUT = 1000  # pairs for dev, and as many for test
MOST_PAIRS = 20_000  # for training


def write_demo(folder: str | Path, *, num_pairs: int = MOST_PAIRS) -> dict[str, str]:
    """Write the corpus into a folder; files with the right content are left alone.

    Args:
        folder: The folder for train, dev and test, each with .en, .de and .register.
        num_pairs: The number of training pairs. It does not change dev and test.

    Returns:
        The three prefixes by name: {"train": ".../train", "dev": ..., "test": ...}.
    """
    if num_pairs > MOST_PAIRS:
        raise UserError(
            f"demo_pairs is {num_pairs:,}, but the demo corpus has {MOST_PAIRS:,} training "
            "pairs: choose a smaller number, or set train_prefix to use your own text."
        )
    ends = {"dev": HELD_OUT, "test": 2 * HELD_OUT, "train": 2 * HELD_OUT + num_pairs}
    for ending in ENDINGS:
        with bz2.open(FOLDER / f"pairs.{ending}.bz2") as packed:
            lines = packed.readlines()
        start = 0
        for name, end in ends.items():
            path, content = Path(folder) / f"{name}.{ending}", b"".join(lines[start:end])
            if not path.is_file() or path.read_bytes() != content:
                atomic_writes.write(path, content)
            start = end
    return {name: str(Path(folder) / name) for name in ends}
