"""The alignments of translations as PNG files."""

import itertools
import os
from collections.abc import Iterable, Sequence

import numpy as np

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import disk_errors


class AlignmentFiles:
    """Where the alignments of lines are drawn; nowhere if `path` is None.

    FILE.png takes that of a single line; any other path is a folder for those of all lines,
    000001.png and so on.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._is_file = path is not None and path.lower().endswith(".png")

    def allowed(self, lines: Iterable[str]) -> Iterable[str]:
        """Return the lines, if there are not more of them than pictures."""
        if not self._is_file:
            return lines
        first = list(itertools.islice(lines, 2))
        if len(first) > 1:
            raise UserError(
                f"--attention {self._path} holds one alignment, but there are several lines: "
                "give a folder, such as alignments/."
            )
        return first

    def make_folder(self) -> None:
        """Make the folder, if it takes one."""
        if self._path is not None and not self._is_file:
            with disk_errors.explained(f"write {self._path}"):
                os.makedirs(self._path, exist_ok=True)

    def draw(
        self,
        number: int,
        attention: np.ndarray | None,
        *,
        source: Sequence[str] | None,
        target: Sequence[str] | None,
    ) -> None:
        """Draw the alignment of line `number`, if its translation has words."""
        if self._path is None or attention is None or not source or not target:
            return
        from aevnmt_tf.plots import attention_plot, figures

        path = self._path
        if not self._is_file:
            path = os.path.join(path, f"{number:06d}.png")
        figure = attention_plot.draw(attention, source=source, target=target)
        figures.save(figure, path, kind="png")
