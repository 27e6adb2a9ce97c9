"""Batches concurrent requests along their first axis.

Each signature of each version has its own queue. All queues share the threads that run batches.
A batch starts when it is full, or when its oldest request has waited long enough.

The threads are shared by self-clocked fair queueing (Golestani, 1994). The tag of a part is the
clock at its arrival plus the cost of all parts of its request up to this one. The part with the
lowest tag runs first, and its tag becomes the clock. Thus a short request waits for the batches
that are running, not for all parts of a large request, and only a bounded amount of work can
overtake a large request.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from operator import attrgetter

import numpy as np

from aevnmt_tf.serving import request_parts, status
from aevnmt_tf.serving.batching_file import Batching
from aevnmt_tf.serving.request_parts import Arrays, Budget, Part

# Maps inputs to outputs; the future is cancelled when no client waits for them any longer.
Run = Callable[[Arrays, Future], Arrays]
# Gets rows, rows with padding, the seconds that each part waited, and the seconds of the run.
Observe = Callable[[int, int, Sequence[float], float], None]
# If there are several threads, one of them never runs rows with more words.
LONG = 100
UNLIMITED = 2**62
NEVER = float("inf")


class Queue:
    """The requests that wait for one signature, whose function is `run`.

    A batch has at most `max_words`: rows x words of the longest row x hypotheses per row
    (`width`). `observe` is called after each batch.
    """

    def __init__(
        self,
        batcher: "Batcher",
        run: Run,
        batching: Batching,
        *,
        max_words: int = UNLIMITED,
        width: int = 1,
        observe: Observe | None = None,
    ):
        self.batching = batching
        self.budget = Budget(batching.max_batch_size, max_words, width)
        self._timeout = batching.batch_timeout_micros / 1e6
        self._batcher = batcher
        self._run = run
        self._observe = observe
        self._parts: list[Part] = []  # by tag
        with batcher.changed:
            batcher.queues.append(self)

    def close(self) -> None:
        """Remove an empty queue from the batcher."""
        with self._batcher.changed:
            self._batcher.queues.remove(self)

    def submit(self, inputs: Arrays, *, words: np.ndarray) -> Future:
        """Queue a request with its number of words per row; return the future of its outputs.

        A request that is larger than a batch runs in several batches. Raises RequestError if
        the queue is full.
        """
        words = np.maximum(words, 1)
        with self._batcher.changed:
            if self._batcher.closed:
                raise status.RequestError("UNAVAILABLE", "The server is stopping.")
            clock = self._batcher.clock
            parts = request_parts.split(inputs, words=words, budget=self.budget, clock=clock)
            if self._is_full(parts):
                self._parts = [part for part in self._parts if not part.answer.done()]
            if self._is_full(parts):
                raise status.RequestError(
                    "RESOURCE_EXHAUSTED",
                    "The batch scheduling queue to which this task was submitted is full",
                )
            self._parts = sorted([*self._parts, *parts], key=attrgetter("tag"))
            self._batcher.changed.notify()
        return parts[0].answer

    def __len__(self) -> int:
        """Return how many parts of requests wait."""
        return len(self._parts)

    # The next methods are called with the batcher's lock held.

    def _is_full(self, more: Sequence[Part]) -> bool:
        parts = [*self._parts, *more]
        most_words = self.batching.max_enqueued_batches * self.budget.words
        return bool(self._parts) and (
            sum(part.rows for part in parts) > self.batching.most_rows_waiting
            or sum(part.cost for part in parts) > most_words
        )

    @property
    def deadline(self) -> float:
        """When to start a batch: at once if it is full."""
        rows = sum(part.rows for part in self._parts)
        cost = sum(part.cost for part in self._parts)
        if rows >= self.budget.rows or cost >= self.budget.words:
            return 0.0
        return min((part.arrival for part in self._parts), default=NEVER) + self._timeout

    def first(self, longest: int) -> float:
        """Return the lowest tag of the parts whose rows have at most so many words."""
        return next((part.tag for part in self._parts if part.longest <= longest), NEVER)

    def take(self, most_words: int) -> list[Part]:
        """Return the parts of the next batch: the one with the lowest tag, and what fits."""
        batch: list[Part] = []
        left: list[Part] = []
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
            elif not part.answer.done():
                batch.append(part)
                rows, shortest, longest = rows + part.rows, low, high
        self._parts = left
        if batch:
            self._batcher.clock = max(self._batcher.clock, batch[0].tag)
        return batch

    def run(self, batch: list[Part]) -> None:
        """Run a batch and answer its requests; without the batcher's lock."""
        try:
            outputs = self._merged(batch)
        except BaseException as error:  # the thread must survive any error
            if len(batch) == 1:
                batch[0].answer.fail(error)
            else:  # run each part alone, so that only the bad request fails
                for part in batch:
                    if not part.answer.done():
                        self.run([part])
            return
        end = 0
        for part in batch:
            start, end = end, end + part.rows
            mine = {name: array[start:end] for name, array in outputs.items()}
            part.answer.add(part.number, mine)

    def _merged(self, batch: list[Part]) -> Arrays:
        """Return the outputs of a batch."""
        start = time.monotonic()
        rows = sum(part.rows for part in batch)
        padded, longest = self.batching.padded(rows), max(part.longest for part in batch)
        # Padding must not exceed the budget.
        filler = padded - rows if self.budget.cost(padded, longest) <= self.budget.words else 0
        inputs = {}
        for name in batch[0].inputs:
            arrays = [part.inputs[name] for part in batch]
            # As in TensorFlow Serving, padding repeats the first row of the last request.
            arrays += [arrays[-1][:1]] * filler
            inputs[name] = np.concatenate(arrays)
        outputs = self._run(inputs, _abandoned([part.answer for part in batch]))
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
        return outputs


def _abandoned(requests: Sequence[Future]) -> Future:
    """Return a future that is cancelled as soon as no request needs its batch any longer."""
    made: Future = Future()

    def check(_: Future) -> None:
        if all(future.done() for future in requests):
            made.cancel()

    for future in requests:
        future.add_done_callback(check)
    return made


class Batcher:
    """The threads that run the batches of all queues."""

    def __init__(self, *, num_threads: int):
        self.changed = threading.Condition()  # also guards the queues
        self.closed = False
        self.clock = 0.0  # of fair queueing
        self.queues: list[Queue] = []
        self._num_long = 0  # threads that run long rows
        self._most_long = max(1, num_threads - 1)
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{number}", daemon=True)
            for number in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Run the requests that wait, then end the threads."""
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
                self.changed.notify()  # another thread may run the rest
            if batch:
                queue.run(batch)
            with self.changed:
                self._num_long -= is_long
                if is_long:
                    self.changed.notify_all()
            # A waiting thread must not keep a model that was unloaded.
            del queue, batch

    @property
    def _most_words(self) -> int:
        """The maximum number of words of a row in the next batch."""
        return LONG if self._num_long >= self._most_long else UNLIMITED

    def _next(self) -> Queue | None:
        """Wait for a queue with a batch to run; None when the batcher is closed and done."""
        while True:
            now = time.monotonic()
            open_ = [queue for queue in self.queues if queue.first(self._most_words) < NEVER]
            ready = [queue for queue in open_ if self.closed or queue.deadline <= now]
            if ready:
                return min(ready, key=lambda queue: queue.first(self._most_words))
            if self.closed and not any(map(len, self.queues)):
                return None
            deadline = min((queue.deadline for queue in open_), default=NEVER)
            self.changed.wait(min(deadline - now, threading.TIMEOUT_MAX))
