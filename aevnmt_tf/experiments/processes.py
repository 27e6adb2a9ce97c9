"""The processes of an experiment, which end with it even if it is killed."""

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
from typing import IO

import aevnmt_tf
from aevnmt_tf.storage import locks as folder_locks

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None

Report = Callable[[str], object]


def shares_of_cores(jobs: int) -> list[frozenset[int] | None]:
    """Divide the cores between concurrent processes; None: all cores.

    Without that, each process would start one thread per core, and they would compete.
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
    """A command, its input (None: nothing) and the file for its output (None: the log)."""

    words: Sequence[str]
    stdin: Path | None = None
    stdout: Path | None = None
    adds: bool = False  # append to stdout


def start(
    command: JobCommand,
    *,
    log: Path,
    locks: Iterable[int] = (),
    cores: Iterable[int] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command that logs to a file, inherits locks, and runs on some or all cores."""

    def prepare() -> None:
        if _libc is not None:  # the kernel stops the process when its parent is killed
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if cores is not None:
            os.sched_setaffinity(0, cores)

    # The process imports the same package as this one.
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
            start_new_session=True,  # Ctrl-C reaches the process once, through `stop`
            preexec_fn=prepare,
        )


def stop(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Let processes save and stop, and wait for them; another interruption kills them."""
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
    """Let SIGTERM do the same as Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def all_held(folders: Iterable[Path], *, report: Report) -> Iterator[list[int]]:
    """Lock folders against other experiments; yields the descriptors of the locks.

    Processes that inherit a descriptor keep the lock: after a kill, the next experiment waits
    for them.
    """
    instead = "choose another --out"
    with contextlib.ExitStack() as stack:
        descriptors = []
        for folder in dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders):
            busy = f"another experiment is running in {folder}: wait for it, or {instead}."
            lock = folder_locks.folder_held(folder, busy=busy, report=report, instead=instead)
            descriptors.append(stack.enter_context(lock))
        yield descriptors


def last_words(log: Path) -> str:
    """Return the last line of a log file that is not empty."""
    try:
        text = log.read_bytes()[-4000:].decode("utf-8", errors="replace")
    except OSError:
        return ""
    said = [line.strip() for line in text.split("\n") if line.strip()]
    return said[-1] if said and not said[-1].startswith("--- ") else ""
