"""metrics.jsonl: one JSON line per report; reports that a resumed run repeats are removed."""

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aevnmt_tf.storage import atomic_writes, disk_errors


class MetricsFile:
    """Appends lines to metrics.jsonl and cuts it back on resume."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._waiting: list[str] = []  # lines that are not on the disk yet

    def append(self, values: Mapping[str, Any]) -> None:
        """Write one line and flush it. Values that are not finite become null.

        A line that cannot be written is kept and written with the next one.
        """
        line = json.dumps({key: _json_value(value) for key, value in values.items()})
        self._waiting.append(f"{line}\n")
        rest = "".join(self._waiting).encode()
        # No buffer: closing the file would write what is left in it after the cut.
        with disk_errors.explained(f"write {self.path}"), open(self.path, "ab", 0) as file:
            good = file.tell()
            try:
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            except OSError:
                os.truncate(self.path, good)  # part of a line would spoil the next one
                raise
        self._waiting = []

    def read(self) -> list[dict[str, Any]]:
        """Return the lines as dicts, without lines that are torn or not ours."""
        text = "".join(self._waiting)
        if self.path.exists():
            text = self.path.read_text(encoding="utf-8", errors="replace") + text
        return [line for line in map(_parsed, text.split("\n")) if line is not None]

    def cut_back(self, stays: Callable[[dict[str, Any]], bool]) -> None:
        """Keep the lines for which `stays` is true, and remove those that `read` leaves out."""
        if not self.path.exists():
            return
        kept = [line for line in self.read() if stays(line)]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        atomic_writes.write(self.path, text)


def _parsed(text: str) -> dict[str, Any] | None:
    """Return a line as a dict, None if it is not an object with a step."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    step = line.get("step") if isinstance(line, dict) else None
    return line if isinstance(step, int) and not isinstance(step, bool) else None


def _json_value(value: Any) -> Any:
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    value = float(value)
    return value if math.isfinite(value) else None
