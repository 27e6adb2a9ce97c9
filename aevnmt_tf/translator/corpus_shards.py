"""Parts of a corpus: each is one output file, and joined in order they are the whole output.

Shards end where windows of lines end (line_windows.window_starts). So each line is in the same
batch as in one run over all lines, and its row is the same to the byte.
"""

import bisect
import contextlib
import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import atomic_writes, line_streams, pair_streams, run_directory
from aevnmt_tf.translator import line_windows
from aevnmt_tf.translator.corpus_jobs import CorpusJob, LoadedJob, Row, Summary

BLOCK = 1 << 20  # bytes read at a time


class Shard(NamedTuple):
    """Part `number` of `of` parts, from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def lines(self, total: int, *, batch_size: int) -> tuple[int, int]:
        """Return the first of its lines and the first after them, of `total` lines."""
        borders = [*line_windows.window_starts(total, batch_size=batch_size), total]

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
        paths: of plain or .gz files, or "-".
        errors: "strict" ends before a line that is not UTF-8; "replace" goes on.
        only: of one file, the numbers of the lines that count, from 0; None: all.
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
        """Return how many lines there are; a UserError where that cannot be known."""
        for path in self.paths:
            if not Path(path).is_file():
                raise UserError(f"parts of a corpus are made of files, and {path} is none.")
        counts = [pair_streams.count(path) for path in self.paths]
        if None in counts or len(set(counts)) > 1:
            return sum(1 for _ in self._all())  # which says what is wrong
        return int(counts[0] or 0)

    def _all(self) -> Iterator[Any]:
        with self.opened() as source:
            yield from source
        if source.problem:
            raise UserError(source.problem)

    def digests(self) -> list[str]:
        """Return what the files contain, in few characters."""
        return [_digest(path) for path in self.paths]


def request(job: CorpusJob, source: CorpusInput) -> dict[str, Any]:
    """Return all that the output depends on, as JSON has it."""
    weights = [run_directory.find_weights(r, checkpoint=job.checkpoint) for r in job.runs]
    return {
        "job": {**dataclasses.asdict(job), "kind": type(job).__name__},
        "inputs": source.digests(),
        "weights": [_digest(folder / run_directory.MANIFEST) for folder in weights],
    }


def write_rows(
    loaded: LoadedJob,
    items: Iterable[Any],
    output: line_streams.Output,
    *,
    start: int = 0,
    with_header: bool = True,
    is_ready: Callable[[], bool] = lambda: True,
    say: Callable[[str], object],
    seen: Callable[[int, Row], object] = lambda number, row: None,
) -> Summary:
    """Write the rows of items, and return their summary.

    Args:
        loaded: the job.
        items: lines or pairs; the first is number `start`, from 0.
        output: where rows go.
        start: see there.
        with_header: whether to write the header first, if the job has one.
        is_ready: whether another item can be read at once.
        say: called with each note.
        seen: called with each row and its number, from 1.
    """
    if with_header and loaded.header is not None:
        output.write(loaded.header)
    summary = loaded.summary()
    for number, row in enumerate(loaded.rows(items, start=start, is_ready=is_ready), start + 1):
        for note in row.notes:
            say(note)
        output.write(row.text)
        summary.add(row.numbers)
        seen(number, row)
        if row.ends_window:
            output.flush()
    output.flush()
    return summary


def run_shard(
    job: CorpusJob,
    source: CorpusInput,
    shard: Shard,
    path: str,
    *,
    say: Callable[[str], object],
    seen: Callable[[int, Row], object],
) -> None:
    """Write one shard into a file, unless it is there already.

    FILE.shard.json, written last, says what the file is a part of.
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
        say(f"shard {shard} is finished already: {path}")
        return
    record.unlink(missing_ok=True)
    first, last = shard.lines(total, batch_size=job.settings().infer_batch_size)
    part = f"lines {first + 1} to {last}" if first < last else "no lines"
    say(f"shard {shard}: {part} of {total}")
    with source.opened() as lines:
        loaded = job.load()
        if loaded.warning:
            say(loaded.warning)
        items = itertools.islice(lines, first, last)
        made = first

        def count(number: int, row: Row) -> None:
            nonlocal made
            made = number
            seen(number, row)

        with line_streams.Output(path, source=source.paths[0], is_whole=True) as output:
            header = shard.number == 1
            summary = write_rows(
                loaded, items, output, start=first, with_header=header, say=say, seen=count
            )
            if lines.problem:
                raise UserError(lines.problem)
            if made < last:
                raise UserError(f"{source.paths[0]} has become shorter.")
    atomic_writes.write_json(record, {**expected, "output": _digest(path)})
    for sentence in summary.lines():
        say(sentence)


def _digest(path: str | Path) -> str:
    """Return the SHA-256 of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(BLOCK):
            found.update(block)
    return found.hexdigest()
