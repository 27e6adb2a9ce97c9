"""Flags that several verbs share: kinds of numbers, and which run."""

import argparse
from collections.abc import Callable

LARGEST = 2**31 - 1  # what TensorFlow's 32-bit integers hold


def at_least(least: int) -> Callable[[str], int]:
    """Return a type for argparse: an int from `least` to LARGEST."""

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
    """Return the numbers of a list such as 0,3,7: a type for argparse."""
    return frozenset(at_least(0)(number) for number in word.split(","))


line_numbers.__name__ = "list of line numbers"


def add_run(p: argparse.ArgumentParser) -> None:
    """--model and --checkpoint: the one run that a command loads."""
    p.add_argument("--model", required=True, metavar="RUN", help="out_dir of a training run")
    add_checkpoint(p)


def add_runs(p: argparse.ArgumentParser) -> None:
    """--model and --checkpoint: one run, or several as an ensemble."""
    p.add_argument(
        "--model",
        required=True,
        action="extend",
        nargs="+",
        metavar="RUN",
        help="out_dir of a training run; several with the same vocabularies form an ensemble",
    )
    add_checkpoint(p)


def add_checkpoint(p: argparse.ArgumentParser) -> None:
    """--checkpoint: which weights of a run."""
    p.add_argument(
        "--checkpoint",
        choices=("best", "last", "average"),
        help="weights to load (default: best or average, whichever has the higher dev BLEU; "
        "last for a language model)",
    )


def add_errors(p: argparse.ArgumentParser) -> None:
    """--errors: what to do about invalid UTF-8."""
    p.add_argument(
        "--errors",
        choices=("strict", "replace"),
        default="strict",
        help="invalid UTF-8: stop with an error, or replace it",
    )


def add_lengths(p: argparse.ArgumentParser) -> None:
    """--src_max_len_infer and --tgt_max_len_infer."""
    p.add_argument(
        "--src_max_len_infer", type=positive, metavar="N", help="truncate longer lines"
    )
    p.add_argument(
        "--tgt_max_len_infer", type=positive, metavar="N", help="maximum output length"
    )


def add_parts(p: argparse.ArgumentParser) -> None:
    """--shard, --engine, --num_workers and --ray_address."""
    group = p.add_argument_group("large corpora")
    group.add_argument(
        "--shard",
        type=shard,
        metavar="I/N",
        help="do part I of N of the lines; --output gets this part, whole or not at all",
    )
    group.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="ray: on several processes or machines (default: local)",
    )
    group.add_argument(
        "--num_workers", type=positive, metavar="N", help="processes of --engine ray"
    )
    group.add_argument(
        "--ray_address", metavar="HOST:PORT", help="of a Ray cluster (default: this machine)"
    )


def shard(word: str) -> tuple[int, int]:
    """Return I and N of a word such as 3/8; a type for argparse."""
    number, _, count = word.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"must be I/N with I from 1 to N, not {word}")
    return int(number), int(count)
