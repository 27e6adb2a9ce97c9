"""A progress bar for long work: on standard error, and only where that is a terminal."""

import contextlib
import sys
from collections.abc import Generator, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def track(
    items: Iterable[Item], description: str, *, total: int | None = None
) -> Generator[Item, None, None]:
    """Yield the items and show how far they have come.

    Args:
      items: what is worked through.
      description: the words before the bar.
      total: the number of items; None = their len(), where they have one.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track as rich_track

    # The console keeps today's stderr: a caller may redirect the name for a library's chatter.
    console = Console(file=sys.stderr)
    yield from rich_track(
        items, description=description, total=total, console=console, transient=True
    )


@contextlib.contextmanager
def working(description: str) -> Iterator[None]:
    """Show that something of unknown length is going on."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(file=sys.stderr).status(description):
        yield
