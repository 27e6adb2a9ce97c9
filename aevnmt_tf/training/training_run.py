"""A whole training run: text, data, model, loop and results."""

import contextlib
from pathlib import Path
from typing import IO, Any

import tensorflow as tf

from aevnmt_tf import __version__
from aevnmt_tf.cli import machine
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data.corpus_preparation import Prepared, ensure_prepared
from aevnmt_tf.data.training_data import TrainingData, load_training_data
from aevnmt_tf.evaluation import metrics
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.model import Aevnmt
from aevnmt_tf.storage import run_directory
from aevnmt_tf.storage.atomic_writes import write, write_json
from aevnmt_tf.text import word_vectors
from aevnmt_tf.training import distribution, model_card, ownership, terminal, train_step
from aevnmt_tf.training.dev_evaluation import DevEvaluation, DevEvaluator, score_names
from aevnmt_tf.training.reporting import Reporter, collapse_warning
from aevnmt_tf.training.stopping import StoppingRule
from aevnmt_tf.training.training_loop import TrainingLoop, TrainingOutcome

GIVEN_FROM = 3  # the words of embed_prefix come after <unk>, <s> and </s>
PACKAGES = ("tensorflow", "keras", "tensorflow-probability", "tensorflow-text", "sacrebleu")


def train(
    hp: Hparams, *, stream: IO[str] | None = None
) -> tuple[TrainingOutcome, dict[str, Any] | None]:
    """Train a model, or resume from the newest checkpoint in out_dir, which must be set.

    Returns:
        The outcome, and the content of results.json: None if a signal ended the run, and in a
        process that is not the chief.
    """
    # A strategy of several processes must be created before anything else in TensorFlow.
    strategy = distribution.choose(hp.distribute)
    is_chief = distribution.is_chief(strategy)
    has_dev = hp.train_prefix is None or bool(hp.dev_prefix)
    if hp.ema_decay and not has_dev:
        raise UserError(
            "ema_decay saves its average as best/, which needs a dev set: set dev_prefix, or "
            "leave ema_decay out."
        )
    rule = StoppingRule.of(hp, has_dev=has_dev)
    reporter = Reporter(hp, rule=rule, is_chief=is_chief, stream=stream)
    owned = ownership.claim(hp, report=reporter.say) if is_chief else contextlib.nullcontext()
    with owned, distribution.lost_workers_explained(strategy):
        out_dir = Path(hp.out_dir)
        # The others wait until the chief owns the directory and has written text and ids. On
        # the disk of a cluster, which may not have locks, all would write the same files.
        with distribution.chief_first(strategy):
            prepared = ensure_prepared(hp, out_dir / run_directory.TEXT, report=reporter.say)
            data = load_training_data(
                prepared.hp,
                x_tokenizer=prepared.x_tokenizer,
                y_tokenizer=prepared.y_tokenizer,
                folder=prepared.ids,
                report=reporter.say,
            )
        loop = _make_loop(prepared, data, strategy=strategy, reporter=reporter, has_dev=has_dev)
        loop.resume()
        outcome = loop.run()
        if outcome.interrupted:
            reporter.say(
                f"stopped at step {outcome.step} and saved; run the same command to resume"
            )
        if outcome.interrupted or not is_chief:
            return outcome, None
        average = _average(prepared, loop=loop, has_dev=has_dev) if hp.avg_ckpts else None
        results = _results(hp, loop=loop, outcome=outcome, average=average)
        write_json(out_dir / run_directory.RESULTS, results)
        card = model_card.text([out_dir], usage=model_card.usage_of_run(out_dir))
        write(out_dir / model_card.FILE, card)
        return outcome, results


def _make_loop(
    prepared: Prepared,
    data: TrainingData,
    *,
    strategy: tf.distribute.Strategy,
    reporter: Reporter,
    has_dev: bool,
) -> TrainingLoop:
    hp, out_dir = prepared.hp, Path(prepared.hp.out_dir)
    x_tokenizer, y_tokenizer = prepared.x_tokenizer, prepared.y_tokenizer
    is_chief = distribution.is_chief(strategy)
    if is_chief and data.counts is not None:
        reporter.say(data.counts.table())
        write_json(out_dir / model_card.COUNTS, data.counts.to_dict())
    with strategy.scope():
        model = train_step.build(hp, x_tokenizer.vocab_size, y_tokenizer.vocab_size)
        if hp.embed_prefix is not None:
            sides = [(model.emb_x, x_tokenizer, hp.src), (model.emb_y, y_tokenizer, hp.tgt)]
            for table, tokenizer, lang in sides[: 1 if hp.share_vocab else 2]:
                pieces = tokenizer.pieces(range(GIVEN_FROM, tokenizer.vocab_size)).numpy()
                words = [piece.decode() for piece in pieces]
                path = f"{hp.embed_prefix}.{lang}"
                table.given.assign(word_vectors.read(path, words, size=hp.num_units))
    replicas = strategy.num_replicas_in_sync
    reporter.say(
        f"{hp.model_type}: {model.count_params():,} parameters,"
        f" vocabularies of {x_tokenizer.vocab_size:,} and {y_tokenizer.vocab_size:,},"
        f" {data.batches_per_epoch:,} batches per epoch,"
        f" {100 * data.padding_share:.0f} % padding,"
        f" {replicas} device{'s' if replicas > 1 else ''}"
    )
    evaluator = None
    if has_dev:
        evaluator = DevEvaluator(prepared, model=model) if is_chief else _never
    return TrainingLoop(
        hp, strategy=strategy, model=model, data=data, reporter=reporter, evaluate=evaluator
    )


def _never(*_: object) -> DevEvaluation:
    raise AssertionError("only the chief evaluates")


def _average(prepared: Prepared, *, loop: TrainingLoop, has_dev: bool) -> dict[str, Any]:
    """Average the last checkpoints, evaluate and report; return step and scores."""

    def evaluate(model: Aevnmt) -> dict[str, Any]:
        found = DevEvaluator(prepared, model=model)(loop.step) if has_dev else None
        return {} if found is None else found.values

    average = loop.checkpoints.save_average(
        prepared.hp.avg_ckpts, build=loop.build_model, evaluate=evaluate
    )
    steps = ", ".join(map(str, average["averaged_steps"]))
    loop.reporter.say(f"{run_directory.AVERAGE}/ has the mean of the weights at steps {steps}")
    if has_dev:
        loop.reporter.say(f"average  {terminal.dev_summary(average)}")
    return average


def _results(
    hp: Hparams,
    *,
    loop: TrainingLoop,
    outcome: TrainingOutcome,
    average: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return the content of results.json; `best` is what commands load by default."""
    evaluations = loop.reporter.evaluations()
    found = [line for line in evaluations if line["step"] == loop.progress.best_step][-1:]
    if found and average is not None:
        found.append(average)
    final = evaluations[-1] if evaluations else None
    warning = collapse_warning(hp, outcome.step, final or {})
    return {
        "step": outcome.step,
        "reason": outcome.reason,
        "final": final,
        "average": average,
        "best": max(found, key=lambda line: line["dev_bleu"], default=None),
        "signatures": metrics.signatures(score_names(hp)),
        "seed": hp.random_seed,
        "wall_time_seconds": round(loop.seconds(), 1),
        "versions": machine.versions(PACKAGES, own=__version__),
        "machine": machine.description(),
        "num_replicas": loop.num_replicas,
        "warnings": [warning] if warning else [],
    }
