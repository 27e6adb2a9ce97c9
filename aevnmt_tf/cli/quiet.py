"""Hiding the log lines of TensorFlow and its libraries."""

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
    """Hide log lines and warnings of TensorFlow and its libraries, but not crash messages."""
    warnings.filterwarnings("ignore", module=rf"{_LIBRARIES}(\.|$)")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    quiet_import()


def quiet_import() -> None:
    """Hide the log lines that TensorFlow prints when it is imported for the first time.

    Log levels that are set in the environment are kept.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    waiting = any(isinstance(finder, _QuietImport) for finder in sys.meta_path)
    if "tensorflow" not in sys.modules and not waiting:
        sys.meta_path.insert(0, _QuietImport())


class _QuietImport:
    """Import hook that filters stderr while TensorFlow is imported.

    While its libraries are loaded, they write lines about missing GPUs straight to the file
    descriptor, whatever the log level is.
    """

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Return TensorFlow's spec with a quiet `exec_module`; None for other modules."""
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


# Drops the lines of absl's and TensorFlow's loggers below FATAL, and the line before them.
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
    """Drop log lines of C++ libraries from file descriptor 2, and pass everything else.

    The filter is a separate process, so it still prints the last message if the libraries abort
    this process.
    """
    try:
        terminal = os.dup(2)
    except OSError:
        terminal = None
    if terminal is None or sys.stderr is None:  # this process has no stderr
        yield
        return
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _FILTER],
        stdin=subprocess.PIPE,
        start_new_session=True,  # so that it does not receive Ctrl-C
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
