"""When to evaluate on the development set, and when to stop: early stopping and signals."""

import signal
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Any

from aevnmt_tf.hparams import Hparams


@dataclass
class Convergence:
    """What early stopping must remember; part of every checkpoint."""

    best_bleu: float | None = None
    best_step: int | None = None
    checks_without_gain: int = 0


@dataclass(frozen=True)
class StoppingRule:
    """The paper's early stopping, and a budget.

    After `num_train_steps` updates, dev BLEU is checked every `check_convergence_every` updates
    until `patience` checks in a row bring no improvement. Without a development set, or with
    check_convergence_every 0, training ends at num_train_steps. max_steps and max_minutes end
    it earlier.
    """

    num_train_steps: int
    check_convergence_every: int
    patience: int
    steps_per_external_eval: int | None = None
    max_steps: int | None = None
    max_minutes: float | None = None
    has_dev: bool = True

    @classmethod
    def of(cls, hp: Hparams, *, has_dev: bool) -> "StoppingRule":
        """Return the rule that the settings describe."""
        names = [name for name in cls.__dataclass_fields__ if name != "has_dev"]
        return cls(**{name: getattr(hp, name) for name in names}, has_dev=has_dev)

    def is_check(self, step: int) -> bool:
        """Return whether this step ends with a convergence check."""
        after = step - self.num_train_steps
        every = self.check_convergence_every
        return bool(self.has_dev and every and after >= 0 and after % every == 0)

    def is_evaluation(self, step: int) -> bool:
        """Return whether this step ends with an evaluation on the development set."""
        if not self.has_dev or step == 0:
            return False
        every = self.steps_per_external_eval
        return self.is_check(step) or bool(every and step % every == 0)

    def record(self, progress: Convergence, *, step: int, bleu: float) -> bool:
        """Add the result of an evaluation to `progress`; return whether BLEU improved."""
        gained = progress.best_bleu is None or bleu > progress.best_bleu
        if gained:
            progress.best_bleu, progress.best_step = bleu, step
            progress.checks_without_gain = 0
        elif self.is_check(step):
            progress.checks_without_gain += 1
        return gained

    def reason_to_stop(self, progress: Convergence, *, step: int, seconds: float) -> str | None:
        """Return why training ends now, None if it continues."""
        if self.max_steps is not None and step >= self.max_steps:
            return f"max_steps ({self.max_steps}) is reached"
        if self.max_minutes is not None and seconds >= 60 * self.max_minutes:
            return f"max_minutes ({self.max_minutes:g}) have passed"
        if step < self.num_train_steps:
            return None
        if not (self.has_dev and self.check_convergence_every):
            return f"num_train_steps ({self.num_train_steps}) is reached"
        if progress.checks_without_gain >= self.patience:
            return f"dev BLEU did not rise in {progress.checks_without_gain} checks"
        return None

    def last_step(self) -> int:
        """Return the last step if it is known, else the first at which training may end."""
        if self.max_steps is None:
            return self.num_train_steps
        if self.has_dev and self.check_convergence_every:
            return self.max_steps
        return min(self.max_steps, self.num_train_steps)


class Interruption:
    """A context in which the first signal asks for a stop, by setting `requested`.

    The loop reads it between two steps. A second signal has its usual effect. SIGINT is Ctrl-C;
    Slurm and Kubernetes send SIGTERM before they end a job; `sbatch --signal=USR1@120` sends
    SIGUSR1 ahead of the time limit.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        # Python handles signals in the main thread only; elsewhere the caller's handlers stay.
        if threading.current_thread() is threading.main_thread():
            for number in self.SIGNALS:
                self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self.__exit__()
