"""What this process runs on, and how it uses the memory and the cores."""

import atexit
import collections
import contextlib
import ctypes
import importlib.metadata
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_WORKER = "aevnmt worker"  # the name of threads that nobody has to wait for

# Numbers of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8


def keep_freed_memory() -> None:
    """Let glibc keep what is freed for the next allocation; elsewhere this does nothing.

    A step of training, or a word of beam search, frees and allocates again megabytes of logits
    (and gradients). By default they go back to the system and return as pages to be cleared,
    which took a tenth of a training step on a CPU, and more of a beam search.
    """
    if not sys.platform.startswith("linux"):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_MMAP_THRESHOLD, 1 << 30)
        set_option(_TRIM_THRESHOLD, (1 << 31) - 1)
        set_option(_ARENA_MAX, 1)


def give_back_freed_memory() -> None:
    """Let glibc return what is freed to the system; elsewhere this does nothing.

    It keeps freed blocks for each thread that has allocated: after a model is unloaded, most of
    the memory of its weights.
    """
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def num_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ordered_map(
    pool: Executor, function: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Yield the results of a pool in the order of the items, a few of which are under way.

    `Executor.map` would read all items before it gives the first result.
    """
    waiting: collections.deque[Future[Result]] = collections.deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) > 2 * num_cores():
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def description() -> dict[str, str | int]:
    """Return which processor this is, and how many cores of it this process may use."""
    return {"processor": _processor(), "cores": num_cores()}


def versions(packages: Iterable[str], *, own: str) -> dict[str, str]:
    """Return the versions of this package (`own`), of Python and of other packages."""
    found = {"aevnmt_tf": own, "python": platform.python_version()}
    return found | {name: importlib.metadata.version(name) for name in packages}


def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def one_thread_per_operation() -> None:
    """Let TensorFlow compute an operation with one thread; to be called before its first one.

    For commands that have as many batches under way as there are cores: a product of a few
    hundred rows is too small to share, and threads that wait for each other cost more than they
    give. Whoever has set TF_NUM_INTRAOP_THREADS is obeyed.
    """
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")


def tune_for_throughput() -> None:
    """Set TensorFlow up to translate many sentences; to be called before it is imported.

    One thread per operation, and oneDNN's kernels also where TensorFlow leaves them off, on
    processors without AVX-512: beam search was measured to be 15 % faster with them, one
    sentence alone 8 % slower. Whoever has set TF_ENABLE_ONEDNN_OPTS is obeyed.
    """
    one_thread_per_operation()
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def start_worker(function: Callable[[], None]) -> None:
    """Call a function in a thread that may be left alone; see `leave_workers`."""
    threading.Thread(target=function, name=_WORKER, daemon=True).start()


def leave_workers(status: int) -> None:
    """Let the process end with this status although workers are still computing.

    Python would take TensorFlow down under their feet, and they would take the process with it.
    """
    if any(thread.name == _WORKER for thread in threading.enumerate()):
        atexit.register(_leave, status)


def _leave(status: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
