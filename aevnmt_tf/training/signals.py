"""A polite stop: SIGINT and SIGTERM become a flag that the loop reads between two steps."""

import signal
import threading
from types import FrameType
from typing import Any


class Interruption:
    """A flag: inside `with`, the first SIGINT or SIGTERM sets `requested`.

    A second one does what it would have done without us.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

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
