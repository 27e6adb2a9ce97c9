"""Progress on stderr: a bar in a terminal, occasional lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

SECONDS = 10  # between lines if stderr is not a terminal


def _say_nothing(sentence: str) -> None:
    pass


def track(
    items: Iterable[Item],
    description: str,
    *,
    total: int | None = None,
    report: Callable[[str], object] | None = _say_nothing,
) -> Generator[Item, None, None]:
    """Yield the items and show progress.

    Args:
        items: The items to process.
        description: What is done with them, such as "translating news".
        total: Number of items; None: their len(), if they have one.
        report: Called with a progress message every SECONDS if stderr is not a terminal; None:
            show nothing, not even a bar.
    """
    if report is None:
        yield from items
        return
    if sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track as bar

        # The console keeps the present stderr: a caller may redirect sys.stderr to hide the
        # output of a library.
        console = Console(file=sys.stderr)
        yield from bar(
            items, description=description, total=total, console=console, transient=True
        )
        return
    last = time.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        if time.monotonic() - last >= SECONDS:
            last = time.monotonic()
            report(f"{description}: {number}" + ("" if total is None else f" of {total}"))


@contextlib.contextmanager
def working(description: str) -> Iterator[None]:
    """Show a spinner in a terminal while something of unknown length is running."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(file=sys.stderr).status(description):
        yield


class LineRate:
    """Shows on stderr how many lines a command has processed, and how fast."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._start = self._last = time.monotonic()
        self._count = 0
        self._reported: int | None = None  # number of lines in the last permanent report
        self._is_terminal = sys.stderr.isatty()

    def say(self, sentence: str) -> None:
        """Print another message."""
        if self._is_terminal:
            print("\x1b[2K", end="\r", file=sys.stderr)
        print(f"{self._command}: {sentence}", file=sys.stderr, flush=True)

    def move(self, count: int) -> None:
        """Record that `count` lines are done, and report it occasionally."""
        self._count = count
        now = time.monotonic()
        if now - self._last < (0.5 if self._is_terminal else SECONDS):
            return
        self._last = now
        if self._is_terminal:
            print(f"{self._command}: {self._sentence()}", end="\r", file=sys.stderr, flush=True)
        else:
            self._report()

    def end(self) -> None:
        """Report the total, unless the last report already has."""
        if self._reported != self._count:
            self._report()

    def _report(self) -> None:
        self._reported = self._count
        self.say(self._sentence())

    def _sentence(self) -> str:
        seconds = max(time.monotonic() - self._start, 1e-9)
        lines = "1 line" if self._count == 1 else f"{self._count} lines"
        return f"{lines} in {seconds:.1f} s ({self._count / seconds:.1f} lines/s)"
