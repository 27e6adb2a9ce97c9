"""The versions of a model: loads new ones, serves one, unloads old ones.

The server answers with the highest version that can be loaded. Versions with a label stay
loaded beside it. A new version is loaded and warmed up while the old one serves. Then it
answers new requests, and the old one is unloaded after its last request. A version that cannot
be loaded is retried at increasing intervals.
"""

import contextlib
import dataclasses
import gc
import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from aevnmt_tf.cli import machine
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.serving import batching_file, status
from aevnmt_tf.serving.batching import Batcher, Queue
from aevnmt_tf.serving.export_folder import Files, check, find, fingerprint
from aevnmt_tf.serving.servable import Servable
from aevnmt_tf.serving.server_metrics import ServerMetrics
from aevnmt_tf.serving.server_options import ServerOptions
from aevnmt_tf.serving.status import Report, RequestError

FIRST_WAIT, LONGEST_WAIT = 5.0, 600.0  # seconds until a failed version is retried


@dataclasses.dataclass
class Version:
    """A version and its state, as TensorFlow Serving names it."""

    number: int
    state: str = "LOADING"
    error_code: str = "OK"
    error_message: str = ""
    loaded: Servable | None = None
    queues: dict[str, Queue] = dataclasses.field(default_factory=dict)
    num_requests: int = 0  # in progress

    @property
    def servable(self) -> Servable:
        """The model, which is loaded as long as a request uses the version."""
        assert self.loaded is not None
        return self.loaded


@dataclasses.dataclass
class _Failure:
    """A version that could not be loaded."""

    files: Files
    wait: float
    problem: str

    def __post_init__(self) -> None:
        self.again = time.monotonic() + self.wait


