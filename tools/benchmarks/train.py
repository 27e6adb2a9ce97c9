"""Training steps: pairs per second, and the share of the machine's GEMM speed.

The settings say which model and which files; subword models that are missing are made in a
temporary folder first, which is not counted. Steps of a shape that was not seen before are
run but not timed: with XLA they compile.

Useful FLOPs of a step are 3 x the products of a forward pass over real tokens. Everything that
they are computed from is in the output, so that anyone can compute them again.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from aevnmt_tf import hparams
from aevnmt_tf.cli import command

from . import machine, profiling, report

PROFILED = 10  # steps under the profiler
COUNTED = ("source_tokens", "target_tokens", "position_pairs")


def parser() -> argparse.ArgumentParser:
    """The flags of this benchmark: every setting, --steps and --json."""
    flags = command.Parser("train", __doc__, prog="tools/benchmark.py train")
    flags.add_argument("--steps", type=int, default=30, help="how many steps to time")
    flags.add_argument("--warm_up", type=int, default=5, help="steps before timing")
    flags.add_argument("--profile", action="store_true", help="add where the time goes")
    flags.add_argument("--json", action="store_true", help="print JSON")
    hparams.add_flags(flags)
    return flags


def run(args: argparse.Namespace) -> int:
    """Measures and prints."""
    from aevnmt_tf.data.corpus_preparation import ensure_prepared

    hp = hparams.from_args(args).replace(dev_prefix=None, test_prefix=None)  # not needed
    with tempfile.TemporaryDirectory() as folder:
        prepared = ensure_prepared(hp, Path(folder) / "text", report=lambda sentence: None)
        before = machine.gemm_gflops()
        results = measure(
            prepared, steps=args.steps, warm_up=args.warm_up, profiled=args.profile
        )
        description = machine.description()
    results["gemm_gflops"] = max(before, description["gemm_gflops"])
    used = results["useful_gflop"] / results["seconds"]
    results["utilisation"] = round(used / results["gemm_gflops"], 4)
    report.show({**results, "machine": description}, as_json=args.json)
    return 0


def measure(prepared, *, steps: int, warm_up: int, profiled: bool) -> dict:
    """Times `steps` training steps after the first `warm_up` and after each new shape.

    What the others took over the median is `compile_seconds`: tracing, and with XLA compiling.
    With `profiled`, PROFILED steps on the last batch follow under TensorFlow's profiler, and
    XLA's kernels are counted where it compiles the step.
    """
    import tensorflow as tf

    from aevnmt_tf.data.training_data import load_training_data
    from aevnmt_tf.training import train_step

    hp, x, y = prepared.hp, prepared.x_tokenizer, prepared.y_tokenizer
    data = load_training_data(hp, x_tokenizer=x, y_tokenizer=y, folder=prepared.ids)
    model = train_step.build(hp, x.vocab_size, y.vocab_size)
    dataset = data.dataset()
    train = tf.function(model.train_on, input_signature=[dataset.element_spec], autograph=False)
    seconds, first, shapes = [], [], set()
    counts = dict.fromkeys((*COUNTED, "pairs", "padded_tokens"), 0)
    for number, batch in enumerate(dataset):
        shape = (batch["x"].shape[1], batch["y"].shape[1])
        start = time.perf_counter()
        train(batch)["loss"].numpy()
        elapsed = time.perf_counter() - start
        if shape not in shapes or number < warm_up:
            shapes.add(shape)
            first.append(elapsed)
            continue
        seconds.append(elapsed)
        count(batch, counts)
        if len(seconds) == steps:
            break
    counted = {name: int(value) for name, value in counts.items()}
    tokens = counted["source_tokens"] + counted["target_tokens"]
    total = sum(seconds)
    profile = {}
    if profiled:
        found = profiling.profile(lambda: train(batch)["loss"].numpy(), steps=PROFILED)
        profile = {"profile": found}
        if train_step.resolve_jit(hp.jit_compile):
            inputs = (batch, model.noise(batch, model.batches), tf.constant(1.0))
            compiled = model.gradients.experimental_get_compiler_ir(*inputs)
            profile["xla"] = profiling.kernels(compiled(stage="optimized_hlo"))
    return {
        "model_type": hp.model_type,
        "jit_compile": train_step.resolve_jit(hp.jit_compile),
        "steps": len(seconds),
        "seconds": total,
        "ms_per_step": 1e3 * statistics.median(seconds),
        "pairs_per_second": counted["pairs"] / total,
        "tokens_per_second": tokens / total,
        **counted,
        "padding": 1 - tokens / counted["padded_tokens"],
        "Vx": x.vocab_size,
        "Vy": y.vocab_size,
        "useful_gflop": useful_flop(hp, counted, x.vocab_size, y.vocab_size) / 1e9,
        "parameters": model.count_params(),
        "compile_seconds": max(0.0, sum(first) - len(first) * statistics.median(seconds)),
        "num_shapes": len(shapes),
        "peak_memory_mb": machine.peak_memory_mb(),
        **profile,
    }


def count(batch, counts: dict) -> None:
    """Adds a batch's real pairs, tokens and pairs of positions; </s> counts, fillers do not."""
    weight = batch["weight"].numpy()
    x_len, y_len = batch["x_len"].numpy(), batch["y_len"].numpy()
    counts["pairs"] += weight.sum()
    counts["source_tokens"] += (weight * x_len).sum()
    counts["target_tokens"] += (weight * y_len).sum()
    counts["position_pairs"] += (weight * x_len * y_len).sum()
    counts["padded_tokens"] += batch["x"].shape.num_elements() + batch["y"].shape.num_elements()


def useful_flop(hp, counts: dict, vx: int, vy: int) -> float:
    """3 x the products of the forward pass over real tokens."""
    h = e = hp.num_units
    has_lm, has_z = hp.model_type != "cond", hp.model_type == "aevnmt"
    sees_target = has_z and hp.z_inference_from == "source_target"
    gates = 3 if hp.unit_type == "gru" else 4
    gru = 6 * h * (e + h)  # of an inference network
    rnn = 2 * gates * h * (e + h)  # of a layer of encoder or source LM
    output = 2 * h * vy if hp.decoder_style == "tf_nmt" else 2 * (h + e + 2 * h) * vy
    source = has_lm * (2 * h * vx + rnn) + 2 * rnn + 2 * gru * (has_z + sees_target) + 4 * h * h
    target = output + 2 * gates * h * (e + 2 * h + h) + 2 * h * h + sees_target * 2 * gru
    forward = counts["source_tokens"] * source + counts["target_tokens"] * target
    return 3 * (forward + counts["position_pairs"] * 6 * h)
