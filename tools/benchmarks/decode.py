"""Translating: sentences and words per second, and the time for one sentence.

    tools/benchmark.py decode --model RUN --src F [--sentences 300] [--json]

Text in, text out, with the path that translate has. Every search runs over the sentences once
before it is timed (`first_seconds`: tracing, and the first search makes the table of words).
"natural" translations are as long as the model makes them, "forced" ones all have
--force_length subwords: equal work for every model.
"""

import argparse
import itertools
import statistics
import time

from aevnmt_tf.cli import command
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.machine import tune_for_throughput

from . import machine, profiling, report


def parser() -> argparse.ArgumentParser:
    """The flags of this benchmark."""
    flags = command.Parser("decode", __doc__, prog="tools/benchmark.py decode")
    flags.add_argument("--model", required=True, metavar="RUN", help="a run's out_dir")
    flags.add_argument("--checkpoint", choices=("best", "last", "average"))
    flags.add_argument("--src", required=True, metavar="FILE", help="plain or .gz")
    for name, default, sentence in (
        ("sentences", 300, "how many lines to translate: the first that are not empty"),
        ("batch_size", 64, "sentences translated together"),
        ("beam_width", 10, "of beam search"),
        ("force_length", 50, "subwords of the forced translations"),
        ("repeats", 3, "timed runs of each search; the median counts"),
        ("single", 30, "how many sentences to translate alone"),
    ):
        flags.add_argument(
            f"--{name}", type=_positive, default=default, metavar="N", help=sentence
        )
    flags.add_argument("--profile", action="store_true", help="add where the time goes")
    flags.add_argument("--json", action="store_true", help="print JSON")
    return flags


def _positive(word):
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {word}")
    return number


def run(args: argparse.Namespace) -> int:
    """Measures and prints."""
    lines = read(args.src, args.sentences)
    tune_for_throughput()  # as `aevnmt translate`
    from aevnmt_tf import translator as translators

    translator = translators.load(
        args.model, checkpoint=args.checkpoint, infer_batch_size=args.batch_size
    )
    before = machine.gemm_gflops()
    results = measure(translator, lines, args)
    description = machine.description()
    results["gemm_gflops"] = max(before, description["gemm_gflops"])
    report.show({**results, "machine": description}, as_json=args.json)
    return 0


def read(path: str, number: int) -> list[str]:
    """The first lines of a file that are not empty."""
    from aevnmt_tf.storage import line_streams

    with line_streams.open_input(path) as stream:
        reader = line_streams.Reader(stream, name=path)
        lines = list(itertools.islice((line for line in reader if line.strip()), number))
    if len(lines) < number and reader.problem:
        raise UserError(reader.problem)
    if not lines:
        raise UserError(f"{path} has no sentence to translate")
    return lines


def measure(translator, lines: list[str], args: argparse.Namespace) -> dict:
    """Times each search over all lines, and single sentences."""
    from aevnmt_tf.translator import Decoding

    beam = f"beam_{args.beam_width}"
    hp = translator.hp
    searches = {}
    for length in (None, args.force_length):
        suffix = "natural" if length is None else f"forced_{length}"
        options = {"n_best": 1, "length_penalty_weight": 1.0, "force_length": length}
        searches[f"greedy_{suffix}"] = Decoding.of(hp, search="greedy", **options)
        searches[f"{beam}_{suffix}"] = Decoding.of(
            hp, search="beam", beam_width=args.beam_width, **options
        )
    results = {
        "model_type": hp.model_type,
        "decoder_style": hp.decoder_style,
        "num_units": hp.num_units,
        "Vx": translator.x_tokenizer.vocab_size,
        "Vy": translator.y_tokenizer.vocab_size,
        "sentences": len(lines),
        "batch_size": args.batch_size,
    }
    for name, decoding in searches.items():
        results[name] = throughput(translator, lines, decoding, repeats=args.repeats)
    alone = lines[:: max(1, len(lines) // args.single)][: args.single]
    results[f"latency_{beam}"] = latency(translator, alone, searches[f"{beam}_natural"])
    if args.profile:
        for name in ("greedy_natural", f"{beam}_natural"):
            decoding = searches[name]
            results[f"profile_{name}"] = profiling.profile(
                lambda decoding=decoding: list(translator.stream(lines, decoding=decoding)),
                steps=1,
            )
    results["peak_memory_mb"] = round(machine.peak_memory_mb(), 1)
    return results


def throughput(translator, lines, decoding, *, repeats: int) -> dict:
    """Sentences and subwords per second of one search; all lines are sorted by length."""

    def translate():
        return list(translator.stream(lines, decoding=decoding, window=len(lines)))

    seconds = [_timed(translate) for _ in range(repeats + 1)]
    found, first = seconds[0]
    middle = statistics.median(elapsed for _, elapsed in seconds[1:])
    tokens = sum(result.translations[0].length for result in found)
    return {
        "sentences_per_second": round(len(lines) / middle, 2),
        "tokens_per_second": round(tokens / middle, 1),
        "tokens": tokens,
        "seconds": [round(elapsed, 6) for _, elapsed in seconds[1:]],
        "first_seconds": round(first, 3),
    }


def latency(translator, lines, decoding) -> dict:
    """Milliseconds that a sentence takes alone, once all is warm."""

    def translate(line):
        return list(translator.stream([line], decoding=decoding))

    for line in lines:
        translate(line)
    seconds = sorted(_timed(lambda line=line: translate(line))[1] for line in lines)
    return {
        "median_ms": round(1e3 * statistics.median(seconds), 2),
        "p90_ms": round(1e3 * seconds[min(len(seconds) - 1, round(0.9 * len(seconds)))], 2),
        "worst_ms": round(1e3 * seconds[-1], 2),
        "sentences": len(seconds),
    }


def _timed(function):
    start = time.perf_counter()
    value = function()
    return value, time.perf_counter() - start
