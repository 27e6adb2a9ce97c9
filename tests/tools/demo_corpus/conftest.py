"""The grammar is a package in tools/."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
