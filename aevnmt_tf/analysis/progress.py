"""How far long work has come, on stderr: a bar in a terminal, a line now and then elsewhere.

text/progress.py is the same without the lines; it comes with TensorFlow, and scoring a file
does not need that.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator

SECONDS = 10  # between lines where stderr is no terminal


def track(
    items: Iterable, description: str, *, total: int, report: Callable[[str], object] | None
) -> Iterator:
    """Yield the items and say how far they have come.

    Args:
        items: what is worked through.
        description: what is done, such as "translating news".
        total: the number of items.
        report: called with a sentence now and then; None: nothing is said at all.
    """
    if report is None:
        yield from items
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track as bar

        console = Console(file=sys.stderr)
        yield from bar(
            items, description=description, total=total, console=console, transient=True
        )
    else:
        last = time.monotonic()
        for number, item in enumerate(items, 1):
            yield item
            if time.monotonic() - last >= SECONDS:
                last = time.monotonic()
                report(f"{description}: {number} of {total}")
