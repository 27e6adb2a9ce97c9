"""Commands that are suggested to the user, spelled so that they work in the user's shell."""

import os
import shlex
import shutil
import sys
from pathlib import Path

RUNNER = "AEVNMT_RUNNER"  # tools/run sets it to its own path


def verb(name: str, *words: str) -> str:
    """Return the shell command that runs a verb; `words` are its arguments, unquoted."""
    return _joined(*_program("aevnmt", f"aevnmt_tf.{name}", (name,)), *words)


def tool(name: str, module: str, *words: str) -> str:
    """Return the shell command that runs an installed program, such as tensorboard."""
    return _joined(*_program(name, module, ()), *words)


def _program(name: str, module: str, first: tuple[str, ...]) -> tuple[str, ...]:
    if runner := os.environ.get(RUNNER):
        return (runner, name, *first)
    here = Path(sys.executable).parent
    found = shutil.which(name)
    if found is not None and Path(found).parent == here:
        return (name, *first)
    # The package is not installed, or its environment is not active.
    python = shutil.which("python")
    is_this = python is not None and Path(python).parent == here
    return ("python" if is_this else sys.executable, "-m", module)


def _joined(*words: str) -> str:
    return " ".join(shlex.quote(word) for word in words)
