"""The frame of every command: its parser, one-line errors, exit codes and a quiet terminal.

A command is a module with

    def parser() -> command.Parser
    def run(args) -> int
    def main(argv=None) -> int: return command.main(run, parser=parser(), argv=argv)
"""

import argparse
import contextlib
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from aevnmt_tf.cli import extras
from aevnmt_tf.cli.errors import UserError, did_you_mean
from aevnmt_tf.cli.interrupts import INTERRUPTED, interruptible
from aevnmt_tf.cli.machine import keep_freed_memory, leave_workers
from aevnmt_tf.cli.quiet import quiet_tensorflow

USER_ERROR, BROKEN_PIPE = 2, 141  # exit codes


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UserError and accepts no abbreviated flags.

    `verb` is the name of the command and `description` the docstring of its module.
    `advice` maps flags of other programs to a sentence about what to use instead.
    """

    def __init__(
        self,
        verb: str,
        description: str | None = None,
        *,
        advice: Mapping[str, str] | None = None,
        **options: Any,
    ):
        options.setdefault("prog", f"aevnmt {verb}")
        options.setdefault("usage", "%(prog)s [--NAME VALUE ...]")
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(description=description, allow_abbrev=False, **options)
        self._advice = advice or {}
        self.add_argument(
            "--verbose", action="store_true", help="show TensorFlow's log messages"
        )

    def error(self, message: str) -> NoReturn:
        """Raise a UserError instead of printing the usage and exiting."""
        raise UserError(f"{message} (see --help)")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the parsed flags; for an unknown flag, suggest the most similar one."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            flag = next((word for word in unknown if word.startswith("-")), unknown[0])
            flag = flag.split("=")[0]
            if flag in self._advice:
                raise UserError(f"unknown flag {flag}: {self._advice[flag]}")
            known = [name for action in self._actions for name in action.option_strings]
            what = "flag" if flag.startswith("-") else "argument"
            self.error(f"unknown {what} {flag}{did_you_mean(flag, known)}")
        return parsed


def main(
    run: Callable[[argparse.Namespace], int | None],
    *,
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None = None,
    keep_memory: bool = True,
) -> int:
    """Parse the command line, run the command and return its exit code.

    Only bugs show a traceback.

    Args:
        run: Function from the parsed flags to the exit code.
        parser: The parser of the command line.
        argv: The arguments; None: those of the process.
        keep_memory: Whether to call `keep_freed_memory`. A server should not, because it would
            keep the memory of its largest request forever.
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
    is_verbose = False
    if sys.stderr is None:  # the parent process has closed it
        sys.stderr = open(os.devnull, "w")
    with _plain_warnings(parser.prog):
        try:
            args = parser.parse_args(argv)
            is_verbose = getattr(args, "verbose", False)
            if is_verbose:
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
            message = str(error) if isinstance(error, UserError) else extras.advice(error)
            if not message:
                raise
            if is_verbose:
                traceback.print_exc()
            print(f"{parser.prog}: {message}", file=sys.stderr)
            return USER_ERROR
        except KeyboardInterrupt:
            print(f"{parser.prog}: interrupted", file=sys.stderr)
            return INTERRUPTED
        except BrokenPipeError:
            # The reader, such as `head`, has exited. Without this, Python would print another
            # error when it closes stdout.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE


@contextlib.contextmanager
def _plain_warnings(prog: str) -> Iterator[None]:
    """Show a UserWarning as one line, once, without a file name and line number."""
    original = warnings.formatwarning
    shown: set[str] = set()  # settings are read more than once, with the same warnings

    def one_line(
        message: Any, category: Any, filename: str, lineno: int, line: str | None = None
    ) -> str:
        if issubclass(category, UserWarning):
            text = f"{prog}: warning: {message}\n"
            is_new = text not in shown
            shown.add(text)
            return text if is_new else ""
        return original(message, category, filename, lineno, line)

    warnings.formatwarning = one_line
    try:
        yield
    finally:
        warnings.formatwarning = original
