"""The ids of a training corpus on the disk, tokenised once and mapped into memory.

    FOLDER/manifest.json            what it was made from and holds; written last
    FOLDER/0.x.ids  0.x.offsets     the ids of all sources, and where each starts
    FOLDER/0.y.ids  0.y.offsets     the same of the targets
    FOLDER/1.x.ids ...              the next segmentation, with subword_sampling
    FOLDER/progress.json            while it is written: how far the files are good

Ids are uint16, or int32 where a vocabulary has more than 65,536; offsets are int64. Files have
no header: NumPy and TensorFlow map them as they are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import track
from aevnmt_tf.data.pair_counts import CorpusCounts
from aevnmt_tf.data.pair_encoding import LINES_PER_CALL, EncodedPairs, Sequences
from aevnmt_tf.data.preparation_manifest import digest
from aevnmt_tf.storage import atomic_writes, disk_errors, locks, run_directory

PROGRESS = "progress.json"
FORMAT = 1
LINES_PER_COMMIT = 1 << 19  # a kill loses the work on at most so many lines

Report = Callable[[str], object]


@dataclass(frozen=True)
class StoreChunk:
    """What some lines of a corpus add to its store.

    Args:
        num_lines: how many lines.
        dropped: see pair_encoding.EncodedChunk.  # [3]
        versions: the kept pairs in each of their segmentations.
    """

    num_lines: int
    dropped: np.ndarray
    versions: Sequence[EncodedPairs]


@dataclass(frozen=True)
class StoredPairs:
    """A corpus whose ids are mapped: its counts, segmentations, and SHA-256 by text file."""

    counts: CorpusCounts
    versions: list[EncodedPairs]
    digests: dict[str, str]


@dataclass(frozen=True)
class PairStore:
    """The store of one corpus.

    Args:
        parent: the folder of stores.
        name: what the corpus is called in sentences.
        inputs: its text files.
        made_with: all else that decides the ids; a store with other values has another folder.
        num_versions: segmentations of each pair.
        vocab_size: of the larger vocabulary.
    """

    parent: Path
    name: str
    inputs: Sequence[Path]
    made_with: Mapping[str, Any]
    num_versions: int
    vocab_size: int

    @property
    def folder(self) -> Path:
        """Where the files are."""
        # Relative to this folder, so that prepared text may move with its store.
        parent = self.parent.resolve()
        names = [os.path.relpath(path.resolve(), parent) for path in self.inputs]
        key = json.dumps([FORMAT, names, self.made_with])
        digits = hashlib.sha256(key.encode()).hexdigest()[:12]
        return self.parent / f"{Path(self.name).name}-{digits}"

    @property
    def dtype(self) -> str:
        """The type of ids."""
        return "uint16" if self.vocab_size <= 2**16 else "int32"

    def open(
        self,
        chunks: Callable[[int], Iterator[StoreChunk]],
        *,
        num_lines: Callable[[], int],
        report: Report,
    ) -> StoredPairs:
        """Return the ids, mapped; write them where they are missing, damaged or of other text.

        Args:
            chunks: called with a number of lines, yields what comes after them.
            num_lines: returns how many lines there are; called only where ids are missing.
            report: called with a sentence that says what is wrong with a store.
        """
        manifest = self._read(report=None)
        if manifest is None:
            with locks.folder_held(self.folder, busy=None):
                manifest = self._read(report=report)  # another process may have written it
                if manifest is None:
                    manifest = self._write(chunks, num_lines(), report)
        digests = {name: text["sha256"] for name, text in manifest["inputs"].items()}
        counts = CorpusCounts(**{**manifest["counts"], "name": self.name})
        return StoredPairs(counts, self._mapped(manifest) if counts.kept else [], digests)

    def _read(self, *, report: Report | None) -> dict[str, Any] | None:
        """Return the manifest of a store that is whole and of today's text, else None."""
        manifest = run_directory.read_json(self.folder / run_directory.MANIFEST)
        if not manifest:
            return None
        say: Report = report or (lambda sentence: None)
        if reason := run_directory.damage(self.folder, checksums=False):
            say(f"{self.folder} is damaged ({reason}): {self.name} is tokenised again.")
            return None
        inputs = self._digests(manifest["inputs"])
        for path, before, now in zip(
            self.inputs, manifest["inputs"].values(), inputs.values(), strict=True
        ):
            if now["sha256"] != before["sha256"]:
                say(f"{path} has changed since it was tokenised: this is done again.")
                return None
        if inputs != manifest["inputs"]:  # touched, copied or moved: not to be read each time
            manifest["inputs"] = inputs
            with contextlib.suppress(UserError):
                atomic_writes.write_json(self.folder / run_directory.MANIFEST, manifest)
        return manifest

    def _digests(self, known: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return size, time and SHA-256 of the text; a file is read where the first changed."""
        found = {}
        for path in self.inputs:
            stat, old = path.stat(), known.get(str(path), {})
            about = {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
            same = all(old.get(name) == value for name, value in about.items())
            found[str(path)] = {**about, "sha256": old["sha256"] if same else digest(path)}
        return found

    def _files(self) -> list[str]:
        return [
            f"{number}.{side}.{kind}"
            for number in range(self.num_versions)
            for side in "xy"
            for kind in ("ids", "offsets")
        ]

    def _mapped(self, manifest: Mapping[str, Any]) -> list[EncodedPairs]:
        maps = []
        for name in self._files():
            dtype = np.dtype("int64" if name.endswith("offsets") else manifest["dtype"])
            # On a disk without locks two processes may write a store.
            if (self.folder / name).stat().st_size != manifest["files"][name]["bytes"]:
                raise UserError(
                    f"another process has written {self.folder / name} at the same time: start"
                    " again when it has finished."
                )
            # Copy on write, which nobody does: TensorFlow takes no map that is read only.
            maps.append(np.memmap(self.folder / name, dtype, mode="c"))
        sides = [Sequences(*maps[n : n + 2]) for n in range(0, len(maps), 2)]
        return [EncodedPairs(*sides[n : n + 2]) for n in range(0, len(sides), 2)]

    def _write(
        self, chunks: Callable[[int], Iterator[StoreChunk]], num_lines: int, report: Report
    ) -> dict[str, Any]:
        """Write all files, going on where a process that was killed stopped."""
        with disk_errors.explained(f"write {self.folder}"):
            (self.folder / run_directory.MANIFEST).unlink(missing_ok=True)
            state = self._resumable()
            with _Files(self.folder, state["files"], dtype=self.dtype) as files:
                rest = track(
                    chunks(state["read"]),
                    f"Tokenising {self.name}, {LINES_PER_CALL:,} pairs at a time",
                    total=-(-(num_lines - state["read"]) // LINES_PER_CALL),
                    report=report,
                )
                committed = state["read"]
                for chunk in rest:
                    files.append(chunk.versions)
                    state["read"] += chunk.num_lines
                    state["dropped"] = (state["dropped"] + chunk.dropped).tolist()
                    state["kept"] += len(chunk.versions[0])
                    if state["read"] - committed >= LINES_PER_COMMIT:
                        files.flush()
                        atomic_writes.write_json(self.folder / PROGRESS, state)
                        committed = state["read"]
                files.flush()
            empty, x_long, y_long = state["dropped"]
            counts = CorpusCounts(
                self.name, state["read"], empty, x_long, y_long, state["kept"]
            )
            manifest = {
                "made_with": dict(self.made_with),
                "inputs": state["inputs"],
                "counts": dataclasses.asdict(counts),
                "dtype": self.dtype,
                "files": state["files"],
            }
            if counts.kept:  # a map must not be empty; who opens the store says what is wrong
                atomic_writes.write_json(self.folder / run_directory.MANIFEST, manifest)
            (self.folder / PROGRESS).unlink(missing_ok=True)
        return manifest

    def _resumable(self) -> dict[str, Any]:
        """Return how far the files are good; files of other text are removed."""
        state = run_directory.read_json(self.folder / PROGRESS)
        inputs = self._digests(state.get("inputs", {}))
        names = self._files()
        before = [text["sha256"] for text in state.get("inputs", {}).values()]
        same = before == [text["sha256"] for text in inputs.values()]
        if same and sorted(state["files"]) == sorted(names):
            sizes = {self.folder / n: f["bytes"] for n, f in state["files"].items()}
            if all(p.is_file() and p.stat().st_size >= size for p, size in sizes.items()):
                return state
        for name in [PROGRESS, *names]:
            # Not cut to nothing: a run that goes on may have mapped it.
            (self.folder / name).unlink(missing_ok=True)
        files = {name: {"bytes": 0, "crc32": 0} for name in names}
        return {"inputs": inputs, "files": files, "read": 0, "dropped": [0, 0, 0], "kept": 0}


class _Files:
    """The files of a store while they grow; `state` has the good bytes and CRC-32 of each."""

    def __init__(self, folder: Path, state: dict[str, dict[str, int]], *, dtype: str):
        self._state, self._dtype = state, dtype
        self._streams: dict[str, IO[bytes]] = {}
        for name, good in state.items():
            self._streams[name] = open(folder / name, "ab")
            self._streams[name].truncate(good["bytes"])

    def __enter__(self) -> _Files:
        for name in self._state:
            if name.endswith("offsets") and not self._state[name]["bytes"]:
                self._add(name, np.zeros(1, np.int64))
        return self

    def __exit__(self, *_: object) -> None:
        for stream in self._streams.values():
            stream.close()

    def append(self, versions: Sequence[EncodedPairs]) -> None:
        """Add pairs in all their segmentations."""
        for number, pairs in enumerate(versions):
            for side, sequences in (("x", pairs.x), ("y", pairs.y)):
                start = f"{number}.{side}"
                ids = sequences.ids.astype(self._dtype)
                before = self._state[f"{start}.ids"]["bytes"] // ids.itemsize
                self._add(f"{start}.ids", ids)
                self._add(f"{start}.offsets", sequences.offsets[1:] + before)

    def flush(self) -> None:
        """Wait until all is on the disk."""
        for stream in self._streams.values():
            stream.flush()
            os.fsync(stream.fileno())

    def _add(self, name: str, array: np.ndarray) -> None:
        content, state = array.tobytes(), self._state[name]
        self._streams[name].write(content)
        state["bytes"] += len(content)
        state["crc32"] = zlib.crc32(content, state["crc32"])
