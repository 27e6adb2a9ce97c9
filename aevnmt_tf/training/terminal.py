"""What training prints: a progress bar on a terminal, one plain line per report elsewhere."""

import sys
from collections.abc import Iterator
from typing import IO, Any

from rich import progress as rich_progress
from rich.console import Console, RenderableType
from rich.text import Text

from aevnmt_tf.evaluation import metrics
from aevnmt_tf.training.report_keys import Values


class Terminal:
    """Prints messages and reports, and on a terminal a bar that is full at `last_step`."""

    def __init__(
        self, *, last_step: int, stream: IO[str] | None = None, silent: bool = False
    ) -> None:
        self._console = Console(file=stream or sys.stdout, highlight=False, soft_wrap=True)
        self._last_step = last_step
        self._silent = silent
        self._bar = _ReportBar(
            rich_progress.TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            rich_progress.BarColumn(bar_width=None),
            rich_progress.TextColumn("{task.fields[left]}"),
            console=self._console,
            refresh_per_second=2,
            disable=silent or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("train", total=last_step, report="", left="")

    def say(self, text: str = "") -> None:
        """Print a line."""
        if not self._silent:
            self._console.print(text, markup=False)

    def start(self, step: int) -> None:
        """Show the bar, starting at this step."""
        self.move(step)
        self._bar.start()

    def move(self, step: int, **fields: Any) -> None:
        """Move the bar."""
        total = max(self._last_step, step)
        self._bar.update(self._task, completed=step, total=total, **fields)

    def report(self, step: int, values: Values, *, seconds_left: float | None) -> None:
        """Show a report on training: in the bar, or as one plain line."""
        text, left = summary(values), duration(seconds_left)
        if self._bar.disable:
            self.say(f"step {step}  {text}  {left}")
        else:
            self.move(step, report=text, left=left)

    def stop(self) -> None:
        """Remove the bar."""
        if not self._bar.disable:
            self._bar.stop()


class _ReportBar(rich_progress.Progress):
    """A bar above the latest report, because both do not fit into 80 columns."""

    def get_renderables(self) -> Iterator[RenderableType]:
        """Return the bar and the report."""
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            if task.fields["report"]:
                yield Text(task.fields["report"])


def summary(values: Values) -> str:
    """Return a report on training in one line."""
    parts = [f"{values['pairs_per_second']:.0f} pairs/s", *_terms(values)]
    if "kl_weight" in values:
        parts.append(f"KL weight {values['kl_weight']:.2f}")
    if values.get("skipped"):
        parts.append(f"{values['skipped']} batches skipped")
    return "  ".join(parts)


def dev_summary(values: Values) -> str:
    """Return an evaluation on the development set in one line."""
    scores = {metrics.TITLES[name]: values.get(f"dev_{name}") for name in metrics.NAMES}
    parts = [f"{title} {score:.2f}" for title, score in scores.items() if score is not None]
    parts[0] = f"dev {parts[0]}"
    parts += _terms({name.removeprefix("dev_"): value for name, value in values.items()})
    if "dev_information" in values:
        parts.append(f"information {values['dev_information']:.2f}")
        parts.append(f"active units {values['dev_active_units']}")
    return "  ".join(parts)


def _terms(values: Values) -> list[str]:
    # Without z there is no bound, only nll_x and nll_y.
    shown = {"elbo": "ELBO"} if "kl" in values else {}
    shown |= {"nll_x": "nll_x", "nll_y": "nll_y", "kl": "KL"}
    return [f"{shown[key]} {values[key]:.2f}" for key in shown if key in values]


def duration(seconds: float | None) -> str:
    """Return the time left as 1:02:03 left or 2:03 left; an empty text if it is unknown."""
    if seconds is None:
        return ""
    minutes, seconds = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
    return f"{text} left"
