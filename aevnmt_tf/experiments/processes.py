"""Processes that an experiment starts: they end when it ends, however it ends."""

import contextlib
import ctypes
import fcntl
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import aevnmt_tf
from aevnmt_tf.errors import UserError

PATIENCE = 120  # seconds to wait for processes of an experiment that was killed
_PR_SET_PDEATHSIG = 1


def verb(name: str, *flags: str) -> list[str]:
    """The command of a verb with its flags."""
    return [sys.executable, "-m", f"aevnmt_tf.{name}", *flags]


def shown(words: Sequence[str]) -> str:
    """A command as a person types it."""
    python = ["python"] if words[0] == sys.executable else [words[0]]
    return shlex.join([*python, *words[1:]])


def shares_of_cores(jobs: int) -> list[frozenset[int] | None]:
    """The cores of each of several processes that run side by side; None: all of them.

    Processes that have a thread for each core, all on the same cores, are in each other's way.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if not 1 < jobs <= len(cores):
        return [None] * jobs
    return [
        frozenset(cores[i * len(cores) // jobs : (i + 1) * len(cores) // jobs])
        for i in range(jobs)
    ]


def start(
    words: Sequence[str],
    *,
    log: Path,
    stdin=None,
    stdout=None,
    locks: Iterable[int] = (),
    cores: Iterable[int] | None = None,
) -> subprocess.Popen:
    """Start a command whose messages are added to a log file.

    Args:
        words: the command.
        log: where stderr goes, and stdout unless that is given.
        stdin: an open file; None: nothing to read.
        stdout: an open file.
        locks: file descriptors of locks that the process shall hold, too.
        cores: where it may run; None: everywhere.
    """

    def prepare():
        _follow_parent()
        if cores is not None:
            os.sched_setaffinity(0, cores)

    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as file:
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write(f"--- {now}: {shown(words)}\n".encode())
        file.flush()
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=file if stdout is None else stdout,
            stderr=file,
            env={**os.environ, "PYTHONPATH": _python_path(), "PYTHONUNBUFFERED": "1"},
            pass_fds=tuple(locks),
            start_new_session=True,  # Ctrl-C is for us: it reaches the process once, from us
            preexec_fn=prepare,
        )


def _python_path() -> str:
    """Where the process finds the very package that runs here."""
    here = str(Path(aevnmt_tf.__file__).resolve().parents[1])
    return os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _follow_parent() -> None:
    """Have the kernel stop this process when its parent is killed."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def stop(processes: Iterable[subprocess.Popen]) -> None:
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
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number, frame):
    raise KeyboardInterrupt


@contextlib.contextmanager
def locked(folder: Path, *, report) -> Iterator[int]:
    """Keep other experiments out of a folder; yields the descriptor of the lock.

    Processes that hold the descriptor keep the lock: after a kill, the next experiment waits
    for them.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / ".lock", "a+")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"cannot write into {folder}: {error.strerror}") from None
    with file:
        _wait_for(file, folder, report=report)
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield file.fileno()


@contextlib.contextmanager
def all_locked(folders: Iterable[Path], *, report) -> Iterator[list[int]]:
    """Keep other experiments out of several folders; yields the descriptors of the locks."""
    with contextlib.ExitStack() as stack:
        different = dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders)
        yield [stack.enter_context(locked(folder, report=report)) for folder in different]


def _wait_for(file, folder, *, report) -> None:
    end, said = time.monotonic() + PATIENCE, False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip()
            if (owner.isdigit() and _is_alive(int(owner))) or time.monotonic() > end:
                raise UserError(
                    f"another experiment is running in {folder}: wait for it, or choose "
                    "another --out"
                ) from None
            if not said:
                report(f"waiting for processes of an experiment that was killed in {folder}")
                said = True
            time.sleep(0.2)
        except OSError:
            return  # a file system without locks, such as some network ones


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def last_words(log: Path) -> str:
    """The last line of a log file that says something."""
    try:
        text = log.read_bytes()[-4000:].decode("utf-8", errors="replace")
    except OSError:
        return ""
    said = [line.strip() for line in text.split("\n") if line.strip()]
    return said[-1] if said and not said[-1].startswith("--- ") else ""
