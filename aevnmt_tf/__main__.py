"""`aevnmt VERB ...`: the same as `python -m aevnmt_tf.VERB ...`."""

import ast
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from aevnmt_tf import __version__
from aevnmt_tf.cli.command import USER_ERROR
from aevnmt_tf.cli.errors import did_you_mean
from aevnmt_tf.cli.interrupts import INTERRUPTED, interruptible

# In the order in which one needs them.
_VERBS = "data prepare train translate evaluate score sample probe export serve experiment"


def module_of(verb: str) -> str:
    """Return the full name of a verb's module."""
    return f"aevnmt_tf.{'get_data' if verb == 'data' else verb}"  # data is a sub-package


def verbs() -> dict[str, str]:
    """Return the verbs that are installed, each with the first line of its docstring."""
    found = {}
    for name in _VERBS.split():
        path = Path(__file__).with_name(f"{module_of(name).partition('.')[2]}.py")
        if path.exists():
            # Parsed instead of imported, because imports are slow.
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            found[name] = docstring.partition("\n")[0]
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    found = verbs()
    if words and words[0] in found:
        try:
            with interruptible():
                return int(importlib.import_module(module_of(words[0])).main(words[1:]))
        except KeyboardInterrupt:  # during the import of the verb
            print(f"aevnmt {words[0]}: interrupted", file=sys.stderr)
            return INTERRUPTED
    if words and words[0] in ("-h", "--help", "help"):
        print(_help(found))
        return 0
    if words and words[0] == "--version":
        print(f"aevnmt {__version__}")
        return 0
    if words:
        problem = f"unknown command {words[0]}{did_you_mean(words[0], found)}"
    else:
        problem = "no command is given"
    print(f"aevnmt: {problem} (see aevnmt --help)", file=sys.stderr)
    return USER_ERROR


def _help(found: dict[str, str]) -> str:
    width = max(map(len, found))
    lines = [f"  {name:{width}}  {line}" for name, line in found.items()]
    head = "usage: aevnmt COMMAND ...\n\nAuto-Encoding Variational Neural Machine Translation\n"
    return "\n".join([head, *lines, "\nRun `aevnmt COMMAND --help` for details."])


if __name__ == "__main__":
    sys.exit(main())
