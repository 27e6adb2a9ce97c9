"""A whole training run: text, data, model, loop and results."""

import contextlib
import importlib.metadata
import platform
from pathlib import Path

from aevnmt_tf import __version__, run_directory
from aevnmt_tf.analysis import metrics
from aevnmt_tf.data import load_training_data
from aevnmt_tf.data.prepare import ensure_prepared
from aevnmt_tf.training import distribution, ownership, step
from aevnmt_tf.training.checkpoints import write_json_whole
from aevnmt_tf.training.evaluation import Evaluator, score_names
from aevnmt_tf.training.loop import Loop
from aevnmt_tf.training.reporting import Reporter
from aevnmt_tf.training.stopping import StoppingRule

COUNTS = "counts.json"
PACKAGES = ("tensorflow", "keras", "tensorflow-probability", "tensorflow-text", "sacrebleu")


def train(hp, *, stream=None):
    """Train as the settings say, from the newest checkpoint of out_dir where there is one.

    Args:
        hp: the settings; out_dir must be set.
        stream: where to print, standard output by default.

    Returns:
        (loop.Outcome, results): results is what results.json holds, None where a signal ended
        the run, and in a process that is not the chief.
    """
    # A strategy of several processes must be made before anything else in TensorFlow.
    strategy = distribution.choose(hp.distribute)
    is_chief = distribution.is_chief()
    has_dev = hp.train_prefix is None or bool(hp.dev_prefix)
    rule = StoppingRule.of(hp, has_dev=has_dev)
    reporter = Reporter(hp, rule=rule, is_chief=is_chief, stream=stream)
    owned = ownership.claim(hp, report=reporter.say) if is_chief else contextlib.nullcontext()
    with owned:
        # The other processes wait here until the directory is the chief's.
        with distribution.sentences():
            distribution.Agreement(strategy).any(False)
        loop = _make_loop(hp, strategy=strategy, reporter=reporter, has_dev=has_dev)
        loop.resume()
        outcome = loop.run()
        if outcome.interrupted:
            reporter.say(
                f"stopped at step {outcome.step} and saved; the same command resumes it"
            )
        if outcome.interrupted or not is_chief:
            return outcome, None
        results = _results(hp, loop=loop, outcome=outcome)
        write_json_whole(Path(hp.out_dir) / run_directory.RESULTS, results)
        return outcome, results


def _make_loop(hp, *, strategy, reporter, has_dev):
    out_dir = Path(hp.out_dir)
    prepared = ensure_prepared(hp, out_dir / run_directory.TEXT, report=reporter.say)
    x_tokenizer, y_tokenizer = prepared.x_tokenizer, prepared.y_tokenizer
    data = load_training_data(prepared.hp, x_tokenizer=x_tokenizer, y_tokenizer=y_tokenizer)
    if distribution.is_chief():
        reporter.say(data.counts.table())
        write_json_whole(out_dir / COUNTS, data.counts.to_dict())
    with strategy.scope():
        model = step.build(hp, x_tokenizer.vocab_size, y_tokenizer.vocab_size)
    replicas = strategy.num_replicas_in_sync
    reporter.say(
        f"{hp.model_type}: {model.count_params():,} parameters,"
        f" vocabularies of {x_tokenizer.vocab_size:,} and {y_tokenizer.vocab_size:,},"
        f" {data.batches_per_epoch:,} batches an epoch,"
        f" {100 * data.padding_share:.0f} % padding,"
        f" {replicas} device{'s' if replicas > 1 else ''}"
    )
    evaluator = None
    if has_dev:
        evaluator = Evaluator(prepared, model=model) if distribution.is_chief() else _never
    return Loop(
        hp, strategy=strategy, model=model, data=data, evaluate=evaluator, reporter=reporter
    )


def _never(*_):
    raise AssertionError("only the chief evaluates")


def _results(hp, *, loop, outcome):
    """Return what results.json holds."""
    evaluations = loop.reporter.evaluations()
    best = [line for line in evaluations if line["step"] == loop.progress.best_step]
    results = {
        "step": outcome.step,
        "reason": outcome.reason,
        "final": evaluations[-1] if evaluations else None,
        "best": best[-1] if best else None,
        "signatures": metrics.signatures(score_names(hp)),
        "seed": hp.random_seed,
        "wall_time_seconds": round(loop.seconds(), 1),
        "versions": _versions(),
        "num_replicas": loop.num_replicas,
    }
    return results


def _versions():
    found = {"aevnmt_tf": __version__, "python": platform.python_version()}
    return found | {name: importlib.metadata.version(name) for name in PACKAGES}
