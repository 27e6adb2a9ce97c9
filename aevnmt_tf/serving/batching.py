"""Merges concurrent requests along their first axis and runs them together.

Every function of every version has a queue of its own; the threads that run the batches are
shared. A batch starts when it is full, or when its oldest request has waited long enough.
"""

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future

import numpy as np

from aevnmt_tf.serving import large_requests, status
from aevnmt_tf.serving.batching_params import BatchingParams

Arrays = Mapping[str, np.ndarray]


@dataclasses.dataclass
class _Task:
    inputs: Arrays
    rows: int
    deadline: float
    future: Future = dataclasses.field(default_factory=Future)

    @property
    def row_shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: array.shape[1:] for name, array in self.inputs.items()}


class Queue:
    """The requests that wait for one function."""

    def __init__(self, batcher: "Batcher", run: Callable[[Arrays], Arrays], params):
        self.params = params
        self._batcher = batcher
        self._run = run
        self._tasks: deque[_Task] = deque()
        self._rows = 0

    def submit(self, inputs: Arrays, *, rows: int) -> Future:
        """Queues a request; the future gives its outputs or its own error.

        One with more rows than a batch runs in several. Raises RequestError at once where the
        queue is full.
        """
        deadline = time.monotonic() + self.params.batch_timeout_ms / 1000
        parts = large_requests.split(inputs, rows=rows, size=self.params.max_batch_size)
        tasks = [_Task(*part, deadline) for part in parts]
        with self._batcher.changed:
            if self._batcher.closed:
                raise status.RequestError("UNAVAILABLE", "the server is stopping")
            if self._is_full(rows):
                self._forget_cancelled()
            if self._is_full(rows):
                raise status.RequestError(
                    "RESOURCE_EXHAUSTED",
                    "The batch scheduling queue to which this task was submitted is full",
                )
            self._tasks.extend(tasks)
            self._rows += rows
            self._batcher.changed.notify()
        if len(tasks) == 1:
            return tasks[0].future
        return large_requests.join([task.future for task in tasks])

    def __len__(self) -> int:
        """How many requests wait."""
        return len(self._tasks)

    # The next five are called with the batcher's lock held.

    def _is_full(self, rows: int) -> bool:
        return bool(self._tasks) and self._rows + rows > self.params.max_queue

    def _forget_cancelled(self) -> None:
        """Frees the places of those whose client has gone."""
        self._tasks = deque(task for task in self._tasks if not task.future.cancelled())
        self._rows = sum(task.rows for task in self._tasks)

    def is_ready(self, now: float) -> bool:
        """Whether a batch should start."""
        return bool(self._tasks) and (
            self._rows >= self.params.max_batch_size
            or self._tasks[0].deadline <= now
            or self._batcher.closed
        )

    @property
    def deadline(self) -> float:
        """When the oldest request has waited long enough."""
        return self._tasks[0].deadline if self._tasks else float("inf")

    def take(self) -> list[_Task]:
        """The requests of the next batch: the oldest that fit together."""
        batch: list[_Task] = []
        rows = 0
        while self._tasks:
            task = self._tasks[0]
            if batch and (
                rows + task.rows > self.params.max_batch_size
                or task.row_shapes != batch[0].row_shapes
            ):
                break
            self._tasks.popleft()
            self._rows -= task.rows
            # Those whose client has gone are left out.
            if task.future.set_running_or_notify_cancel():
                batch.append(task)
                rows += task.rows
        return batch

    def run(self, batch: list[_Task]) -> None:
        """Runs a batch and hands out what belongs to each request."""
        try:
            results = self._merged(batch)
        except BaseException as error:  # whatever it is belongs to a client, not to us
            if len(batch) == 1:
                batch[0].future.set_exception(status.of(error))
                return
            # One bad request must not spoil the others: each gets a batch of its own.
            for task in batch:
                self.run([task])
            return
        for task, result in zip(batch, results, strict=True):
            task.future.set_result(result)

    def _merged(self, batch: list[_Task]) -> list[dict[str, np.ndarray]]:
        rows = sum(task.rows for task in batch)
        filler = self.params.padded(rows) - rows
        inputs = {}
        for name in batch[0].inputs:
            parts = [task.inputs[name] for task in batch]
            if filler:
                # As TensorFlow Serving does it: the first row of the last request again.
                parts.append(np.repeat(parts[-1][:1], filler, axis=0))
            inputs[name] = np.concatenate(parts) if len(parts) > 1 else parts[0]
        outputs = self._run(inputs)
        for name, array in outputs.items():
            if array.ndim == 0 or len(array) != rows + filler:
                raise status.RequestError(
                    "FAILED_PRECONDITION",
                    f"Batched output tensor {name}: its 0th dimension does not equal the sum "
                    "of the 0th dimension sizes of the input tensors",
                )
        ends = np.cumsum([task.rows for task in batch])
        return [
            {name: array[end - task.rows : end] for name, array in outputs.items()}
            for task, end in zip(batch, ends, strict=True)
        ]


class Batcher:
    """The threads that run the batches of all queues."""

    def __init__(self, *, num_threads: int):
        # Guards every queue, too.
        self.changed = threading.Condition()
        self.closed = False
        self._queues: list[Queue] = []
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{number}", daemon=True)
            for number in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def queue(self, run: Callable[[Arrays], Arrays], params: BatchingParams) -> Queue:
        """A new queue for a function."""
        queue = Queue(self, run, params)
        with self.changed:
            self._queues.append(queue)
        return queue

    def remove(self, queue: Queue) -> None:
        """Forgets a queue that is not used any more."""
        with self.changed:
            self._queues.remove(queue)

    def close(self) -> None:
        """Finishes what waits and ends the threads."""
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
                batch = queue.take()
                # Another thread may take what is left.
                self.changed.notify()
            if batch:
                queue.run(batch)
            # While this thread waits it must not keep a model that is unloaded.
            del queue, batch

    def _next(self) -> Queue | None:
        """Waits for a queue with a batch to run; None when all is done."""
        while True:
            now = time.monotonic()
            ready = [queue for queue in self._queues if queue.is_ready(now)]
            if ready:
                return min(ready, key=lambda queue: queue.deadline)
            if self.closed:
                return None
            deadline = min((queue.deadline for queue in self._queues), default=float("inf"))
            self.changed.wait(min(deadline - now, threading.TIMEOUT_MAX))
