"""Reports of a run: terminal, TensorBoard, metrics.jsonl; the warning that z has collapsed."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation.latent_use import LITTLE
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage import run_directory
from aevnmt_tf.training import schedules, terminal
from aevnmt_tf.training.dev_evaluation import DevEvaluation
from aevnmt_tf.training.metrics_file import MetricsFile
from aevnmt_tf.training.report_keys import Values
from aevnmt_tf.training.stopping import StoppingRule

if TYPE_CHECKING:
    from aevnmt_tf.training.tensorboard import TensorBoard


class Reporter:
    """Writes the reports of a run, in the chief process only."""

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
        self.say, self.move = self._terminal.say, self._terminal.move
        self._metrics = MetricsFile(self._out_dir / run_directory.METRICS)
        self._board: TensorBoard | None = None
        self._first_steps: dict[str, int] = {}
        self._has_warned = False

    @contextlib.contextmanager
    def bar(self, step: int) -> Iterator[None]:
        """Show the progress bar, starting at this step; close every file at the end."""
        self._terminal.start(step)
        try:
            yield
        finally:
            self._terminal.stop()
            if self._board is not None:
                with self._surviving_full_disks():
                    self._board.close()
                self._board = None

    def cut_back(self, step: int, *, evaluated: bool = True) -> None:
        """Remove reports on later steps, which will be trained again.

        The evaluation of this step stays if it is `evaluated`.
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
        with self._surviving_full_disks():
            self._metrics.append({"step": step, "epoch": epoch, **values})
        with self._surviving_full_disks():
            self._tensorboard().scalars(step, values)
            self._warn(step, values)

    def evaluation(self, step: int, evaluation: DevEvaluation, *, improved: bool) -> None:
        """Report on the development set."""
        best = "  (best so far)" if improved else ""
        self.say(f"step {step}  {terminal.dev_summary(evaluation.values)}{best}")
        self._print_examples(evaluation.translations)
        with self._surviving_full_disks():
            self._metrics.append({"step": step, **evaluation.values})
        with self._surviving_full_disks():
            self._tensorboard().evaluation(step, evaluation)
            self._warn(step, evaluation.values)

    def _print_examples(self, rows: list[tuple[str, str, str]]) -> None:
        """Print two translations that equal their reference, and one that does not."""
        correct = [row for row in rows if row[1] == row[2]]
        wrong = [row for row in rows if row[1] != row[2]]
        for title, some in (
            (f"equal to the reference ({len(correct)} in all)", correct[:2]),
            ("different from the reference", wrong[:1]),
        ):
            if some:
                self.say(f"  {title}:")
            for source, reference, translation in some:
                self.say(f"    source       {source}")
                self.say(f"    translation  {translation}")
                if reference != translation:
                    self.say(f"    reference    {reference}")

    @contextlib.contextmanager
    def _surviving_full_disks(self) -> Iterator[None]:
        """Continue training if a report cannot be written."""
        try:
            yield
        except UserError as error:
            self._board = None  # its writer can no longer be used
            self.say(f"{str(error).rstrip('.')}; training goes on without this report.")

    def _warn(self, step: int, values: Values) -> None:
        """Warn once that z has collapsed."""
        warning = None if self._has_warned else collapse_warning(self._hp, step, values)
        if warning is not None:
            self._has_warned = True
            self.say(warning)
            self._tensorboard().warning(step, warning)

    def _tensorboard(self) -> "TensorBoard":
        if self._board is None:
            from aevnmt_tf.training.tensorboard import TensorBoard

            self._board = TensorBoard(
                self._out_dir / run_directory.LOGS, first_steps=self._first_steps
            )
            self._first_steps = {}  # a board that is opened again continues
            self._board.settings(self._hp)
        return self._board


def _is_evaluation(line: Values) -> bool:
    return "dev_bleu" in line


def collapse_warning(hp: Hparams, step: int, values: Values) -> str | None:
    """Return a warning if a report or an evaluation shows that z has collapsed, else None.

    The information in z decides, not the KL: a posterior that is the same for every sentence,
    but not the prior, has a KL and carries no information. A small KL is enough, because it
    bounds the information. While the KL weight still grows, only the KL counts.
    """
    kl = values.get("kl", values.get("dev_kl"))
    if not isinstance(kl, float):
        return None
    found, measured = kl < LITTLE, f"KL {kl:.2f} nats"
    if isinstance(values.get("dev_information"), float):
        measured += (
            f", {values['dev_information']:.2f} nats of information,"
            f" {values['dev_active_units']} of {hp.z_dim} units active"
        )
        annealed = schedules.kl_weight(step, hp.KL_annealing_steps) >= 1.0
        found |= bool(values["dev_collapsed"]) and bool(annealed)
    if not found:
        return None
    # Without annealing, D(r, q) has its full weight before q has learned anything.
    return (
        f"warning: z has collapsed ({measured}); more of these may help:"
        f" KL_annealing_steps (now {hp.KL_annealing_steps}), free_bits (now {hp.free_bits:g}),"
        f" word_dropout (now {hp.word_dropout:g}); or a smaller z_dim (now {hp.z_dim})"
    )
