"""Flags that several commands share, and types of their values."""

import argparse
from collections.abc import Callable

LARGEST = 2**31 - 1  # the largest 32-bit integer


def at_least(least: int) -> Callable[[str], int]:
    """Return an argparse type: an int from `least` to LARGEST."""

    def parse(word: str) -> int:
        value = int(word)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be {least} or more, not {word}")
        if value > LARGEST:
            raise argparse.ArgumentTypeError(f"must be {LARGEST} or less, not {word}")
        return value

    parse.__name__ = "int"
    return parse


positive = at_least(1)
seed = at_least(0)


def line_numbers(word: str) -> frozenset[int]:
    """Return the numbers of a list such as 0,3,7: an argparse type."""
    return frozenset(at_least(0)(number) for number in word.split(","))


line_numbers.__name__ = "list of line numbers"


OR_EXPORT = ", or the folder of an exported SavedModel"


def add_run(p: argparse.ArgumentParser, *, or_export: bool = False) -> None:
    """Add --model and --checkpoint, for commands that load one run."""
    text = "out_dir of a training run" + (OR_EXPORT if or_export else "")
    p.add_argument("--model", required=True, metavar="RUN", help=text)
    add_checkpoint(p)


def add_runs(p: argparse.ArgumentParser, *, or_export: bool = False) -> None:
    """Add --model and --checkpoint, for commands that load one run or an ensemble."""
    text = "out_dir of a training run; several runs with the same vocabularies form an ensemble"
    p.add_argument(
        "--model",
        required=True,
        action="extend",
        nargs="+",
        metavar="RUN",
        help=text + (OR_EXPORT if or_export else ""),
    )
    add_checkpoint(p)


def add_checkpoint(p: argparse.ArgumentParser) -> None:
    """Add --checkpoint."""
    p.add_argument(
        "--checkpoint",
        choices=("best", "last", "average"),
        help="weights to load (default: best or average, whichever has the higher dev BLEU; "
        "last for a language model, and if neither exists)",
    )


def add_errors(p: argparse.ArgumentParser) -> None:
    """Add --errors."""
    p.add_argument(
        "--errors",
        choices=("strict", "replace"),
        default="strict",
        help="what to do about invalid UTF-8: stop with an error (strict, the default), or "
        "replace it",
    )


def add_lengths(p: argparse._ActionsContainer) -> None:
    """Add --src_max_len_infer and --tgt_max_len_infer."""
    for name, text in (
        ("src_max_len_infer", "truncate sources to this many subwords"),
        ("tgt_max_len_infer", "maximum number of subwords in a translation"),
    ):
        p.add_argument(f"--{name}", type=positive, metavar="N", help=text)


def add_parts(p: argparse.ArgumentParser) -> None:
    """Add --shard, --engine, --num_workers and --ray_address."""
    group = p.add_argument_group("large corpora")
    group.add_argument(
        "--shard",
        type=shard,
        metavar="I/N",
        help="process only part I of N of the lines; --output is written once it is complete",
    )
    group.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="ray: distribute the work over processes or machines (default: local)",
    )
    group.add_argument(
        "--num_workers", type=positive, metavar="N", help="number of processes of --engine ray"
    )
    group.add_argument(
        "--ray_address",
        metavar="HOST:PORT",
        help="address of the Ray cluster (default: this machine)",
    )


def shard(word: str) -> tuple[int, int]:
    """Return I and N of a word such as 3/8: an argparse type."""
    number, _, count = word.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"must be I/N with I from 1 to N, not {word}")
    return int(number), int(count)
