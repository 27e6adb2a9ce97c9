#!/usr/bin/env python3
"""Writes the results of experiments into pages of the documentation, between their marks.

    tools/run python tools/results_table.py             rewrites the pages
    tools/run python tools/results_table.py --check     exit code 1 where one is not current

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
PAGES = [ROOT / "docs" / name for name in ("results.md", "model_family.md")]
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
        "--page", type=pathlib.Path, nargs="+", default=PAGES, metavar="FILE", help="all pages"
    )
    p.add_argument("--results", type=pathlib.Path, default=ROOT / "results", metavar="DIR")
    p.add_argument("--check", action="store_true", help="change nothing")
    args = p.parse_args(argv)
    status = 0
    try:
        texts = {page: page.read_text(encoding="utf-8") for page in args.page}
        results = read(args.results)
        homes = {name: page for page, text in texts.items() for name in _BEGIN.findall(text)}
        for page, before in texts.items():
            # Results that no page has a place for count as missing on the first page.
            wanted = {n: r for n, r in results.items() if homes.get(n, args.page[0]) == page}
            after = _made(page, before, wanted)
            if after != before and args.check:
                print(f"results_table.py: {page} is not current", file=sys.stderr)
                status = 1
            if args.check:
                continue
            if after != before:
                page.write_text(after, encoding="utf-8")
            shown = {n: r for n, r in wanted.items() if f"results_{n}.png" in after}
            draw(shown, root=args.results.parent, folder=page.parent / "_static")
    except OSError as error:
        print(f"results_table.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except UserError as error:
        print(f"results_table.py: {error}", file=sys.stderr)
        return 2
    return status


def _made(page: pathlib.Path, text: str, results: dict[str, dict[str, Any]]) -> str:
    try:
        return current(text, results)
    except UserError as error:
        raise UserError(f"{page}: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
