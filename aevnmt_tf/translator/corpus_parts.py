"""Flags for large corpora: one shard in this process, or all shards on Ray workers."""

import argparse

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import LineRate
from aevnmt_tf.translator import corpus_shards, ray_engine
from aevnmt_tf.translator.corpus_jobs import CorpusJob
from aevnmt_tf.translator.corpus_shards import CorpusInput, Shard


def is_split(args: argparse.Namespace) -> bool:
    """Return whether the flags ask for shards; raise a UserError if they do not fit."""
    is_ray = args.engine == "ray"
    if is_ray and args.shard is not None:
        raise UserError("--engine ray makes shards itself: leave --shard out.")
    if is_ray and args.num_workers is None:
        raise UserError("--engine ray needs --num_workers.")
    for name in ("num_workers", "ray_address"):
        if getattr(args, name) is not None and not is_ray:
            raise UserError(f"--{name} is for --engine ray.")
    return is_ray or args.shard is not None


def run_split(
    command: str, args: argparse.Namespace, job: CorpusJob, source: CorpusInput
) -> None:
    """Do one shard, or all of them with Ray, and report the progress of `command`."""
    rate = LineRate(command)
    if args.engine == "local":
        corpus_shards.run_shard(job, source, Shard(*args.shard), args.output, rate)
        return
    summary = ray_engine.run(
        job,
        source,
        args.output,
        num_workers=args.num_workers,
        address=args.ray_address,
        rate=rate,
    )
    rate.end()
    for sentence in summary.lines():
        rate.say(sentence)
