"""A corpus on several processes or machines, with Ray.

This process reads the lines and writes the output. Workers are Ray actors that load the model
once and get shards of lines. One that dies is started again, and its shard is done again. What
is finished waits in OUTPUT.parts, so that the same command goes on after a crash.
"""

import itertools
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import atomic_writes, disk_errors, line_streams, run_directory
from aevnmt_tf.translator import corpus_shards
from aevnmt_tf.translator.corpus_jobs import CorpusJob, LoadedJob, Summary
from aevnmt_tf.translator.corpus_shards import CorpusInput, Shard

SHARDS = 4  # of each worker, or more: so that all have work until the end
MOST_LINES = 20_000  # of a shard: they are in memory, and lost with a worker
RETRIES = 3  # of a shard whose worker dies


class ShardDone(NamedTuple):
    """What a worker sends back."""

    shard: Shard
    num_lines: int
    text: str
    notes: list[str]
    summary: dict[str, Any]


class ShardWorker:
    """Works in a process of its own."""

    def __init__(self, job: CorpusJob) -> None:
        self._job = job
        self._loaded: LoadedJob | None = None

    def run(self, shard: Shard, items: list[Any], start: int) -> ShardDone:
        """Return the rows of a shard."""
        # Not before: what a constructor raises comes back as a dead actor.
        loaded = self._loaded = self._loaded or self._job.load()
        header = [loaded.header] if shard.number == 1 and loaded.header is not None else []
        notes = [loaded.warning] if shard.number == 1 and loaded.warning else []
        summary, texts = loaded.summary(), list(header)
        for row in loaded.rows(items, start=start):
            texts.append(row.text)
            notes += row.notes
            summary.add(row.numbers)
        text = "".join(f"{line}\n" for line in texts)
        return ShardDone(shard, len(items), text, notes, summary.state())


class Parts:
    """The finished shards of an output, in a folder beside it.

    Args:
        output: the file that they become.
        request: what they are parts of; a folder of another one is refused.
    """

    def __init__(self, output: str, request: dict[str, Any]) -> None:
        self.folder = Path(f"{output}.parts")
        record = self.folder / "request.json"
        if self.folder.exists() and run_directory.read_json(record) != request:
            raise UserError(
                f"{self.folder} has parts of another output: finish it with the command that "
                "began it, or delete the folder."
            )
        atomic_writes.write_json(record, request)

    def is_done(self, shard: Shard) -> bool:
        """Return whether a shard is finished."""
        return self._summary(shard).exists()

    def write(self, done: ShardDone) -> None:
        """Keep a finished shard."""
        atomic_writes.write(self._path(done.shard), done.text)
        atomic_writes.write_json(self._summary(done.shard), done.summary)

    def summaries(self, shards: list[Shard]) -> Iterator[dict[str, Any]]:
        """Return the summaries of all shards, in their order."""
        return (run_directory.read_json(self._summary(shard)) for shard in shards)

    def join(self, shards: list[Shard], output: line_streams.Output) -> None:
        """Write all shards in their order, and delete them."""
        for shard in shards:
            with self._path(shard).open("rb") as stream:
                output.write_from(stream)

    def delete(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, shard: Shard) -> Path:
        return self.folder / f"{shard.number:06d}"

    def _summary(self, shard: Shard) -> Path:
        return self.folder / f"{shard.number:06d}.json"


def run(
    job: CorpusJob,
    source: CorpusInput,
    output: str,
    *,
    num_workers: int,
    address: str | None,
    summary: Summary,
    say: Callable[[str], object],
    move: Callable[[int], object],
) -> None:
    """Write the output of a whole corpus.

    Args:
        job: what to do with it.
        source: the lines or pairs.
        output: a file.
        num_workers: how many processes.
        address: of a Ray cluster; None: of this machine alone.
        summary: an empty one, which becomes that of all rows.
        say: called with each note.
        move: called with the number of lines that are done.
    """
    if output == line_streams.STD:
        raise UserError("--engine ray writes a file: give --output.")
    import ray  # noqa: F401  where it is not installed, nothing is written

    line_streams.refuse_inputs(output, source.paths)
    total, size = source.check_is_whole(), job.settings().infer_batch_size
    count = max(SHARDS * num_workers, -(-total // MOST_LINES))
    shards = [Shard(number, count) for number in range(1, count + 1)]
    with disk_errors.explained(f"write {output}.parts"):
        asked = {**corpus_shards.request(job, source), "shards": count}
        parts = Parts(output, asked)
        finished = 0
        for done in _finished(
            job, _todo(source, shards, parts, total=total, batch_size=size),
            num_workers=num_workers, address=address,
        ):  # fmt: skip
            parts.write(done)
            for note in done.notes:
                say(note)
            finished += done.num_lines
            move(finished)
        with line_streams.Output(output, source=line_streams.STD, is_whole=True) as whole:
            parts.join(shards, whole)
        for state in parts.summaries(shards):
            summary.merge(state)
    parts.delete()


def _todo(
    source: CorpusInput, shards: list[Shard], parts: Parts, *, total: int, batch_size: int
) -> Iterator[tuple[Shard, list[Any], int]]:
    """Return the shards that are not finished, their items and the number of the first."""
    with source.opened() as reader:
        items = iter(reader)
        for shard in shards:
            first, last = shard.lines(total, batch_size=batch_size)
            part = list(itertools.islice(items, last - first))
            if reader.problem or len(part) < last - first:
                raise UserError(reader.problem or f"{source.paths[0]} has become shorter.")
            if not parts.is_done(shard):
                yield shard, part, first


def _finished(
    job: CorpusJob,
    todo: Iterator[tuple[Shard, list[Any], int]],
    *,
    num_workers: int,
    address: str | None,
) -> Iterator[ShardDone]:
    """Return what workers make of shards, as it comes."""
    import ray
    from ray.util import ActorPool

    options: dict[str, Any] = {"address": address} if address else {"num_cpus": num_workers}
    if not address:
        options["include_dashboard"] = False
        # A Ray that is running elsewhere is not meant.
        os.environ.pop("RAY_ADDRESS", None)
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
        for shard, items, start in todo:
            while not pool.has_free():
                yield pool.get_next_unordered()
            pool.submit(lambda worker, task: worker.run.remote(*task), (shard, items, start))
        while pool.has_next():
            yield pool.get_next_unordered()
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, UserError):
            raise UserError(str(error.cause)) from None
        raise
    except ray.exceptions.RayActorError as error:
        raise UserError(
            f"the workers of a shard died {RETRIES + 1} times, perhaps for want of memory "
            f"({error}); what is finished is kept: the same command goes on."
        ) from None
    finally:
        ray.shutdown()
