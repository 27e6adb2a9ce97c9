"""The versions of a model in a folder: loads new ones, serves one, lets old ones finish.

A version is a folder with a number as its name. The highest that can be loaded is served. A
new one is loaded and warmed up beside the one that serves; then new requests go to it, and
the old one is dropped when its last request is answered.
"""

import contextlib
import dataclasses
import gc
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import numpy as np

from aevnmt_tf.errors import UserError
from aevnmt_tf.serving import batching_params, status
from aevnmt_tf.serving.batching import Batcher, Queue
from aevnmt_tf.serving.servable import MODEL_FILE, Servable
from aevnmt_tf.serving.status import RequestError

HIGHEST = 2**63 - 1


def find(folder: Path) -> dict[int, Path]:
    """Number -> folder of every version that is there; half-written ones are not."""
    found = {}
    for path in sorted(Path(folder).iterdir()):
        # Other names are those of temporary folders.
        if path.name.isascii() and path.name.isdigit() and int(path.name) <= HIGHEST:
            if (path / MODEL_FILE).exists():
                found[int(path.name)] = path
    return found


@dataclasses.dataclass
class Version:
    """One version, as clients that ask for its status see it."""

    number: int
    state: str = "START"
    error_code: str = "OK"
    error_message: str = ""
    servable: Servable | None = None
    queues: dict[str, Queue] = dataclasses.field(default_factory=dict)
    num_requests: int = 0  # under way

    def submit(self, signature: str, inputs: Mapping[str, np.ndarray], *, rows: int) -> Future:
        """Queues a checked request."""
        return self.queues[signature].submit(inputs, rows=rows)


class Versions:
    """All versions of one model.

    `report` gets a sentence when something happens that an operator should see. `params` are
    the flags that beat a version's own batching parameters.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        model_name: str,
        batcher: Batcher,
        report: Callable[[str], None],
        poll_seconds: float = 1.0,
        params: Mapping[str, float | None] | None = None,
    ):
        self.folder = Path(folder)
        self.model_name = model_name
        self._batcher = batcher
        self._report = report
        self._poll_seconds = poll_seconds
        self._params = dict(params or {})
        self._versions: dict[int, Version] = {}
        self._current: Version | None = None
        self._failed: dict[int, tuple] = {}
        self._seen: dict[int, tuple] = {}
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._watcher: threading.Thread | None = None

    # For the server.

    def load_first(self) -> int:
        """Loads the highest version that can be; raises UserError where there is none."""
        try:
            check(self.folder)
            found = find(self.folder)
        except OSError as error:
            raise UserError(f"cannot read {self.folder}: {error.strerror}") from None
        problems = []
        for number in sorted(found, reverse=True):
            problem = self._load(number, found[number])
            if not problem:
                for sentence in problems:
                    self._report(sentence)
                return number
            problems.append(problem)
        raise UserError(problems[0])

    def start(self) -> None:
        """Watches the folder from now on."""
        self._watcher = threading.Thread(target=self._watch, name="versions", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Stops watching; a version that is being loaded is waited for."""
        self._stopping.set()
        if self._watcher is not None:
            self._watcher.join()

    # For requests.

    @contextlib.contextmanager
    def using(self, name: str, *, number: int | None = None, label: str = "") -> Iterator:
        """The version that a request asks for, kept until the request is answered."""
        version = self._acquire(name, number, label)
        try:
            yield version
        finally:
            with self._changed:
                version.num_requests -= 1
                self._changed.notify_all()

    def _acquire(self, name: str, number: int | None, label: str) -> Version:
        if label:
            raise status.invalid(f"Unrecognized servable version label: {label}")
        with self._changed:
            version = self._current
            wanted = version is not None and number in (None, version.number)
            if name != self.model_name or not wanted:
                what = f"Latest({name})" if number is None else f"Specific({name}, {number})"
                raise RequestError("NOT_FOUND", f"Servable not found for request: {what}")
            version.num_requests += 1
            return version

    def states(self, name: str, *, number: int | None = None) -> list[Version]:
        """What became of the versions, newest first."""
        with self._changed:
            known = self._versions if name == self.model_name else {}
            if number is None:
                if not known:
                    raise RequestError(
                        "NOT_FOUND", f"Could not find any versions of model {name}"
                    )
                return [dataclasses.replace(known[n]) for n in sorted(known, reverse=True)]
            if number not in known:
                raise RequestError(
                    "NOT_FOUND", f"Could not find version {number} of model {name}"
                )
            return [dataclasses.replace(known[number])]

    @property
    def current(self) -> int | None:
        """The version that is served."""
        with self._changed:
            return None if self._current is None else self._current.number

    # The watcher.

    def _watch(self) -> None:
        problem = ""
        while not self._stopping.wait(min(self._poll_seconds, threading.TIMEOUT_MAX)):
            try:
                self.poll()
                problem = ""
            except Exception as error:  # the folder may be away for a moment
                if problem != str(error):
                    self._report(f"cannot look for new versions in {self.folder}: {error}")
                problem = str(error)

    def poll(self) -> None:
        """Looks for a version to change to, once; loads it when its files have settled."""
        found = find(self.folder)
        current = self.current
        for number in sorted(found, reverse=True):
            if number == current:
                break
            files = fingerprint(found[number])
            settled = self._seen.get(number) == files
            self._seen[number] = files
            if self._failed.get(number) == files:
                continue  # nothing has changed since
            if not settled:
                break  # it may be the one to serve: wait for it
            problem = self._load(number, found[number])
            if not problem:
                break
            self._report(problem)

    def _load(self, number: int, path: Path) -> str:
        """Loads, warms up and swaps; returns what is wrong where that cannot be done."""
        files = fingerprint(path)
        version = Version(number, state="LOADING")
        with self._changed:
            self._versions[number] = version
        try:
            params = batching_params.of_version(path, **self._params)
            servable = Servable(path)
            servable.warm_up()
        except Exception as error:
            problem = status.of(error)
            with self._changed:
                version.state = "END"
                version.error_code, version.error_message = problem.code, problem.message
            self._failed[number] = files
            return f"cannot load {path}: {problem.message}"
        version.servable = servable
        version.queues = {
            name: self._batcher.queue(partial(servable.run, name), params)
            for name in servable.signatures
        }
        with self._changed:
            version.state = "AVAILABLE"
            old, self._current = self._current, version
        self._report(f"version {number} is ready")
        if old is not None:
            self._retire(old)
        return ""

    def _retire(self, version: Version) -> None:
        """Waits until a version that gets no new requests has answered those it has."""
        with self._changed:
            version.state = "UNLOADING"
            self._changed.notify_all()
            self._changed.wait_for(lambda: version.num_requests == 0)
        for queue in version.queues.values():
            self._batcher.remove(queue)
        with self._changed:
            version.queues, version.servable = {}, None
            version.state = "END"
        gc.collect()  # a SavedModel's objects refer to each other
        self._report(f"version {version.number} is unloaded")


def check(folder: Path) -> None:
    """Raises UserError where there is no version to serve."""
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {problem}: give the --export_dir of aevnmt export")
    if (folder / MODEL_FILE).exists():
        raise UserError(
            f"{folder} is one version of a model: give the folder that holds it, "
            f"{folder.resolve().parent}"
        )
    if not find(folder):
        raise UserError(f"{folder} has no version of a model: make one with aevnmt export")


def fingerprint(path: Path) -> tuple:
    """Changes when a file of the version does."""
    files = []
    for root, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):  # gone, or not for us: loading will tell
                info = os.stat(os.path.join(root, name))
                files.append((root, name, info.st_size, info.st_mtime_ns))
    return tuple(sorted(files))
