"""metrics.jsonl: one JSON line a report, never a line of a future that did not happen."""

import json
import math
import os
from pathlib import Path

from aevnmt_tf.training import snapshots


class MetricsFile:
    """Appends lines to metrics.jsonl; on resume it is cut back to the resumed step."""

    def __init__(self, path):
        """Name the file; it is written from the first `append` on."""
        self.path = Path(path)

    def append(self, values):
        """Write one line and flush it. Values that are not finite become null."""
        line = json.dumps({key: _json_value(value) for key, value in values.items()})
        with snapshots.sentences(f"write {self.path}"):
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())

    def read(self):
        """Return the lines as dicts; a last line that a kill cut short is left out."""
        if not self.path.exists():
            return []
        found = []
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                break
        return found

    def cut_back(self, step):
        """Remove the lines of later steps, as they will be written again."""
        if not self.path.exists():
            return
        kept = [line for line in self.read() if line["step"] <= step]
        with snapshots.sentences(f"write {self.path}"):
            temporary = self.path.with_name(f".{self.path.name}.writing")
            temporary.write_text(
                "".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8"
            )
            temporary.replace(self.path)


def _json_value(value):
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    value = float(value)
    return value if math.isfinite(value) else None
