"""Handling of Ctrl-C, from the first import of a command to its end."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

INTERRUPTED = 130  # the exit code


def end_quietly_from_now_on() -> None:
    """Let SIGINT end a starting command without a traceback, until `main` is called.

    Importing the modules of a command takes a while. This has no effect unless the process was
    started as `python -m aevnmt_tf...`.
    """
    words = sys.orig_argv
    is_verb = sys.argv[:1] == ["-m"] and any(
        flag == "-m" and name.partition(".")[0] == "aevnmt_tf"
        for flag, name in zip(words, words[1:], strict=False)
    )
    is_ours = threading.current_thread() is threading.main_thread()
    if is_verb and is_ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: Any) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, b"aevnmt: interrupted\n")
    os._exit(INTERRUPTED)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let the first SIGINT raise KeyboardInterrupt and a second one end the process at once.

    The second one also works while Python is shutting down.
    """
    ours = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not ours or before not in (signal.default_int_handler, _end):
        yield
        return
    interrupted = False

    def interrupt(number: int, frame: Any) -> NoReturn:
        nonlocal interrupted
        if interrupted:
            os._exit(INTERRUPTED)
        interrupted = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if not interrupted:
            signal.signal(signal.SIGINT, before)
