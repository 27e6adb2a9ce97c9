"""What every test gets: a quiet TensorFlow with few threads, and fixed seeds."""

import os
import random
import signal
import sys

import hypothesis
import pytest

WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
THREADS = max(1, (os.cpu_count() or 1) // WORKERS)

# TensorFlow reads these when it is imported, so they are set before any test module is.
# Processes that a test starts inherit them.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # the workers share a GPU
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(THREADS))
os.environ.setdefault("TF_NUM_INTEROP_THREADS", str(THREADS))
os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
# A command that a test calls would set it for the processes of later tests, too.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["KERAS_BACKEND"] = "tensorflow"

# A shell in the background ignores Ctrl-C, and so would what the tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in each run; no deadline, because the first call of a graph traces it.
hypothesis.settings.register_profile("aevnmt", deadline=None, derandomize=True)
hypothesis.settings.load_profile("aevnmt")

SEED = 1
_seeded = []  # nothing, or that TensorFlow is


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seeds TensorFlow once, before any fixture of a module has traced a graph.

    Seeding throws away every optimised graph, and noise of ours is a function of its arguments.
    TensorFlow is not imported for the tests that do without it.
    """
    if "tensorflow" in sys.modules and not _seeded:
        sys.modules["tensorflow"].random.set_seed(SEED)
        _seeded.append(True)


@pytest.fixture(autouse=True)
def seed() -> int:
    """Seeds the other random generators that are loaded, and gives the seed."""
    random.seed(SEED)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(SEED)
    return SEED
