"""The machine: its description, and how this process uses its memory and cores."""

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

_WORKER = "aevnmt worker"  # the name of threads that the process does not wait for

# Options of mallopt in glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for later allocations; without glibc, do nothing.

    Every training step and every step of beam search frees and allocates megabytes of logits.
    By default, they are returned to the system, which has to clear the pages again. That took
    a tenth of the time of a training step on a CPU, and more of a beam search.
    """
    if not sys.platform.startswith("linux"):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_MMAP_THRESHOLD, 1 << 30)
        set_option(_TRIM_THRESHOLD, (1 << 31) - 1)
        set_option(_ARENA_MAX, 1)


def give_back_freed_memory() -> None:
    """Let glibc return freed memory to the system; without glibc, do nothing.

    glibc keeps freed blocks per thread. After a model is unloaded, these are most of its
    weights.
    """
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ordered_map(
    pool: Executor, function: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Yield the results of a pool in the order of the items, with a few in progress.

    `Executor.map` would read all items before it returns the first result.
    """
    waiting: collections.deque[Future[Result]] = collections.deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) > 2 * num_cores():
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def description() -> dict[str, str | int]:
    """Return the name of the processor and the number of cores that this process may use."""
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
    """Let TensorFlow use one thread per operation, unless TF_NUM_INTRAOP_THREADS is set.

    For commands that process as many batches in parallel as there are cores: matrix products
    of a few hundred rows are too small to be split. Call this before the first operation.
    """
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")


def tune_for_throughput() -> None:
    """Configure TensorFlow to translate many sentences; call this before it is imported.

    It uses one thread per operation, and oneDNN's kernels also on processors without AVX-512,
    unless TF_ENABLE_ONEDNN_OPTS is set. Beam search is 15 % faster with them, but a single
    sentence 8 % slower.
    """
    one_thread_per_operation()
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def start_worker(function: Callable[[], None]) -> None:
    """Run a function in a thread that the process does not wait for; see `leave_workers`."""
    threading.Thread(target=function, name=_WORKER, daemon=True).start()


def leave_workers(status: int) -> None:
    """Let the process exit with this status even if workers are still computing.

    Otherwise Python would unload TensorFlow while they use it, and the process would crash.
    """
    if any(thread.name == _WORKER for thread in threading.enumerate()):
        atexit.register(_leave, status)


def _leave(status: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
