"""Merges concurrent requests along their first axis and runs them together.

Every function of every version has a queue of its own; the threads that run the batches are
shared. A batch starts when it is full, or when its oldest request has waited long enough.

Requests share the threads fairly: self-clocked fair queueing (Golestani, 1994). A part's tag is
the clock at its arrival plus the cost of the request's parts up to it; the lowest tag runs
first, and the clock is the tag of what runs. So a short request waits for what is running, not
for all parts of a large one, and a large one is passed by a bounded amount of work.
"""

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from operator import attrgetter

import numpy as np

from aevnmt_tf.serving import large_requests, status
from aevnmt_tf.serving.batching_file import Batching
from aevnmt_tf.serving.large_requests import Arrays, Budget

# From inputs to outputs; the future is cancelled when nobody waits for them any more.
Run = Callable[[Arrays, Future], Arrays]
# Rows and padded rows, the seconds that its parts have waited, and the seconds that it took.
Observe = Callable[[int, int, Sequence[float], float], None]
# One thread of several is kept free of rows with more words, so that short ones need not wait.
LONG = 100
UNLIMITED = 2**62


@dataclasses.dataclass(eq=False)
class _Part:
    """The rows of one request that run together."""

    inputs: Arrays
    rows: int
    shortest: int
    longest: int
    tag: float
    arrival: float
    future: Future = dataclasses.field(default_factory=Future)

    @property
    def row_shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: array.shape[1:] for name, array in self.inputs.items()}


class Queue:
    """The requests that wait for one function."""

    def __init__(
        self,
        batcher: "Batcher",
        run: Run,
        batching: Batching,
        *,
        budget: Budget,
        observe: Observe | None = None,
    ):
        self.batching = batching
        self.budget = budget
        self._timeout = batching.batch_timeout_micros / 1e6
        self._batcher = batcher
        self._run = run
        self._observe = observe
        self._parts: list[_Part] = []  # by tag
        self._rows = self._cost = 0

    def submit(self, inputs: Arrays, *, words: np.ndarray) -> Future:
        """Queue a request; the future gives its outputs or its own error.

        One that is larger than a batch runs in several. Raises RequestError at once where the
        queue is full.

        Args:
            inputs: of at least one row.
            words: how many words each row has.
        """
        words = np.maximum(words, 1)
        places = large_requests.split(words, self.budget)
        with self._batcher.changed:
            if self._batcher.closed:
                raise status.RequestError("UNAVAILABLE", "the server is stopping")
            parts = self._cut(inputs, words, places)
            if self._is_full(parts):
                self._forget_cancelled()
            if self._is_full(parts):
                raise status.RequestError(
                    "RESOURCE_EXHAUSTED",
                    "The batch scheduling queue to which this task was submitted is full",
                )
            self._set(sorted([*self._parts, *parts], key=attrgetter("tag")))
            self._batcher.changed.notify()
        if len(parts) == 1:
            return parts[0].future
        return large_requests.join([part.future for part in parts], places)

    def __len__(self) -> int:
        """Return how many parts of requests wait."""
        return len(self._parts)

    # The next ones are called with the batcher's lock held.

    def _cut(
        self, inputs: Arrays, words: np.ndarray, places: Sequence[np.ndarray]
    ) -> list[_Part]:
        tag, now, parts = self._batcher.clock, time.monotonic(), []
        for rows in places:
            few = (
                {name: array[rows] for name, array in inputs.items()}
                if len(places) > 1
                else inputs
            )
            shortest, longest = int(words[rows].min()), int(words[rows].max())
            tag += self.budget.cost(len(rows), longest)
            parts.append(_Part(few, len(rows), shortest, longest, tag, now))
        return parts

    def _set(self, parts: list[_Part]) -> None:
        self._parts = parts
        self._rows = sum(part.rows for part in parts)
        self._cost = sum(self.budget.cost(part.rows, part.longest) for part in parts)

    def _is_full(self, more: Sequence[_Part]) -> bool:
        rows = self._rows + sum(part.rows for part in more)
        cost = self._cost + sum(self.budget.cost(part.rows, part.longest) for part in more)
        return bool(self._parts) and (
            rows > self.batching.most_rows_waiting
            or cost > self.batching.max_enqueued_batches * self.budget.words
        )

    def _forget_cancelled(self) -> None:
        """Free the places of those whose client has gone."""
        self._set([part for part in self._parts if not part.future.cancelled()])

    @property
    def deadline(self) -> float:
        """When the oldest request has waited long enough."""
        if self._rows >= self.budget.rows or self._cost >= self.budget.words:
            return 0.0
        return min((part.arrival for part in self._parts), default=float("inf")) + self._timeout

    def first(self, longest: int) -> float:
        """Return the lowest tag of the parts whose rows have so many words or fewer."""
        tags = (part.tag for part in self._parts if part.longest <= longest)
        return next(tags, float("inf"))

    def take(self, most_words: int) -> list[_Part]:
        """Return the parts of the next batch: the first by tag, and those that fit to it."""
        batch: list[_Part] = []
        left: list[_Part] = []
        rows, shortest, longest = 0, UNLIMITED, 0
        for part in self._parts:
            low, high = min(shortest, part.shortest), max(longest, part.longest)
            fits = part.longest <= most_words and (
                not batch
                or (
                    self.budget.allows(rows + part.rows, shortest=low, longest=high)
                    and part.row_shapes == batch[0].row_shapes
                )
            )
            if not fits:
                left.append(part)
            elif not part.future.cancelled():  # those whose client has gone are left out
                batch.append(part)
                rows, shortest, longest = rows + part.rows, low, high
        self._set(left)
        if batch:
            self._batcher.clock = max(self._batcher.clock, batch[0].tag)
        return batch

    def run(self, batch: list[_Part]) -> None:
        """Run a batch and hand out what belongs to each request."""
        try:
            results = self._merged(batch)
        except BaseException as error:  # whatever it is belongs to a client, not to us
            if len(batch) > 1:
                # One bad request must not spoil the others: each gets a batch of its own.
                for part in batch:
                    if not part.future.cancelled():
                        self.run([part])
            elif batch[0].future.set_running_or_notify_cancel():
                batch[0].future.set_exception(status.of(error))
            return
        for part, result in zip(batch, results, strict=True):
            if part.future.set_running_or_notify_cancel():
                part.future.set_result(result)

    def _merged(self, batch: list[_Part]) -> list[dict[str, np.ndarray]]:
        start = time.monotonic()
        rows = sum(part.rows for part in batch)
        padded, longest = self.batching.padded(rows), max(part.longest for part in batch)
        # Copies fill a batch only as far as its budget goes.
        filler = padded - rows if self.budget.cost(padded, longest) <= self.budget.words else 0
        inputs = {}
        for name in batch[0].inputs:
            parts = [part.inputs[name] for part in batch]
            if filler:
                # As TensorFlow Serving does it: the first row of the last request again.
                parts.append(np.repeat(parts[-1][:1], filler, axis=0))
            inputs[name] = np.concatenate(parts) if len(parts) > 1 else parts[0]
        outputs = self._run(inputs, large_requests.abandoned([part.future for part in batch]))
        for name, array in outputs.items():
            if array.ndim == 0 or len(array) != rows + filler:
                raise status.RequestError(
                    "FAILED_PRECONDITION",
                    f"Batched output tensor {name}: its 0th dimension does not equal the sum "
                    "of the 0th dimension sizes of the input tensors",
                )
        if self._observe is not None:
            waits = [start - part.arrival for part in batch]
            self._observe(rows, rows + filler, waits, time.monotonic() - start)
        ends = np.cumsum([part.rows for part in batch])
        return [
            {name: array[end - part.rows : end] for name, array in outputs.items()}
            for part, end in zip(batch, ends, strict=True)
        ]


