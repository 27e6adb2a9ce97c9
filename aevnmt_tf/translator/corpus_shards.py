"""Shards of a corpus: each is one output file, and their concatenation is the whole output.

Shards end where windows of lines end (line_batches.window_starts). Each line is therefore in
the same batch as in one run over all lines, and its output is the same to the byte.
"""

import bisect
import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import LineRate
from aevnmt_tf.storage import atomic_writes, line_streams, pair_streams, run_directory
from aevnmt_tf.translator import line_batches
from aevnmt_tf.translator.corpus_jobs import CorpusJob

BLOCK = 1 << 20  # bytes read at a time


class Shard(NamedTuple):
    """Part `number` of `of` parts, from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def lines(self, total: int, *, batch_size: int) -> tuple[int, int]:
        """Return the first line of the shard and the first after it, of `total` lines."""
        borders = [*line_batches.window_starts(total, batch_size=batch_size), total]

        def nearest(wanted: float) -> int:
            place = bisect.bisect_left(borders, wanted)
            around = borders[max(0, place - 1) : place + 1]
            return min(around, key=lambda border: abs(border - wanted))

        first, last = (
            nearest(total * number / self.of) for number in (self.number - 1, self.number)
        )
        return first, total if self.number == self.of else last


class CorpusInput:
    """The lines of a file, or the pairs of two files.

    Args:
        paths: Plain or .gz files, or "-".
        errors: Invalid UTF-8: "strict" stops before the line, "replace" replaces the bytes.
        only: The numbers of the lines to read from a single file, from 0; None: all.
    """

    def __init__(
        self, paths: Sequence[str], *, errors: str, only: frozenset[int] | None = None
    ) -> None:
        self.paths, self._errors, self._only = list(paths), errors, only

    @contextlib.contextmanager
    def opened(self) -> Iterator[Any]:
        """Yield a line_streams.Reader or a pair_streams.PairStream."""
        if len(self.paths) == 2:
            with pair_streams.PairStream(*self.paths, errors=self._errors) as pairs:
                yield pairs
            return
        (path,) = self.paths
        name = "stdin" if path == line_streams.STD else path
        with line_streams.open_input(path) as stream:
            yield line_streams.Reader(stream, name=name, errors=self._errors, only=self._only)

    def check_is_whole(self) -> int:
        """Return the number of lines; raise a UserError if the input is no complete file."""
        for path in self.paths:
            if not Path(path).is_file():
                raise UserError(f"shards need files as input, and {path} is none.")
        counts = [pair_streams.count(path) for path in self.paths]
        if counts[0] is not None and len(set(counts)) == 1:
            return counts[0]
        with self.opened() as reader:
            return sum(1 for _ in self.take(reader, iter(reader)))  # raises the problem

    def take(
        self, reader: Any, items: Iterator[Any], count: int | None = None
    ) -> Iterator[Any]:
        """Yield `count` items of a reader; raise a UserError if it has fewer or a problem."""
        taken = 0
        for item in islice(items, count):
            taken += 1
            yield item
        if reader.problem or taken < (count or 0):
            raise UserError(reader.problem or f"{self.paths[0]} has become shorter: try again.")


def request(job: CorpusJob, source: CorpusInput) -> dict[str, Any]:
    """Return everything that the output depends on, for JSON."""
    return {
        "job": {**dataclasses.asdict(job), "kind": type(job).__name__},
        "inputs": [_digest(path) for path in source.paths],
        "weights": [_digest(path) for path in job.model_files()],
    }


def run_shard(
    job: CorpusJob, source: CorpusInput, shard: Shard, path: str, rate: LineRate
) -> None:
    """Write a shard to a file, unless the file already has it.

    FILE.shard.json, written last, records what the file contains.
    """
    if path == line_streams.STD:
        raise UserError("--shard writes a file: give --output.")
    record = Path(f"{path}.shard.json")
    total = source.check_is_whole()
    expected = {"shard": str(shard), "request": request(job, source)}
    found = run_directory.read_json(record) if Path(path).exists() else {}
    written = found.pop("output", None)
    if found.get("shard", str(shard)) != str(shard):
        raise UserError(
            f"{path} has shard {found['shard']}, not {shard}: give another --output."
        )
    if found == expected and written == _digest(path):
        rate.say(f"shard {shard} is finished already: {path}")
        return
    record.unlink(missing_ok=True)
    first, last = shard.lines(total, batch_size=job.batch_size())
    part = f"lines {first + 1} to {last}" if first < last else "no lines"
    rate.say(f"shard {shard}: {part} of {total}")
    with source.opened() as reader:
        model = job.load()
        with line_streams.Output(path, source=source.paths[0], is_whole=True) as output:
            items = islice(iter(reader), first, None)
            summary = job.write(
                model,
                source.take(reader, items, last - first),
                output.write,
                start=first,
                is_first=shard.number == 1,
                say=rate.say,
                seen=lambda number, _: rate.move(number - first),
            )
    atomic_writes.write_json(record, {**expected, "output": _digest(path)})
    for sentence in summary.lines():
        rate.say(sentence)


def _digest(path: str | Path) -> str:
    """Return the SHA-256 of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(BLOCK):
            found.update(block)
    return found.hexdigest()
