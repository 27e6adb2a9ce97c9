"""The commands that a verb suggests when it ends, in a form that works as it is typed."""

import os
import shlex
import shutil
import sys
from pathlib import Path

RUNNER = "AEVNMT_RUNNER"  # tools/run sets it to the path by which it was called


def verb(name: str, *words: str) -> str:
    """Return the command that runs a verb from the shell that started this process.

    Args:
        name: such as translate.
        words: its flags and their values, not yet quoted.
    """
    return _joined(*_program("aevnmt", f"aevnmt_tf.{name}", (name,)), *words)


def tool(name: str, module: str, *words: str) -> str:
    """Return the command that runs an installed program, such as tensorboard."""
    return _joined(*_program(name, module, ()), *words)


def _program(name: str, module: str, first: tuple[str, ...]) -> tuple[str, ...]:
    if runner := os.environ.get(RUNNER):
        return (runner, name, *first)
    here = Path(sys.executable).parent
    found = shutil.which(name)
    if found is not None and Path(found).parent == here:
        return (name, *first)
    # The package is not installed, or its environment is not active.
    python = "python" if _is_this(shutil.which("python")) else sys.executable
    return (python, "-m", module)


def _is_this(python: str | None) -> bool:
    return python is not None and Path(python).parent == Path(sys.executable).parent


def _joined(*words: str) -> str:
    return " ".join(shlex.quote(word) for word in words)
