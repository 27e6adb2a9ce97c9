"""One place that tells people and files what happens: terminal, TensorBoard, metrics.jsonl."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage import run_directory
from aevnmt_tf.training import collapse, terminal
from aevnmt_tf.training.dev_evaluation import DevEvaluation
from aevnmt_tf.training.metrics_file import MetricsFile
from aevnmt_tf.training.report_keys import Values
from aevnmt_tf.training.stopping import StoppingRule

if TYPE_CHECKING:
    from aevnmt_tf.training.tensorboard import TensorBoard


class Reporter:
    """The reports of a run; in a process that is not the chief it does nothing.

    Args:
        hp: the settings.
        rule: the StoppingRule, which knows where the bar is full.
        is_chief: whether this process writes.
        stream: where to print, standard output by default.
    """

    def __init__(
        self,
        hp: Hparams,
        *,
        rule: StoppingRule,
        is_chief: bool = True,
        stream: IO[str] | None = None,
    ) -> None:
        self._hp = hp
        self._out_dir = Path(hp.out_dir)
        self._is_chief = is_chief
        self._terminal = terminal.Terminal(
            last_step=rule.last_step(), stream=stream, silent=not is_chief
        )
        self._metrics = MetricsFile(self._out_dir / run_directory.METRICS)
        self._board: TensorBoard | None = None
        self._first_steps: dict[str, int] = {}
        self._has_warned = False

    def say(self, text: str = "") -> None:
        """Print a line."""
        self._terminal.say(text)

    @contextlib.contextmanager
    def bar(self, step: int) -> Iterator[None]:
        """Show the progress bar from this step on; close every file at the end."""
        self._terminal.start(step)
        try:
            yield
        finally:
            self._terminal.stop()
            if self._board is not None:
                with self._without_ending():
                    self._board.close()
                self._board = None

    def move(self, step: int) -> None:
        """Move the bar."""
        self._terminal.move(step)

    def cut_back(self, step: int, *, evaluated: bool = True) -> None:
        """Forget what was reported of later steps.

        Args:
            step: the last step that stays.
            evaluated: whether an evaluation of that very step stays, too.
        """
        if self._is_chief:
            last = step if evaluated else step - 1
            self._first_steps = {"train": step + 1, "dev": last + 1}
            self._metrics.cut_back(
                lambda line: line["step"] <= (last if _is_evaluation(line) else step)
            )

    def evaluations(self) -> list[dict[str, Any]]:
        """Return the evaluations of the run so far, as they are in metrics.jsonl."""
        return [line for line in self._metrics.read() if _is_evaluation(line)]

    def report(
        self, step: int, values: dict[str, Any], *, epoch: float, seconds_left: float | None
    ) -> None:
        """Report on training."""
        if not self._is_chief:
            return
        self._terminal.report(step, values, seconds_left=seconds_left)
        with self._without_ending():
            self._metrics.append({"step": step, "epoch": epoch, **values})
        with self._without_ending():
            self._tensorboard().scalars(step, values)
            self._warn(step, values)

    def evaluation(self, step: int, evaluation: DevEvaluation, *, gained: bool) -> None:
        """Report on the development set."""
        best = "  (best so far)" if gained else ""
        self.say(f"step {step}  {terminal.dev_summary(evaluation.values)}{best}")
        self._examples(evaluation)
        with self._without_ending():
            self._metrics.append({"step": step, **evaluation.values})
        with self._without_ending():
            self._show(step, evaluation)

    def _show(self, step: int, evaluation: DevEvaluation) -> None:
        board = self._tensorboard()
        if evaluation.kl_by_dimension is not None:
            board.kl_by_dimension(step, evaluation.kl_by_dimension)
        if evaluation.prior_samples:
            board.prior_samples(step, evaluation.prior_samples)
        if evaluation.projection is not None:
            board.projection(evaluation.projection)
        board.attention(step, evaluation.attention)
        board.translations(step, evaluation.translations)
        board.scalars(step, evaluation.values)
        self._warn(step, evaluation.values)

    def _examples(self, evaluation: DevEvaluation) -> None:
        """Print two translations that equal their reference, and one that does not."""
        count = evaluation.num_correct
        for title, rows in (
            (f"equal to the reference ({count} in all)", evaluation.correct[:2]),
            ("different from the reference", evaluation.wrong[:1]),
        ):
            if rows:
                self.say(f"  {title}:")
            for source, reference, translation in rows:
                self.say(f"    source       {source}")
                self.say(f"    translation  {translation}")
                if reference != translation:
                    self.say(f"    reference    {reference}")

    @contextlib.contextmanager
    def _without_ending(self) -> Iterator[None]:
        """Let a report that the disk does not take be no reason to lose the training."""
        try:
            yield
        except UserError as error:
            self._board = None  # its writer is of no more use
            self.say(f"{str(error).rstrip('.')}; training goes on without this report.")

    def _warn(self, step: int, values: Values) -> None:
        """Warn once of a z that has collapsed."""
        sentence = None if self._has_warned else collapse.warning(self._hp, step, values)
        if sentence is not None:
            self._has_warned = True
            self.say(sentence)
            self._tensorboard().warning(step, sentence)

    def _tensorboard(self) -> "TensorBoard":
        if self._board is None:
            from aevnmt_tf.training.tensorboard import TensorBoard

            self._board = TensorBoard(
                self._out_dir / run_directory.LOGS, first_steps=self._first_steps
            )
            self._first_steps = {}  # a board that is opened again goes on
            self._board.settings(self._hp)
        return self._board


def _is_evaluation(line: Values) -> bool:
    return "dev_bleu" in line