class Batcher:
    """The threads that run the batches of all queues."""

    def __init__(self, *, num_threads: int):
        # Guards every queue, too.
        self.changed = threading.Condition()
        self.closed = False
        self.clock = 0.0  # of fair queueing
        self._queues: list[Queue] = []
        self._num_long = 0  # threads that run long rows
        self._most_long = max(1, num_threads - 1)
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{number}", daemon=True)
            for number in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def queue(
        self,
        run: Run,
        batching: Batching,
        *,
        max_words: int = UNLIMITED,
        width: int = 1,
        observe: Observe | None = None,
    ) -> Queue:
        """Return a new queue for a function.

        Args:
            run: the function.
            batching: how its requests are put together.
            max_words: rows x words of the longest x width in a batch.
            width: hypotheses per row.
            observe: called after each batch.
        """
        budget = Budget(batching.max_batch_size, max_words, width)
        queue = Queue(self, run, batching, budget=budget, observe=observe)
        with self.changed:
            self._queues.append(queue)
        return queue

    def remove(self, queue: Queue) -> None:
        """Forget a queue that is not used any more."""
        with self.changed:
            self._queues.remove(queue)

    def close(self) -> None:
        """Finish what waits and end the threads."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while True:
            with self.changed:
                queue = self._next()
                if queue is None:
                    return
                batch = queue.take(self._most_words)
                is_long = any(part.longest > LONG for part in batch)
                self._num_long += is_long
                # Another thread may take what is left.
                self.changed.notify()
            if batch:
                queue.run(batch)
            with self.changed:
                self._num_long -= is_long
                if is_long:
                    self.changed.notify_all()
            # While this thread waits it must not keep a model that is unloaded.
            del queue, batch

    @property
    def _most_words(self) -> int:
        """How many words a row of the next batch may have."""
        return LONG if self._num_long >= self._most_long else UNLIMITED

    def _next(self) -> Queue | None:
        """Wait for a queue with a batch to run; None when all is done."""
        while True:
            now = time.monotonic()
            open_ = [q for q in self._queues if q.first(self._most_words) < float("inf")]
            ready = [queue for queue in open_ if self.closed or queue.deadline <= now]
            if ready:
                return min(ready, key=lambda queue: queue.first(self._most_words))
            if self.closed and not any(map(len, self._queues)):
                return None
            deadline = min((queue.deadline for queue in open_), default=float("inf"))
            self.changed.wait(min(deadline - now, threading.TIMEOUT_MAX))
