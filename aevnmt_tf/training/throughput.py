"""Time: how long a run has taken, how fast it is, how long it will take."""

import contextlib
import time
from collections.abc import Callable, Hashable, Iterator


class Stopwatch:
    """The time of a run over all its restarts; a step is one batch here.

    The rate excludes evaluations, checkpoints and the first step of each batch shape, which
    waits for tracing and compilation.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._earlier = 0.0  # seconds of the run before this process
        self._shapes: set[Hashable] = set()
        self._counting_since: float | None = None
        self._counted = 0.0  # seconds of this report's ordinary steps
        self._steps = self._ordinary = 0  # of this report

    def total(self) -> float:
        """Return the seconds of the run so far."""
        return self._earlier + self._clock() - self._began

    def start(self) -> None:
        """Start to count the time of steps."""
        if self._counting_since is None:
            self._counting_since = self._clock()

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Exclude a block from the time of steps."""
        counting = self._counting_since is not None
        if counting:
            self._counted, self._counting_since = self._counted_now(), None
        try:
            yield
        finally:
            if counting:
                self.start()

    @contextlib.contextmanager
    def step(self, shape: Hashable) -> Iterator[bool]:
        """Count one step; yield whether it is the first of its shape, which is not timed."""
        first = shape not in self._shapes
        self._shapes.add(shape)
        self._steps += 1
        self._ordinary += not first
        with self.pause() if first else contextlib.nullcontext():
            yield first

    def rate(self, pairs: float) -> float:
        """Return pairs per second in this report; 0 if no ordinary step was measured."""
        seconds = self._counted_now()
        if not self._ordinary or seconds <= 0.0:
            return 0.0
        return pairs * self._ordinary / self._steps / seconds

    def lap(self) -> None:
        """Start the next report."""
        self._counted = 0.0
        self._steps = self._ordinary = 0
        if self._counting_since is not None:
            self._counting_since = self._clock()

    def left(self, steps: int, *, max_minutes: float | None = None) -> float | None:
        """Return the seconds for so many steps or for the rest of the budget, if shorter.

        None if no ordinary step was measured and there is no budget.
        """
        candidates = []
        if self._ordinary:
            candidates.append(self._counted_now() / self._ordinary * max(0, steps))
        if max_minutes is not None:
            candidates.append(max(0.0, 60 * max_minutes - self.total()))
        return min(candidates, default=None)

    def state(self) -> dict[str, float]:
        """Return what a checkpoint must hold."""
        return {
            "seconds": self.total(),
            "report_seconds": self._counted_now(),
            "report_steps": self._steps,
            "report_ordinary_steps": self._ordinary,
        }

    def restore(self, state: dict[str, float]) -> None:
        """Continue from the state in a checkpoint."""
        self._earlier, self._began = state["seconds"], self._clock()
        self._counted = state["report_seconds"]
        self._steps = int(state["report_steps"])
        self._ordinary = int(state["report_ordinary_steps"])

    def _counted_now(self) -> float:
        running = 0.0 if self._counting_since is None else self._clock() - self._counting_since
        return self._counted + running
