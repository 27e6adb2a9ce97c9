"""What a run keeps: the last checkpoints, the best weights, the average of the last weights.

A checkpoint is a snapshot with the weights, everything else TensorFlow holds (the optimizer,
the number of updates, a report's running sums) and `state.json` with what Python holds (the
data position, the random state, the stopping rule's counts, the best scores).
"""

from pathlib import Path

import numpy as np

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import run_directory, snapshots
from aevnmt_tf.storage.atomic_writes import write_json

TRAINING = "training"


class Checkpoints:
    """Saves and restores a run.

    Args:
        out_dir: the run's directory.
        model: the model whose weights are kept.
        trackables: TensorFlow objects that are no weights of the model, by name.
        keep: how many checkpoints stay (num_keep_ckpts).
        every: at which multiples of steps they are made, but for the last one before a stop.
    """

    def __init__(self, out_dir, *, model, trackables, keep, every=1):
        """Look after `out_dir`; nothing is written yet."""
        self.out_dir = Path(out_dir)
        self.folder = self.out_dir / run_directory.CHECKPOINTS
        self.best_folder = self.out_dir / run_directory.BEST
        self.average_folder = self.out_dir / run_directory.AVERAGE
        self._model = model
        self._trackables = dict(trackables)
        self._keep, self._every = keep, every

    def tidy(self):
        """Remove what a killed run left half written; only for the process that writes."""
        for folder in (self.folder, self.best_folder, self.average_folder):
            snapshots.clean(folder)

    def save(self, step, state):
        """Publish a checkpoint of this step and drop the oldest ones; return its folder."""

        def write(folder):
            run_directory.save_weights(self._model, folder)
            self._tensorflow_state().write(str(folder / TRAINING))
            write_json(folder / run_directory.STATE, {"step": step, **state})

        folder = snapshots.publish(self.folder, step=step, write=write)
        snapshots.keep_last(self.folder, self._keep, every=self._every)
        return folder

    def restore(self, *, report=print, set_aside=True):
        """Restore the newest checkpoint that is whole; return its state, None without one.

        Args:
            report: called with a sentence for each damaged checkpoint that is passed over.
            set_aside: hide the damaged ones; only for the process that writes.
        """
        damaged = []
        for folder in reversed(run_directory.listing(self.folder)):
            reason = run_directory.damage(folder)
            if reason is None:
                state = self._read(folder)
                break
            damaged.append(folder)
            report(f"checkpoint {folder} is damaged ({reason}); trying the one before")
        else:
            if damaged:
                raise UserError(
                    f"every checkpoint in {self.folder} is damaged; choose another out_dir, or"
                    f" remove {self.out_dir} to start over"
                )
            return None
        if set_aside:
            for folder in damaged:
                snapshots.set_aside(folder)
        return state

    def save_best(self, step, scores):
        """Publish the weights of this step as the best so far."""
        folder = self._save_weights(self.best_folder, step, {"step": step, **scores})
        snapshots.keep_only(folder)

    def save_average(self, number, *, build, evaluate=lambda model: {}):
        """Publish the mean of the weights of the last checkpoints, unless it is there.

        Args:
            number: how many checkpoints enter, fewer where fewer exist.
            build: returns a new model of the same shape; the one in training stays as it is.
            evaluate: called with that model, returns its scores.

        Returns:
            step, averaged_steps and the scores; None without a checkpoint.
        """
        listed = run_directory.listing(self.folder)
        whole = [folder for folder in listed if run_directory.damage(folder) is None]
        folders = snapshots.regular(whole, every=self._every)[-number:]
        if not folders:
            return None
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
        published = self._save_weights(self.average_folder, steps[-1], state, model=model)
        snapshots.keep_only(published)
        return state

    def _save_weights(self, parent, step, state, *, model=None):
        def write(folder):
            run_directory.save_weights(self._model if model is None else model, folder)
            write_json(folder / run_directory.STATE, state)

        return snapshots.publish(parent, step=step, write=write)

    def _read(self, folder):
        run_directory.load_weights(self._model, folder)
        status = self._tensorflow_state().read(str(folder / TRAINING))
        try:
            status.assert_existing_objects_matched()
        except AssertionError:  # it lists every variable
            raise UserError(
                f"{folder} does not fit the settings: choose another out_dir, or the optimizer"
                " and the gradient_accumulation_steps that the run was started with"
            ) from None
        return run_directory.state(folder)

    def _tensorflow_state(self):
        import tensorflow as tf

        return tf.train.Checkpoint(**self._trackables)
