"""The ids of a training corpus on disk, tokenised once and mapped into memory.

    FOLDER/manifest.json            inputs, counts and checksums; written last
    FOLDER/0.x.ids  0.x.offsets     the ids of all sources, and where each starts
    FOLDER/0.y.ids  0.y.offsets     the same for the targets
    FOLDER/1.x.ids ...              the next segmentation, with subword_sampling
    FOLDER/progress.json            while the store is written: how much of the files is valid

Ids are uint16, or int32 for a vocabulary of more than 65,536 words; offsets are int64. The
files have no header, so that NumPy and TensorFlow can map them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import track
from aevnmt_tf.data import pair_encoding
from aevnmt_tf.data.pair_counts import CorpusCounts
from aevnmt_tf.data.pair_encoding import EncodedPairs, PairEncoder, Sequences
from aevnmt_tf.data.pairs import Pairs
from aevnmt_tf.storage import atomic_writes, disk_errors, locks, run_directory

PROGRESS = "progress.json"
FORMAT = 1
LINES_PER_COMMIT = 1 << 19  # a kill loses the work on at most this many lines

Report = Callable[[str], object]


@dataclass(frozen=True)
class StoredPairs:
    """A mapped corpus: its counts, its segmentations, and the SHA-256 of each text file."""

    counts: CorpusCounts
    versions: list[EncodedPairs]
    digests: dict[str, str]


@dataclass(frozen=True)
class PairStore:
    """The store of one corpus.

    Args:
        parent: The folder of stores.
        name: The name of the corpus in messages.
        inputs: Its text files.
        made_with: Everything else that determines the ids. Other values get another folder.
        num_versions: The number of segmentations per pair.
        vocab_size: The size of the larger vocabulary.
    """

    parent: Path
    name: str
    inputs: Sequence[Path]
    made_with: Mapping[str, Any]
    num_versions: int
    vocab_size: int

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        # Relative names, so that prepared text can be moved together with its store.
        parent = self.parent.resolve()
        names = [os.path.relpath(path.resolve(), parent) for path in self.inputs]
        key = json.dumps([FORMAT, names, self.made_with])
        digits = hashlib.sha256(key.encode()).hexdigest()[:12]
        return self.parent / f"{Path(self.name).name}-{digits}"

    @property
    def dtype(self) -> str:
        """The type of the ids."""
        return "uint16" if self.vocab_size <= 2**16 else "int32"

    def open(
        self, read: Callable[[], Pairs], *, encoder: PairEncoder, report: Report
    ) -> StoredPairs:
        """Map the ids. Write them first if they are missing, damaged or of other text.

        Args:
            read: Returns the pairs. Called only if ids must be written.
            encoder: Tokenises the pairs.
            report: Called with a message if an existing store cannot be used.
        """
        manifest = self._read(report=None)
        if manifest is None:
            with locks.folder_held(self.folder, busy=None):
                manifest = self._read(report=report)  # another process may have written it
                if manifest is None:
                    manifest = self._write(read(), encoder, report)
        digests = {name: text["sha256"] for name, text in manifest["inputs"].items()}
        counts = CorpusCounts(**{**manifest["counts"], "name": self.name})
        return StoredPairs(counts, self._mapped(manifest) if counts.kept else [], digests)

    def _read(self, *, report: Report | None) -> dict[str, Any] | None:
        """Return the manifest if the store is intact and up to date, else None."""
        manifest = run_directory.read_json(self.folder / run_directory.MANIFEST)
        if not manifest:
            return None
        say: Report = report or (lambda message: None)
        if reason := run_directory.damage(self.folder, checksums=False):
            say(f"{self.folder} is damaged ({reason}), so {self.name} is tokenised again.")
            return None
        inputs = self._digests(manifest["inputs"])
        for path, before, now in zip(
            self.inputs, manifest["inputs"].values(), inputs.values(), strict=True
        ):
            if now["sha256"] != before["sha256"]:
                say(f"{path} has changed since it was tokenised, so it is tokenised again.")
                return None
        if inputs != manifest["inputs"]:  # touched, copied or moved: do not read it every time
            manifest["inputs"] = inputs
            with contextlib.suppress(UserError):
                atomic_writes.write_json(self.folder / run_directory.MANIFEST, manifest)
        return manifest

    def _digests(self, known: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return size, time and SHA-256 of each file; read it if size or time has changed."""
        found = {}
        for path in self.inputs:
            stat, old = path.stat(), known.get(str(path), {})
            about = {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
            same = all(old.get(name) == value for name, value in about.items())
            sha256 = old["sha256"] if same else run_directory.digest(path)
            found[str(path)] = {**about, "sha256": sha256}
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
            # On a disk without locks, two processes may write the same store.
            if (self.folder / name).stat().st_size != manifest["files"][name]["bytes"]:
                raise UserError(
                    f"another process has written {self.folder / name} at the same time: start "
                    "again when it has finished."
                )
            # Copy-on-write, because TensorFlow does not accept read-only maps.
            maps.append(np.memmap(self.folder / name, dtype, mode="c"))
        sides = [Sequences(*maps[n : n + 2]) for n in range(0, len(maps), 2)]
        return [EncodedPairs(*sides[n : n + 2]) for n in range(0, len(sides), 2)]

    def _write(self, pairs: Pairs, encoder: PairEncoder, report: Report) -> dict[str, Any]:
        """Write all files; continue where a killed process stopped."""
        with disk_errors.explained(f"write {self.folder}"):
            (self.folder / run_directory.MANIFEST).unlink(missing_ok=True)
            state = self._resumable()
            with _Files(self.folder, state["files"], dtype=self.dtype) as files:
                committed = state["read"]
                size = pair_encoding.LINES_PER_CALL
                rest = track(
                    encoder.chunks(pairs, first=committed),
                    f"Tokenising {self.name}, {size:,} pairs at a time",
                    total=-(-(len(pairs) - committed) // size),
                    report=report,
                )
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
            if counts.kept:  # empty files cannot be mapped; the caller reports the error
                atomic_writes.write_json(self.folder / run_directory.MANIFEST, manifest)
            (self.folder / PROGRESS).unlink(missing_ok=True)
        return manifest

    def _resumable(self) -> dict[str, Any]:
        """Return how much of the files is valid; remove files of other text."""
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
            # Not truncated, because a running process may have mapped it.
            (self.folder / name).unlink(missing_ok=True)
        files = {name: {"bytes": 0, "crc32": 0} for name in names}
        return {"inputs": inputs, "files": files, "read": 0, "dropped": [0, 0, 0], "kept": 0}


class _Files:
    """The growing files of a store. `state` has the valid bytes and the CRC-32 of each."""

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
        """Append pairs in all their segmentations."""
        for number, pairs in enumerate(versions):
            for side, sequences in (("x", pairs.x), ("y", pairs.y)):
                start = f"{number}.{side}"
                ids = sequences.ids.astype(self._dtype)
                before = self._state[f"{start}.ids"]["bytes"] // ids.itemsize
                self._add(f"{start}.ids", ids)
                self._add(f"{start}.offsets", sequences.offsets[1:] + before)

    def flush(self) -> None:
        """Flush everything to disk."""
        for stream in self._streams.values():
            stream.flush()
            os.fsync(stream.fileno())

    def _add(self, name: str, array: np.ndarray) -> None:
        content, state = array.tobytes(), self._state[name]
        self._streams[name].write(content)
        state["bytes"] += len(content)
        state["crc32"] = zlib.crc32(content, state["crc32"])
