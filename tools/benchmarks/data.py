"""Raw text to training batches: pairs per second and the share of padding.

The settings say which files; subword models that are missing are made in a temporary folder
first, which is not counted.
"""

import argparse
import dataclasses
import itertools
import tempfile
import time
from pathlib import Path

from aevnmt_tf import hparams
from aevnmt_tf.cli import command

from . import machine, report


def parser() -> argparse.ArgumentParser:
    """The flags of this benchmark: every setting, and --json."""
    flags = command.Parser("data", __doc__, prog="tools/benchmark.py data")
    flags.add_argument("--json", action="store_true", help="print JSON")
    hparams.add_flags(flags)
    return flags


def run(args: argparse.Namespace) -> int:
    """Measures and prints."""
    from aevnmt_tf.data.corpus_preparation import ensure_prepared

    hp = hparams.from_args(args).replace(dev_prefix=None, test_prefix=None)  # not needed
    with tempfile.TemporaryDirectory() as folder:
        prepared = ensure_prepared(hp, Path(folder) / "text", report=lambda sentence: None)
        # Not a store that is there already: tokenising is measured, too.
        prepared = dataclasses.replace(prepared, ids=Path(folder) / "ids")
        results = {**measure(prepared), "machine": machine.description()}
    report.show(results, as_json=args.json)
    return 0


def measure(prepared) -> dict:
    """Reads, tokenises, plans and runs through one epoch, from the start."""
    from aevnmt_tf.data.training_data import load_training_data

    memory_before = machine.peak_memory_mb()
    start, cpu_start = time.perf_counter(), time.process_time()
    data = load_training_data(
        prepared.hp,
        x_tokenizer=prepared.x_tokenizer,
        y_tokenizer=prepared.y_tokenizer,
        folder=prepared.ids,
        report=lambda sentence: None,
    )
    loaded = time.perf_counter()
    batches = iter(data.dataset())
    next(batches)
    ready = time.perf_counter()
    num_batches = data.batches_per_epoch - 1
    for _ in itertools.islice(batches, num_batches):
        pass
    end, cpu_end = time.perf_counter(), time.process_time()
    memory = machine.peak_memory_mb()
    pairs = data.order.pairs_per_epoch
    return {
        "pairs": pairs,
        "pairs_per_second_from_text": round(pairs / (end - start), 1),
        # What a busy machine would reach if it had nothing else to do on one core.
        "pairs_per_cpu_second_from_text": round(pairs / (cpu_end - cpu_start), 1),
        "start_up_seconds": round(ready - start, 3),
        "load_seconds": round(loaded - start, 3),
        "first_batch_seconds": round(ready - loaded, 3),
        **_tokenising(prepared),
        "batches_per_epoch": data.batches_per_epoch,
        "batches_per_second": round(num_batches / (end - ready), 1),
        "epoch_pairs_per_second": round(pairs / (end - ready), 1),
        "batch_size": data.batch_size,
        "num_shapes": len(data.shapes),
        "shapes": data.shapes.tolist(),
        "padding_share": round(data.padding_share, 4),
        "peak_memory_mb": round(memory, 1),
        "peak_memory_mb_before": round(memory_before, 1),
        "counts": data.counts.to_dict()["corpora"],
    }


def _tokenising(prepared) -> dict:
    """How fast the tokenizers alone are, on the first corpus."""
    from aevnmt_tf.data.pair_encoding import encode_pairs
    from aevnmt_tf.data.pairs import read_pairs

    hp = prepared.hp
    prefix = hp.train_prefix if isinstance(hp.train_prefix, str) else hp.train_prefix[0]
    pairs = read_pairs(prefix, src=hp.src, tgt=hp.tgt, max_pairs=hp.max_train)
    start = time.perf_counter()
    encode_pairs(pairs, x_tokenizer=prepared.x_tokenizer, y_tokenizer=prepared.y_tokenizer)
    seconds = time.perf_counter() - start
    return {"tokenised_lines_per_second": round(2 * len(pairs) / seconds, 1)}
