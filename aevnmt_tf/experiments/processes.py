"""Processes that an experiment starts: they end when it ends, however it ends."""

import contextlib
import ctypes
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

import aevnmt_tf
from aevnmt_tf.storage import locks as folder_locks

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None

Report = Callable[[str], object]


def shares_of_cores(jobs: int) -> list[frozenset[int] | None]:
    """Return the cores of each of several processes that run side by side; None: all of them.

    Processes that have a thread for each core, all on the same cores, are in each other's way.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if not 1 < jobs <= len(cores):
        return [None] * jobs
    return [
        frozenset(cores[i * len(cores) // jobs : (i + 1) * len(cores) // jobs])
        for i in range(jobs)
    ]


@dataclass
class JobCommand:
    """A command, what it reads (None: nothing) and where its output goes (None: to the log)."""

    words: Sequence[str]
    stdin: Path | None = None
    stdout: Path | None = None
    adds: bool = False  # to what stdout holds


def start(
    command: JobCommand,
    *,
    log: Path,
    locks: Iterable[int] = (),
    cores: Iterable[int] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command whose messages are added to a log file.

    Args:
        command: the command.
        log: where stderr goes, too.
        locks: file descriptors of locks that the process shall hold, too.
        cores: where it may run; None: everywhere.
    """

    def prepare() -> None:
        if _libc is not None:  # the kernel stops the process when its parent is killed
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if cores is not None:
            os.sched_setaffinity(0, cores)

    # The process finds the very package that runs here.
    here = str(Path(aevnmt_tf.__file__).resolve().parents[1])
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    program, *others = command.words
    typed = ["python" if program == sys.executable else program, *others]
    log.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        messages = stack.enter_context(open(log, "ab"))
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        messages.write(f"--- {now}: {shlex.join(typed)}\n".encode())
        messages.flush()
        stdin = stack.enter_context(open(command.stdin or os.devnull, "rb"))
        stdout: IO[bytes] = messages
        if command.stdout is not None:
            mode = "ab" if command.adds else "wb"
            stdout = stack.enter_context(open(command.stdout, mode))
        return subprocess.Popen(
            command.words,
            stdin=stdin,
            stdout=stdout,
            stderr=messages,
            env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
            pass_fds=tuple(locks),
            start_new_session=True,  # Ctrl-C is for us: it reaches the process once, from us
            preexec_fn=prepare,
        )


def stop(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Ask processes to save and stop, and wait; an interruption meanwhile kills them."""
    running = [process for process in processes if process.poll() is None]
    try:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            process.wait()
    except BaseException:
        for process in running:
            process.kill()
        for process in running:
            process.wait()
        raise


@contextlib.contextmanager
def termination_is_interruption() -> Iterator[None]:
    """Inside, SIGTERM does what Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def all_held(folders: Iterable[Path], *, report: Report) -> Iterator[list[int]]:
    """Keep other experiments out of folders; yields the descriptors of the locks.

    Processes that hold a descriptor keep the lock: after a kill, the next experiment waits
    for them.
    """
    with contextlib.ExitStack() as stack:
        different = dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders)
        yield [
            stack.enter_context(
                folder_locks.folder_held(
                    folder,
                    busy=f"another experiment is running in {folder}: wait for it, or choose "
                    "another --out.",
                    report=report,
                    instead="choose another --out",
                )
            )
            for folder in different
        ]


def last_words(log: Path) -> str:
    """Return the last line of a log file that says something."""
    try:
        text = log.read_bytes()[-4000:].decode("utf-8", errors="replace")
    except OSError:
        return ""
    said = [line.strip() for line in text.split("\n") if line.strip()]
    return said[-1] if said and not said[-1].startswith("--- ") else ""
