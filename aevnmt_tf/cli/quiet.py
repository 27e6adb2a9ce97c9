"""A terminal without the log lines of TensorFlow's libraries."""

import contextlib
import importlib.util
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

_LIBRARIES = (
    r"(absl|google|jax|keras|tensorflow|tensorflow_probability|tensorflow_text|tf_keras)"
)


def quiet_tensorflow() -> None:
    """Hide the log lines and warnings of TensorFlow and its libraries in this process.

    Errors still arrive as Python exceptions, and a crash still prints its last message.
    """
    warnings.filterwarnings("ignore", module=rf"{_LIBRARIES}(\.|$)")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    quiet_import()


def quiet_import() -> None:
    """Hide the log lines that TensorFlow prints when it is imported.

    Does nothing once TensorFlow is imported. Log levels that the environment sets stay.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    waiting = any(isinstance(finder, _QuietImport) for finder in sys.meta_path)
    if "tensorflow" not in sys.modules and not waiting:
        sys.meta_path.insert(0, _QuietImport())


class _QuietImport:
    """Filters stderr while TensorFlow is imported, whoever imports it first.

    While its libraries are loaded, the log level is not yet read, and lines about missing GPUs
    are written straight to the file descriptor.
    """

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Return TensorFlow's own spec with a quiet `exec_module`; None for all else."""
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                with filtered_stderr():
                    load(module)
                if "absl.logging" in sys.modules:
                    sys.modules["absl.logging"].set_verbosity("error")

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


# The lines of absl's and TensorFlow's loggers below FATAL, and the line that comes before them.
_FILTER = r"""
import os, re
chatter = re.compile(rb"[IWE]\d{4} \d\d:\d\d:|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] "
                     rb"|WARNING: All log messages before absl::InitializeLog")
with open(0, "rb") as lines:
    for line in lines:
        if not chatter.match(line):
            os.write(2, line)
"""


@contextlib.contextmanager
def filtered_stderr() -> Iterator[None]:
    """Drop log lines of C++ libraries from file descriptor 2; all else passes.

    The filter is a process of its own: when the libraries abort this one, their last words
    still come through.
    """
    try:
        terminal = os.dup(2)
    except OSError:
        terminal = None
    if terminal is None or sys.stderr is None:  # Python started without one.
        yield
        return
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _FILTER],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for us.
    ) as process:
        assert process.stdin is not None
        sys.stderr.flush()
        os.dup2(process.stdin.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
