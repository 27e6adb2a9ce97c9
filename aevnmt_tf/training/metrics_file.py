"""metrics.jsonl: one JSON line a report, never a line of a future that did not happen."""

import json
import math
import os
from pathlib import Path

from aevnmt_tf.storage import atomic_writes, disk_errors


class MetricsFile:
    """Appends lines to metrics.jsonl; on resume it is cut back."""

    def __init__(self, path):
        """Name the file; it is written from the first `append` on."""
        self.path = Path(path)
        self._waiting = []  # lines that the disk has not taken yet

    def append(self, values):
        """Write one line and flush it. Values that are not finite become null.

        A line that cannot be written is kept for the next time.
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
                os.truncate(self.path, good)  # a part of a line would spoil the next one
                raise
        self._waiting = []

    def read(self):
        """Return the lines as dicts.

        What is no object with a step is left out: a line that a kill cut short, or that
        somebody else has written.
        """
        text = "".join(self._waiting)
        if self.path.exists():
            text = self.path.read_text(encoding="utf-8", errors="replace") + text
        return [line for line in map(_parsed, text.split("\n")) if line is not None]

    def cut_back(self, stays):
        """Remove the lines that will be written again, and those that `read` leaves out.

        Args:
            stays: called with a line as a dict, returns whether it stays.
        """
        if not self.path.exists():
            return
        kept = [line for line in self.read() if stays(line)]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        atomic_writes.write(self.path, text)


def _parsed(text):
    """Return a line as a dict, None where it is none of ours."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    step = line.get("step") if isinstance(line, dict) else None
    return line if isinstance(step, int) and not isinstance(step, bool) else None


def _json_value(value):
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    value = float(value)
    return value if math.isfinite(value) else None
