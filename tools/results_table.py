#!/usr/bin/env python3
"""Writes the results of experiments into docs/results.md, between their marks.

    tools/run python tools/results_table.py             rewrites docs/results.md
    tools/run python tools/results_table.py --check     exit code 1 where it is not current

`<!-- results:begin NAME -->` and `<!-- results:end NAME -->` stand each on a line of their own;
what is between them is made from results/NAME.json, which is the results.json of an experiment.
A picture docs/_static/results_NAME.png that the page shows is dev BLEU over updates, from the
reports of the runs.
"""

import argparse
import json
import pathlib
import re
import sys
from collections.abc import Sequence
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.experiments import result_pages
from aevnmt_tf.plots import training_curves
from aevnmt_tf.storage import run_directory

ROOT = pathlib.Path(__file__).resolve().parents[1]
_BEGIN = re.compile(r"<!-- results:begin (\S+) -->")
_END = re.compile(r"<!-- results:end (\S+) -->")


def current(text: str, results: dict[str, dict[str, Any]]) -> str:
    """Return the text with each marked part made anew; marks and results must agree."""
    made, inside, used = [], None, []
    for number, line in enumerate(text.split("\n"), 1):
        begin, end = _BEGIN.fullmatch(line.strip()), _END.fullmatch(line.strip())
        if begin:
            name = begin.group(1)
            if inside is not None:
                raise UserError(f"line {number}: {inside} has not ended before {name} begins.")
            if name not in results:
                raise UserError(f"line {number}: there is no results/{name}.json.")
            if name in used:
                raise UserError(f"line {number}: {name} stands here a second time.")
            inside = name
            used.append(name)
            made += [
                line,
                "",
                *result_pages.section(results[name]).rstrip("\n").split("\n"),
                "",
            ]
        if end:
            if end.group(1) != inside:
                raise UserError(f"line {number}: {end.group(1)} ends, but has not begun.")
            inside = None
        if inside is None:
            made.append(line)
    if inside is not None:
        raise UserError(f"{inside} begins and does not end.")
    for name in results:
        if name not in used:
            raise UserError(
                f"results/{name}.json has no place: add <!-- results:begin {name} -->."
            )
    return "\n".join(made)


def read(folder: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Return the results of experiments in a folder, by name."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.stem] = json.loads(path.read_text(encoding="utf-8"))
            result_pages.section(found[path.stem])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} is no results.json of an experiment: {error!r}.") from None
    return found


def draw(
    results: dict[str, dict[str, Any]], *, root: pathlib.Path, folder: pathlib.Path
) -> None:
    """Draw how the runs of each experiment went, with a band over the seeds of a system."""
    for name, values in results.items():
        groups = {}
        for system, found in values["systems"].items():
            files = [
                root / run["folder"] / run_directory.METRICS
                for run in found["runs"]
                if "folder" in run
            ]
            curves = [training_curves.read(file) for file in files if file.is_file()]
            if any(curves):
                groups[" ".join(found["labels"].values()) or system] = curves
        if groups:
            training_curves.draw(groups, folder / f"results_{name}.png")


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite or check the page; return the exit code."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--page", type=pathlib.Path, default=ROOT / "docs" / "results.md", metavar="FILE"
    )
    p.add_argument("--results", type=pathlib.Path, default=ROOT / "results", metavar="DIR")
    p.add_argument("--check", action="store_true", help="change nothing")
    args = p.parse_args(argv)
    try:
        before = args.page.read_text(encoding="utf-8")
        results = read(args.results)
        after = current(before, results)
    except OSError as error:
        print(f"results_table.py: {args.page}: {error.strerror}", file=sys.stderr)
        return 2
    except UserError as error:
        print(f"results_table.py: {args.page}: {error}", file=sys.stderr)
        return 2
    if args.check:
        if after != before:
            print(f"results_table.py: {args.page} is not current", file=sys.stderr)
        return int(after != before)
    if after != before:
        args.page.write_text(after, encoding="utf-8")
    shown = {name: values for name, values in results.items() if f"results_{name}.png" in after}
    draw(shown, root=args.results.parent, folder=args.page.parent / "_static")
    return 0


if __name__ == "__main__":
    sys.exit(main())
