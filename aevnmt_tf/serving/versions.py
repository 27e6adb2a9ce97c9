"""The versions of a model in a folder: loads new ones, serves one, lets old ones finish.

A version is a folder with a number as its name. The highest that can be loaded is served, and
beside it those that have a label. A new one is loaded and warmed up beside the one that serves;
then new requests go to it, and the old one is dropped when its last request is answered. What
cannot be loaded is tried again after a while, and after longer and longer ones.
"""

import contextlib
import dataclasses
import gc
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from aevnmt_tf.cli import machine
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.serving import batching_file, status
from aevnmt_tf.serving.batching import Batcher, Queue
from aevnmt_tf.serving.export_folder import Files, check, find, fingerprint
from aevnmt_tf.serving.servable import Servable, ServedSignature
from aevnmt_tf.serving.server_metrics import ServerMetrics
from aevnmt_tf.serving.server_options import ServerOptions
from aevnmt_tf.serving.status import RequestError

FIRST_WAIT, LONGEST_WAIT = 5.0, 600.0  # seconds until a version that failed is tried again


@dataclasses.dataclass
class Version:
    """One version, as clients that ask for its status see it."""

    number: int
    state: str = "START"
    error_code: str = "OK"
    error_message: str = ""
    loaded: Servable | None = None
    queues: dict[str, Queue] = dataclasses.field(default_factory=dict)
    num_requests: int = 0  # under way

    @property
    def servable(self) -> Servable:
        """The model; only while a request is using the version."""
        assert self.loaded is not None
        return self.loaded

    def admit(
        self,
        signature: ServedSignature,
        inputs: Mapping[str, np.ndarray],
        limits: ServerOptions,
    ) -> np.ndarray:
        """Return how many words each row has; refuse what would cost too much."""
        signature.check(inputs)
        limits.check_inputs(inputs)
        words = self.servable.count_words(inputs)
        limits.check_words(words)
        limits.check_reply(signature.num_values(words))
        return words


@dataclasses.dataclass
class _Failure:
    """A version that could not be loaded: its files then, and when to try again."""

    files: Files
    wait: float
    problem: str

    def __post_init__(self) -> None:
        self.again = time.monotonic() + self.wait


