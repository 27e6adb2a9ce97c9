"""A corpus on several processes or machines, with Ray.

This process reads the lines and writes the output. Workers are Ray actors that load the model
once and receive shards of lines. Ray restarts a worker that dies and repeats its shard.
Finished shards stay in OUTPUT.parts, so that the same command continues after a crash.
"""

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import LineRate
from aevnmt_tf.storage import atomic_writes, disk_errors, line_streams, run_directory
from aevnmt_tf.translator import corpus_shards
from aevnmt_tf.translator.corpus_jobs import CorpusJob, Summary
from aevnmt_tf.translator.corpus_shards import CorpusInput, Shard

SHARDS = 4  # per worker, at least, so that all workers are busy until the end
MOST_LINES = 20_000  # per shard, which is held in memory and lost with its worker
RETRIES = 3  # of a shard whose worker dies

Task = tuple[Shard, list[Any], int]  # a shard, its items and the number of the first


class ShardDone(NamedTuple):
    """What a worker sends back."""

    shard: Shard
    num_lines: int
    text: str
    notes: list[str]
    summary: dict[str, Any]


class ShardWorker:
    """Works in its own process."""

    def __init__(self, job: CorpusJob) -> None:
        self._job = job
        self._model: Any = None

    def run(self, shard: Shard, items: list[Any], start: int) -> ShardDone:
        """Return the rows of a shard."""
        # Not in the constructor, whose errors Ray reports as a dead actor.
        self._model = self._model or self._job.load()
        lines: list[str] = []
        notes: list[str] = []
        summary = self._job.write(
            self._model,
            items,
            lines.append,
            start=start,
            is_first=shard.number == 1,
            say=notes.append,
        )
        text = "".join(f"{line}\n" for line in lines)
        return ShardDone(shard, len(items), text, notes, summary.state)


def run(
    job: CorpusJob,
    source: CorpusInput,
    output: str,
    *,
    num_workers: int,
    address: str | None,
    rate: LineRate,
) -> Summary:
    """Write the output of a whole corpus, and return its summary.

    Args:
        job: What to do.
        source: The lines or pairs.
        output: The output file.
        num_workers: The number of processes.
        address: The address of a Ray cluster; None: this machine only.
        rate: Shows messages and progress.
    """
    if output == line_streams.STD:
        raise UserError("--engine ray writes a file: give --output.")
    import ray  # noqa: F401  fails before anything is written

    line_streams.refuse_inputs(output, source.paths)
    total, summary = source.check_is_whole(), job.summary()
    count = max(SHARDS * num_workers, -(-total // MOST_LINES))
    folder = Path(f"{output}.parts")
    shards = {Shard(n, count): folder / f"{n:06d}" for n in range(1, count + 1)}
    with disk_errors.explained(f"write {folder}"):
        _claim(folder, {**corpus_shards.request(job, source), "shards": count})
        size, finished = job.batch_size(), 0
        tasks = _tasks(source, shards, total=total, batch_size=size)
        for done in _finished(job, tasks, num_workers=num_workers, address=address):
            path = shards[done.shard]
            atomic_writes.write(path, done.text)
            atomic_writes.write_json(_record(path), done.summary)
            for note in done.notes:
                rate.say(note)
            finished += done.num_lines
            rate.move(finished)
        with line_streams.Output(output, source=line_streams.STD, is_whole=True) as whole:
            for path in shards.values():
                with path.open("rb") as stream:
                    whole.write_from(stream)
                summary.merge(run_directory.read_json(_record(path)))
    shutil.rmtree(folder, ignore_errors=True)
    return summary


def _claim(folder: Path, request: dict[str, Any]) -> None:
    """Make the folder of finished shards; refuse one that belongs to another request."""
    record = folder / "request.json"
    if folder.exists() and run_directory.read_json(record) != request:
        raise UserError(
            f"{folder} has parts of another output: finish it with the command that began it, "
            "or delete the folder."
        )
    atomic_writes.write_json(record, request)


def _record(path: Path) -> Path:
    """Return the summary file of a shard, which is written last."""
    return path.with_suffix(".json")


def _tasks(
    source: CorpusInput, shards: dict[Shard, Path], *, total: int, batch_size: int
) -> Iterator[Task]:
    """Yield the tasks of the shards that are not finished."""
    with source.opened() as reader:
        items = iter(reader)
        for shard, path in shards.items():
            first, last = shard.lines(total, batch_size=batch_size)
            part = list(source.take(reader, items, last - first))
            if not _record(path).exists():
                yield shard, part, first


def _finished(
    job: CorpusJob, tasks: Iterator[Task], *, num_workers: int, address: str | None
) -> Iterator[ShardDone]:
    """Yield the results of workers as they come."""
    import ray
    from ray.util import ActorPool

    options: dict[str, Any] = {"address": address} if address else {"num_cpus": num_workers}
    if not address:
        options["include_dashboard"] = False
        os.environ.pop("RAY_ADDRESS", None)  # it may name another cluster
    try:
        ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        raise UserError(f"there is no Ray at {address}: {error}.") from None
    try:
        cpus = int(ray.cluster_resources().get("CPU", 0))
        if num_workers > cpus:
            raise UserError(
                f"the Ray cluster has {cpus} CPUs, but --num_workers {num_workers} needs one "
                "per worker: give fewer workers."
            )
        actor = ray.remote(ShardWorker).options(
            num_cpus=1, max_restarts=-1, max_task_retries=RETRIES
        )
        pool = ActorPool([actor.remote(job) for _ in range(num_workers)])
        for task in tasks:
            while not pool.has_free():
                yield pool.get_next_unordered()
            pool.submit(lambda worker, given: worker.run.remote(*given), task)
        while pool.has_next():
            yield pool.get_next_unordered()
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, UserError):
            raise UserError(str(error.cause)) from None
        raise
    except ray.exceptions.RayActorError as error:
        raise UserError(
            f"the workers of a shard died {RETRIES + 1} times, perhaps for lack of memory "
            f"({error}). Finished shards are kept: the same command continues."
        ) from None
    finally:
        ray.shutdown()
