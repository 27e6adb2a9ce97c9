"""What every verb shares: flags, one-sentence errors, exit codes and a quiet terminal.

A verb is a module with

    def parser() -> command.Parser
    def run(args) -> int
    def main(argv=None) -> int: return command.main(run, parser=parser(), argv=argv)
"""

import argparse
import contextlib
import importlib.util
import logging
import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from aevnmt_tf.cli import extras
from aevnmt_tf.cli.errors import UserError, did_you_mean
from aevnmt_tf.cli.interrupts import INTERRUPTED, interruptible
from aevnmt_tf.cli.machine import keep_freed_memory, leave_workers

USER_ERROR, BROKEN_PIPE = 2, 141  # exit codes


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence and which guesses no flag.

    `verb` is the name of the command and `description` the docstring of its module.
    """

    def __init__(self, verb: str, description: str | None = None, **options: Any):
        options.setdefault("prog", f"aevnmt {verb}")
        options.setdefault("usage", "%(prog)s [--NAME VALUE ...]")
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(description=description, allow_abbrev=False, **options)
        self.add_argument(
            "--verbose", action="store_true", help="show TensorFlow's own messages, too"
        )

    def error(self, message: str) -> NoReturn:
        """Raise a UserError: a bad command line is an error like any other."""
        raise UserError(f"{message} (see --help)")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the flags' values; for an unknown flag, name the nearest one."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            flag = next((word for word in unknown if word.startswith("-")), unknown[0])
            flag = flag.split("=")[0]
            known = [name for action in self._actions for name in action.option_strings]
            what = "flag" if flag.startswith("-") else "argument"
            self.error(f"there is no {what} {flag}{did_you_mean(flag, known)}")
        return parsed


def main(
    run: Callable[[argparse.Namespace], int | None],
    *,
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None = None,
    keep_memory: bool = True,
) -> int:
    """Parse, run and return the exit code; only a bug shows a traceback.

    Args:
        run: From the flags to the exit code.
        parser: The command line.
        argv: Its words; None: those of the process.
        keep_memory: Whether freed memory is kept, see `keep_freed_memory`; not in a server,
            where one large request would hold it for good.
    """
    status = 1
    try:
        with interruptible():
            status = _run(run, parser, argv, keep_memory)
    finally:
        if status:
            leave_workers(status)
    return status


def _run(
    run: Callable[[argparse.Namespace], int | None],
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    keep_memory: bool,
) -> int:
    args = None
    if sys.stderr is None:  # closed by whoever has started us
        sys.stderr = open(os.devnull, "w")
    with _plain_warnings(parser.prog):
        try:
            args = parser.parse_args(argv)
            if getattr(args, "verbose", False):
                logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
            else:
                quiet_tensorflow()
            if keep_memory:
                keep_freed_memory()
            status = run(args) or 0
            if sys.stdout is not None:
                sys.stdout.flush()
            return status
        except (UserError, ModuleNotFoundError) as error:
            if isinstance(error, ModuleNotFoundError) and not extras.advice(error):
                raise
            if getattr(args, "verbose", False):
                traceback.print_exc()
            sentence = extras.advice(error) or error
            print(f"{parser.prog}: {sentence}", file=sys.stderr)
            return USER_ERROR
        except KeyboardInterrupt:
            print(f"{parser.prog}: interrupted", file=sys.stderr)
            return INTERRUPTED
        except BrokenPipeError:
            # The reader, such as `head`, has had enough. Python would complain once more when
            # it closes stdout.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE


@contextlib.contextmanager
def _plain_warnings(prog: str) -> Iterator[None]:
    """Show a UserWarning as one line, without a place in the code."""
    original = warnings.formatwarning

    def one_line(
        message: Any, category: Any, filename: str, lineno: int, line: str | None = None
    ) -> str:
        if issubclass(category, UserWarning):
            return f"{prog}: warning: {message}\n"
        return original(message, category, filename, lineno, line)

    warnings.formatwarning = one_line
    try:
        yield
    finally:
        warnings.formatwarning = original


_LIBRARIES = (
    r"(absl|google|jax|keras|tensorflow|tensorflow_probability|tensorflow_text|tf_keras)"
)


def quiet_tensorflow() -> None:
    """Keep TensorFlow's chatter off the terminal; to be called before it is imported.

    Its errors reach us as Python exceptions, and a crash still shows its last words.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    warnings.filterwarnings("ignore", module=rf"{_LIBRARIES}(\.|$)")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
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