class Versions:
    """All versions of one model.

    `report` gets a sentence when something happens that an operator should see.
    """

    def __init__(
        self,
        options: ServerOptions,
        *,
        batcher: Batcher,
        report: Callable[[str], None],
        metrics: ServerMetrics | None = None,
        first_wait: float = FIRST_WAIT,
    ):
        self.folder = Path(options.export_dir)
        self.model_name = options.model_name
        self.labels = options.labels
        self._options = options
        self._batcher = batcher
        self._report = report
        self._metrics = metrics or ServerMetrics(options.model_name)
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
        """Load the highest version that can be, and those with labels.

        Raises UserError where there is none.
        """
        try:
            check(self.folder)
            found = find(self.folder)
        except OSError as error:
            raise UserError(f"cannot read {self.folder}: {error.strerror}") from None
        problems: list[str] = []
        for number in sorted(found, reverse=True):
            problem = self._load(number, found[number])
            if not problem:
                break
            problems.append(problem)
        else:
            raise UserError(problems[0])
        for sentence in problems:
            self._report(sentence)
        for label in sorted(set(self.labels.values()) - found.keys()):
            self._report(f"there is no version {label} yet, which has a label")
        self._promote(self._versions[number])
        self._load_labelled(found)
        return number

    def _load_labelled(self, found: Mapping[int, Path]) -> None:
        for number in sorted(set(self.labels.values()) & found.keys()):
            if not self._is_served(number) and self._is_due(number, fingerprint(found[number])):
                self._load_again(number, found[number])

    def _is_served(self, number: int) -> bool:
        return number in self._versions and self._versions[number].loaded is not None

    def _is_due(self, number: int, files: Files) -> bool:
        """Return whether a version may be tried: not where the same files have just failed."""
        failure = self._failed.get(number)
        return failure is None or failure.files != files or failure.again <= time.monotonic()

    def start(self) -> None:
        """Watch the folder from now on."""
        self._watcher = threading.Thread(target=self._watch, name="versions", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Stop watching; a version that is being loaded is waited for."""
        self._stopping.set()
        if self._watcher is not None:
            self._watcher.join()

    # For requests.

    @contextlib.contextmanager
    def using(
        self, name: str, *, number: int | None = None, label: str = ""
    ) -> Iterator[Version]:
        """Return the version that a request asks for, kept until the request is answered."""
        version = self._acquire(name, number, label)
        try:
            yield version
        finally:
            with self._changed:
                version.num_requests -= 1
                self._changed.notify_all()

    def _acquire(self, name: str, number: int | None, label: str) -> Version:
        if label:
            number = self.number_of(label)
        with self._changed:
            version = self._current if number is None else self._versions.get(number)
            if name == self.model_name and self._current is None:
                raise RequestError("UNAVAILABLE", "the model is being loaded")
            if name != self.model_name or version is None or version.state != "AVAILABLE":
                what = f"Latest({name})" if number is None else f"Specific({name}, {number})"
                raise RequestError("NOT_FOUND", f"Servable not found for request: {what}")
            version.num_requests += 1
            return version

    def number_of(self, label: str) -> int:
        """Return the version that has a label."""
        if label not in self.labels:
            raise status.invalid(f"Unrecognized servable version label: {label}")
        return self.labels[label]

    def served(self) -> list[Version]:
        """Return the versions that answer requests."""
        with self._changed:
            return [one for one in self._versions.values() if one.state == "AVAILABLE"]

    def states(self, name: str, *, number: int | None = None) -> list[Version]:
        """Return what became of the versions, newest first."""
        with self._changed:
            known = self._versions if name == self.model_name else {}
            found = sorted(known, reverse=True) if number is None else {number} & known.keys()
            if not found:
                which = "any versions" if number is None else f"version {number}"
                raise RequestError("NOT_FOUND", f"Could not find {which} of model {name}")
            return [dataclasses.replace(known[one]) for one in found]

    @property
    def current(self) -> int | None:
        """The version that is served."""
        with self._changed:
            return None if self._current is None else self._current.number

    # The watcher.

    def _watch(self) -> None:
        problem = ""
        while not self._stopping.wait(self._options.poll_seconds):
            try:
                self.poll()
                problem = ""
            except Exception as error:  # the folder may be away for a moment
                if problem != str(error):
                    self._report(f"cannot look for new versions in {self.folder}: {error}")
                problem = str(error)

    def poll(self) -> None:
        """Look for a version to change to, once; loads it when its files have settled."""
        found = find(self.folder)
        current = self.current
        for number in sorted(found, reverse=True):
            if number == current:
                break
            files = fingerprint(found[number])
            is_settled = self._seen.get(number) == files
            self._seen[number] = files
            if not self._is_due(number, files):
                continue
            if not is_settled:
                break  # it may be the one to serve: wait for it
            if self._is_served(number) or self._load_again(number, found[number]):
                self._promote(self._versions[number])
                break
        self._load_labelled(found)

    def _load_again(self, number: int, path: Path) -> bool:
        """Load a version that may have failed before; the same trouble is reported once."""
        before = self._failed.get(number)
        problem = self._load(number, path)
        if problem and (before is None or before.problem != problem):
            self._report(problem)
        return not problem

    def _load(self, number: int, path: Path) -> str:
        """Load and warm up a version; return what is wrong where that cannot be done."""
        files = fingerprint(path)
        version = Version(number, state="LOADING")
        with self._changed:
            self._versions[number] = version
        try:
            batching = batching_file.read(path, **self._options.batching)
            servable = Servable(path)
            start = time.monotonic()
            records = servable.warm_up()
        except Exception as error:
            problem = status.of(error)
            with self._changed:
                version.state = "END"
                version.error_code, version.error_message = problem.code, problem.message
            sentence = f"cannot load {path}: {problem.message}"
            old = self._failed.get(number)
            is_same = old is not None and old.files == files
            wait = min(2 * old.wait, LONGEST_WAIT) if old and is_same else self._first_wait
            self._failed[number] = _Failure(files, wait, sentence)
            return sentence
        seconds = time.monotonic() - start
        self._metrics.warmed_up(str(path), seconds=seconds, records=records, status="OK")
        self._failed.pop(number, None)
        version.loaded = servable
        version.queues = {
            name: Queue(
                self._batcher,
                partial(servable.run, name),
                batching,
                max_words=self._options.max_batch_words,
                width=servable.widths.get(name, 1),
                observe=self._metrics.batches(name, number),
            )
            for name in servable.signatures
        }
        with self._changed:
            version.state = "AVAILABLE"
        machine.give_back_freed_memory()  # of the warm-up
        self._report(f"version {number} is ready")
        return ""

    def _promote(self, version: Version) -> None:
        """Let a version that is loaded answer from now on."""
        with self._changed:
            old, self._current = self._current, version
        if old is not None and old.number not in self.labels.values():
            self._retire(old)

    def _retire(self, version: Version) -> None:
        """Wait until a version that gets no new requests has answered those it has."""
        with self._changed:
            version.state = "UNLOADING"
            self._changed.notify_all()
            self._changed.wait_for(lambda: version.num_requests == 0)
        for queue in version.queues.values():
            queue.close()
        with self._changed:
            version.queues, version.loaded = {}, None
            version.state = "END"
        gc.collect()  # a SavedModel's objects refer to each other
        machine.give_back_freed_memory()
        self._report(f"version {version.number} is unloaded")
