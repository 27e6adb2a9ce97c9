#!/usr/bin/env python
"""Measures speed: tools/benchmark.py data [--hparams F] [--json] [--NAME VALUE ...].

Every benchmark also measures how fast this machine multiplies matrices, so that numbers of
different machines, or of a busy machine, can be compared.
"""

import ast
import importlib
import sys
from pathlib import Path

from aevnmt_tf.cli import command

# In the order of a sentence's way; one file each in benchmarks/.
NAMES = ("data", "train", "decode", "serve", "soak")


def benchmarks() -> dict[str, str]:
    """The benchmarks that exist, each with the first line of its docstring."""
    found = {}
    for name in NAMES:
        path = Path(__file__).parent / "benchmarks" / f"{name}.py"
        if path.exists():
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            found[name] = docstring.partition("\n")[0]
    return found


def main(argv: list[str] | None = None) -> int:
    """Runs one benchmark and returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    found = benchmarks()
    if words and words[0] in found:
        module = importlib.import_module(f"benchmarks.{words[0]}")
        return command.main(module.run, parser=module.parser(), argv=words[1:])
    lines = [f"  {name:8}{sentence}" for name, sentence in found.items()]
    usage = "\n".join(["usage: tools/benchmark.py NAME [--NAME VALUE ...]", "", *lines])
    if words and words[0] in ("-h", "--help"):
        print(usage)
        return 0
    problem = f"there is no benchmark {words[0]}" if words else "the name is missing"
    print(f"tools/benchmark.py: {problem}; there are: {', '.join(found)}", file=sys.stderr)
    return command.USER_ERROR


if __name__ == "__main__":
    sys.exit(main())
