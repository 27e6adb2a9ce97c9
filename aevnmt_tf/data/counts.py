"""How many pairs were read, dropped and kept: nothing is lost silently."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_COLUMNS = {
    "read": "read",
    "empty": "empty",
    "source_too_long": "long source",
    "target_too_long": "long target",
    "kept": "kept",
}


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

    @property
    def kept(self) -> int:
        """Pairs kept, of all corpora."""
        return sum(corpus.kept for corpus in self.corpora)

    def table(self) -> str:
        """A short table: a line for each corpus."""
        rows = [["corpus", *_COLUMNS.values()]]
        for corpus in self.corpora:
            rows.append([corpus.name, *(f"{getattr(corpus, key):,}" for key in _COLUMNS)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for name, *numbers in rows:
            cells = [
                number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)
            ]
            lines.append("  ".join([name.ljust(widths[0]), *cells]))
        return "\n".join(lines)

    def to_dict(self) -> dict:
        """The counts as JSON knows them."""
        return {"corpora": [dataclasses.asdict(corpus) for corpus in self.corpora]}

    def save(self, path: str | Path) -> None:
        """Write the counts to a JSON file."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")