class Versions:
    """All versions of a model; `report` gets messages for the operator."""

    def __init__(
        self,
        options: ServerOptions,
        *,
        batcher: Batcher,
        report: Report,
        metrics: ServerMetrics | None = None,
        first_wait: float = FIRST_WAIT,
    ):
        self.options = options
        self.model_name = options.model_name
        self.report = report
        self.metrics = metrics or ServerMetrics(options.model_name)
        self._folder = Path(options.export_dir)
        self._labels = options.labels
        self._batcher = batcher
        self._first_wait = first_wait
        self._versions: dict[int, Version] = {}
        self._current: Version | None = None
        self._failed: dict[int, _Failure] = {}
        self._seen: dict[int, Files] = {}
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._watcher: threading.Thread | None = None

    # For the server.

    def load_first(self) -> int:
        """Load and return the highest version that can be loaded, and load labelled ones.

        Raises UserError if there is none.
        """
        try:
            check(self._folder)
            found = find(self._folder)
        except OSError as error:
            raise UserError(f"cannot read {self._folder}: {error.strerror}.") from None
        problems = self._update(found, is_first=True)
        if self._current is None:
            raise UserError(problems[0])
        problems += [
            f"version {number} has a label but does not exist yet"
            for number in sorted(set(self._labels.values()) - found.keys())
        ]
        for problem in problems:
            self.report(problem)
        return self._current.number

    def start(self) -> None:
        """Start watching the folder."""
        self._watcher = threading.Thread(target=self._watch, name="versions", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Stop watching the folder; waits for a version that is being loaded."""
        self._stopping.set()
        if self._watcher is not None:
            self._watcher.join()

    # For requests.

    @contextlib.contextmanager
    def using(
        self, name: str, *, number: int | None = None, label: str = ""
    ) -> Iterator[Version]:
        """Yield the version that a request asks for, and keep it loaded until the end."""
        version = self._acquire(name, self._number(number, label))
        try:
            yield version
        finally:
            with self._changed:
                version.num_requests -= 1
                self._changed.notify_all()

    def _acquire(self, name: str, number: int | None) -> Version:
        with self._changed:
            version = self._current if number is None else self._versions.get(number)
            if name == self.model_name and self._current is None:
                raise RequestError("UNAVAILABLE", "The model is being loaded.")
            if name != self.model_name or version is None or version.state != "AVAILABLE":
                what = f"Latest({name})" if number is None else f"Specific({name}, {number})"
                raise RequestError("NOT_FOUND", f"Servable not found for request: {what}")
            version.num_requests += 1
            return version

    def _number(self, number: int | None, label: str) -> int | None:
        if label and label not in self._labels:
            raise status.invalid(f"Unrecognized servable version label: {label}")
        return self._labels[label] if label else number

    def served(self) -> list[Version]:
        """Return the versions that answer requests."""
        with self._changed:
            return [one for one in self._versions.values() if one.state == "AVAILABLE"]

    def states(self, name: str, *, number: int | None = None, label: str = "") -> list[Version]:
        """Return the state of one version, or of all, newest first."""
        number = self._number(number, label)
        with self._changed:
            known = self._versions if name == self.model_name else {}
            found = sorted(known, reverse=True) if number is None else {number} & known.keys()
            if not found:
                which = "any versions" if number is None else f"version {number}"
                raise RequestError("NOT_FOUND", f"Could not find {which} of model {name}")
            return [dataclasses.replace(known[one]) for one in found]

    @property
    def current(self) -> int | None:
        """The version that answers requests which name none."""
        with self._changed:
            return None if self._current is None else self._current.number

    # The watcher.

    def _watch(self) -> None:
        problem = ""
        while not self._stopping.wait(self.options.poll_seconds):
            try:
                self.poll()
                problem = ""
            except Exception as error:  # the folder may be unavailable for a moment
                if problem != str(error):
                    self.report(f"cannot look for new versions in {self._folder}: {error}")
                problem = str(error)

    def poll(self) -> None:
        """Look for new versions once, and load those whose files do not change any longer."""
        for problem in self._update(find(self._folder)):
            self.report(problem)

    def _update(self, found: Mapping[int, Path], *, is_first: bool = False) -> list[str]:
        """Load the versions that should be served; return new problems.

        Except for the first version, wait until the files of a version stop changing.
        """
        problems: list[str] = []
        for number in sorted(found, reverse=True):
            if number == self.current:
                break
            files = fingerprint(found[number])
            has_settled = is_first or self._seen.get(number) == files
            self._seen[number] = files
            if not self._is_due(number, files):
                continue
            if not has_settled:
                break  # do not load a lower one: this one may work
            if self._load(number, found[number], problems):
                self._promote(self._versions[number])
                break
        for number in sorted(set(self._labels.values()) & found.keys()):
            if self._is_due(number, fingerprint(found[number])):
                self._load(number, found[number], problems)
        return problems

    def _is_due(self, number: int, files: Files) -> bool:
        """Return whether to try a version: not if the same files have just failed."""
        failure = self._failed.get(number)
        return failure is None or failure.files != files or failure.again <= time.monotonic()

    def _load(self, number: int, path: Path, problems: list[str]) -> bool:
        """Load and warm up a version; return whether it is served.

        Adds to `problems`, unless the problem is the same as before.
        """
        if number in self._versions and self._versions[number].loaded is not None:
            return True
        files = fingerprint(path)
        version = Version(number)
        with self._changed:
            self._versions[number] = version
        try:
            batching = batching_file.read(path, **self.options.batching)
            servable = Servable(path)
            start = time.monotonic()
            records = servable.warm_up()
        except Exception as error:
            found = status.of(error)
            with self._changed:
                version.state = "END"
                version.error_code, version.error_message = found.code, found.message
            self._fail(number, files, f"cannot load {path}: {found.message}", problems)
            return False
        seconds = time.monotonic() - start
        self.metrics.warmed_up(str(path), seconds=seconds, records=records)
        self._failed.pop(number, None)
        version.loaded = servable
        version.queues = {
            name: Queue(
                self._batcher,
                partial(servable.run, name),
                batching,
                max_words=self.options.max_batch_words,
                width=servable.widths.get(name, 1),
                observe=self.metrics.batches(name, number),
            )
            for name in servable.signatures
        }
        with self._changed:
            version.state = "AVAILABLE"
        machine.give_back_freed_memory()  # of the warm-up
        self.report(f"version {number} is ready")
        return True

    def _fail(self, number: int, files: Files, problem: str, problems: list[str]) -> None:
        """Note when to retry a version; the wait doubles while its files stay the same."""
        old, wait = self._failed.get(number), self._first_wait
        if old is None or old.problem != problem:
            problems.append(problem)
        if old is not None and old.files == files:
            wait = min(2 * old.wait, LONGEST_WAIT)
        self._failed[number] = _Failure(files, wait, problem)

    def _promote(self, version: Version) -> None:
        """Let a loaded version answer new requests, and unload the old one."""
        with self._changed:
            old, self._current = self._current, version
            if old is None or old.number in self._labels.values():
                return
            old.state = "UNLOADING"
            self._changed.notify_all()
            self._changed.wait_for(lambda: old.num_requests == 0)
        for queue in old.queues.values():
            queue.close()
        with self._changed:
            old.queues, old.loaded, old.state = {}, None, "END"
        gc.collect()  # the objects of a SavedModel refer to each other
        machine.give_back_freed_memory()
        self.report(f"version {old.number} is unloaded")
