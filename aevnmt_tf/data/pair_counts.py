"""How many pairs were read, dropped and kept: nothing is lost silently."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FEW = 0.5  # a smaller share of kept pairs is worth a warning
_ADVICE = {
    "source_too_long": "check the text, or raise src_max_len",
    "target_too_long": "check the text, or raise tgt_max_len",
}


def counts_table(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Return a table, and a warning for each corpus that has lost most of its lines.

    Args:
        counts: for each corpus, by its name, the lines read, those dropped by fault, and kept.
    """
    keys = dict.fromkeys(key for numbers in counts.values() for key in numbers)
    order = [*(key for key in keys if key != "kept"), "kept"]
    rows = [["corpus", *(key.replace("_", " ") for key in order)]]
    for name, numbers in counts.items():
        found = (numbers.get(key) for key in order)
        rows.append([name, *("" if number is None else f"{number:,}" for number in found)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        aligned = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *aligned]))
    return "\n".join([*lines, *_warnings(counts)])


def _warnings(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    found = []
    for name, numbers in counts.items():
        dropped = {k: n for k, n in numbers.items() if k not in ("read", "kept")}
        if numbers["kept"] < _FEW * numbers["read"]:
            worst = max(dropped, key=dropped.__getitem__)
            advice = _ADVICE.get(worst, "check the text, which must have one sentence a line")
            found.append(
                f"Warning: {name}: {sum(dropped.values()):,} of {numbers['read']:,} lines are "
                f"dropped, {dropped[worst]:,} of them as {worst.replace('_', ' ')}: {advice}."
            )
    return found


@dataclass(frozen=True)
class CorpusCounts:
    """The pairs of one corpus; each dropped pair is counted under its first fault only."""

    name: str
    read: int
    empty: int
    source_too_long: int
    target_too_long: int
    kept: int


@dataclass(frozen=True)
class Counts:
    """The counts of all corpora of a run, in the order of their corpus index."""

    corpora: Sequence[CorpusCounts]

    def table(self) -> str:
        """Return a line for each corpus, and warnings."""
        return counts_table({row.pop("name"): row for row in self.to_dict()["corpora"]})

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON knows them."""
        return {"corpora": [dataclasses.asdict(corpus) for corpus in self.corpora]}
