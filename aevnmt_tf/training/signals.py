"""A polite stop: a signal becomes a flag that the loop reads between two steps.

SIGINT is Ctrl-C, SIGTERM comes from Slurm and Kubernetes before they end a job, and SIGUSR1 is
what `sbatch --signal=USR1@120` sends ahead of the time limit.
"""

import signal
import threading
from types import FrameType
from typing import Any


class Interruption:
    """A flag: inside `with`, the first of SIGNALS sets `requested`.

    A second one does what it would have done without us.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        # Python only lets the main thread handle signals; elsewhere the caller's rules stay.
        if threading.current_thread() is threading.main_thread():
            for number in self.SIGNALS:
                self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
