"""What a run keeps: the last checkpoints, the best weights, the average of checkpoints.

A checkpoint holds the weights, the rest of TensorFlow's state (the optimizer, counters, a
report's running sums) and `state.json` with Python's state (the position in the data, the
random state, early stopping, the best scores).
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import run_directory, snapshots
from aevnmt_tf.storage.atomic_writes import write_json

TRAINING = "training"


class Checkpoints:
    """Saves and restores a run.

    Args:
        out_dir: the run's directory.
        model: the model whose weights are kept.
        trackables: TensorFlow objects besides the model's weights, by name.
        keep: the number of checkpoints to keep.
        every: checkpoints are made at multiples of this step, and before a stop.
    """

    def __init__(
        self,
        out_dir: str | os.PathLike[str],
        *,
        model: Any,
        trackables: Mapping[str, Any],
        keep: int,
        every: int = 1,
    ) -> None:
        self.out_dir = Path(out_dir)
        self.folder = self.out_dir / run_directory.CHECKPOINTS
        self.best_folder = self.out_dir / run_directory.BEST
        self.average_folder = self.out_dir / run_directory.AVERAGE
        self._model = model
        self._tensorflow_state = tf.train.Checkpoint(**trackables)
        self._keep, self._every = keep, every

    def tidy(self) -> None:
        """Remove what a killed run left half written; only the process that writes may."""
        for folder in (self.folder, self.best_folder, self.average_folder):
            snapshots.clean(folder)

    def save(self, step: int, state: dict[str, Any]) -> Path:
        """Publish a checkpoint of this step and remove the oldest ones; return its folder."""

        def write(folder: Path) -> None:
            run_directory.save_weights(self._model, folder)
            self._tensorflow_state.write(str(folder / TRAINING))
            write_json(folder / run_directory.STATE, {"step": step, **state})

        folder = snapshots.publish(self.folder, step=step, write=write)
        snapshots.keep_last(self.folder, self._keep, every=self._every)
        return folder

    def restore(
        self, *, report: Callable[[str], object] = print, set_aside: bool = True
    ) -> dict[str, Any] | None:
        """Restore the newest intact checkpoint; return its state, None without checkpoints.

        Damaged ones are reported and, in the process that writes, set aside.
        """
        damaged: list[Path] = []
        for folder in reversed(run_directory.listing(self.folder)):
            reason = run_directory.damage(folder)
            if reason is None:
                state = self._read(folder)
                for other in damaged if set_aside else ():
                    snapshots.set_aside(other)
                return state
            damaged.append(folder)
            report(f"checkpoint {folder} is damaged ({reason}); trying the one before")
        if damaged:
            raise UserError(
                f"every checkpoint in {self.folder} is damaged: choose another out_dir, or"
                f" remove {self.out_dir} to start over."
            )
        return None

    def save_best(self, step: int, scores: dict[str, Any]) -> None:
        """Publish the weights of this step as the best so far."""
        self._save_weights(self._model, self.best_folder, {"step": step, **scores})

    def save_average(
        self,
        number: int,
        *,
        build: Callable[[], Any],
        evaluate: Callable[[Any], dict[str, Any]] = lambda model: {},
    ) -> dict[str, Any]:
        """Publish the average of the last checkpoints, unless it exists already.

        Args:
            number: how many checkpoints to average, fewer if fewer exist.
            build: returns a new model of the same shape; the one in training stays as it is.
            evaluate: called with that model, returns its scores.

        Returns:
            step, averaged_steps and the scores.
        """
        listed = run_directory.listing(self.folder)
        intact = [folder for folder in listed if run_directory.damage(folder) is None]
        folders = snapshots.regular(intact, every=self._every)[-number:]
        steps = [run_directory.step_of(folder) for folder in folders]
        for folder in run_directory.listing(self.average_folder):
            state = run_directory.state(folder)
            if state.get("averaged_steps") == steps and run_directory.damage(folder) is None:
                return state
        model = build()
        sums = [np.zeros(weight.shape) for weight in model.get_weights()]  # float64
        for folder in folders:
            run_directory.load_weights(model, folder)
            sums = list(map(np.add, sums, model.get_weights()))
        model.set_weights([total / len(folders) for total in sums])
        state = {"step": steps[-1], "averaged_steps": steps, **evaluate(model)}
        self._save_weights(model, self.average_folder, state)
        return state

    def _save_weights(self, model: Any, parent: Path, state: dict[str, Any]) -> None:
        """Publish weights as the only ones in their folder."""

        def write(folder: Path) -> None:
            run_directory.save_weights(model, folder)
            write_json(folder / run_directory.STATE, state)

        snapshots.keep_only(snapshots.publish(parent, step=state["step"], write=write))

    def _read(self, folder: Path) -> dict[str, Any]:
        run_directory.load_weights(self._model, folder)
        status = self._tensorflow_state.read(str(folder / TRAINING))
        try:
            status.assert_existing_objects_matched()
        except AssertionError:  # whose message lists every variable
            raise UserError(
                f"{folder} does not fit the settings: choose another out_dir, or the optimizer"
                " and the gradient_accumulation_steps that the run was started with."
            ) from None
        return run_directory.state(folder)
