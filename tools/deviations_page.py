#!/usr/bin/env python3
"""Writes docs/deviations.md: every DEVIATION tag of the package, in one place.

    python tools/deviations_page.py             rewrite the page
    python tools/deviations_page.py --check     exit code 1 where it is not current

A tag is a comment, `# DEVIATION: why`, at the line that differs from the paper or from the
authors' code, or a paragraph of a docstring that starts with `DEVIATION:`. Both may span lines.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "deviations.md"
HEAD = """# Deviations

Every place where this implementation differs from the paper or from the authors' code, and why.
The page is generated from the `DEVIATION` comments in the source by
`python tools/deviations_page.py`.
"""


def tags(path: pathlib.Path) -> list[tuple[int, str]]:
    """Return (line, text) of each tag in a file; the text may span several lines."""
    found: list[tuple[int, str]] = []
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        begin = re.fullmatch(r"\s*(# )?DEVIATION: (.*)", line)
        if not begin:
            continue
        words = [begin.group(2).strip()]
        goes_on = r"\s*# (.*)" if begin.group(1) else r"\s*([^\s#\"].*)"
        for more in lines[number:]:
            text = re.fullmatch(goes_on, more)
            if not text or text.group(1).startswith("DEVIATION:"):
                break
            words.append(text.group(1).strip())
        found.append((number, " ".join(words)))
    return found


def _markdown(text: str) -> str:
    return (text[0].upper() + text[1:]).replace("<", "\\<").replace("|", "\\|")


def page(package: pathlib.Path) -> str:
    """Return the page for the files of a package."""
    parts = [HEAD]
    for path in sorted(package.rglob("*.py")):
        found = tags(path)
        if found:
            name = path.relative_to(package.parent).as_posix()
            rows = [f"- {_markdown(text)}" for _, text in found]
            parts.append("\n".join([f"## `{name}`", "", *rows]) + "\n")
    return "\n".join(parts)


def main(argv: list[str] | None = None) -> int:
    """Rewrite or check the page; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing")
    args = parser.parse_args(argv)
    made = page(ROOT / "aevnmt_tf")
    is_current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == made
    if args.check:
        if not is_current:
            print(f"{PAGE} is not current: run tools/deviations_page.py.", file=sys.stderr)
        return int(not is_current)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
