"""The numbers of pairs that were read, dropped and kept."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aevnmt_tf.cli import tables

_FEW = 0.5  # warn if a smaller share of the pairs is kept
_ADVICE = {
    "source_too_long": "check the text, or raise src_max_len",
    "target_too_long": "check the text, or raise tgt_max_len",
}


def counts_table(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Return a table, and a warning for each corpus that has lost most of its lines.

    Args:
        counts: For each corpus, the numbers of lines read, dropped for each reason, and kept.
    """
    keys = dict.fromkeys(key for numbers in counts.values() for key in numbers if key != "kept")
    order = [*keys, "kept"]
    rows = []
    for name, numbers in counts.items():
        found = (numbers.get(key) for key in order)
        rows.append([name, *("" if number is None else f"{number:,}" for number in found)])
    table = io.StringIO()
    tables.show(["corpus", *(f">{key.replace('_', ' ')}" for key in order)], rows, file=table)
    return "\n".join([table.getvalue().rstrip("\n"), *_warnings(counts)])


def _warnings(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    found = []
    for name, numbers in counts.items():
        dropped = {k: n for k, n in numbers.items() if k not in ("read", "kept")}
        if numbers["kept"] < _FEW * numbers["read"]:
            worst = max(dropped, key=dropped.__getitem__)
            advice = _ADVICE.get(worst, "check that the text has one sentence per line")
            found.append(
                f"Warning: {name}: {sum(dropped.values()):,} of {numbers['read']:,} lines were "
                f"dropped, {dropped[worst]:,} of them as {worst.replace('_', ' ')}: {advice}."
            )
    return found


@dataclass(frozen=True)
class CorpusCounts:
    """The pairs of a corpus. A dropped pair is counted under its first fault."""

    name: str
    read: int
    empty: int
    source_too_long: int
    target_too_long: int
    kept: int


@dataclass(frozen=True)
class Counts:
    """The counts of all corpora of a run, by corpus index."""

    corpora: Sequence[CorpusCounts]

    def table(self) -> str:
        """Return a table with a row per corpus, and warnings."""
        return counts_table({row.pop("name"): row for row in self.to_dict()["corpora"]})

    def to_dict(self) -> dict[str, Any]:
        """Return the counts for a JSON file."""
        return {"corpora": [dataclasses.asdict(corpus) for corpus in self.corpora]}
