"""What TensorBoard shows of a run: scalars, histograms, images, texts, settings and z."""

import contextlib
import time
from pathlib import Path

import tensorflow as tf

from aevnmt_tf.analysis import projector
from aevnmt_tf.training import snapshots

TRAIN_SCALARS = (
    "loss",
    "elbo",
    "nll_x",
    "nll_y",
    "nll_x_per_token",
    "nll_y_per_token",
    "perplexity_x",
    "perplexity_y",
    "kl",
    "kl_weight",
    "r_divergence",
    "accuracy_x",
    "accuracy_y",
    "learning_rate",
    "gradient_norm",
    "pairs_per_second",
    "skipped",
)


class TensorBoard:
    """Writes event files into a folder's train/ and dev/.

    Args:
        folder: where to.
        first_steps: {"train": step, "dev": step} where a process begins. TensorBoard no longer
            shows what others before it wrote of these steps and later ones.

    The settings and z are in dev/, too: TensorBoard looks for the scores of the HPARAMS tab in
    the same run, and for the projector's files in the folder of a run.
    """

    def __init__(self, folder, *, first_steps=None):
        self._folder = Path(folder)
        with snapshots.sentences(f"write {self._folder}"):
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, step in (first_steps or {}).items():
                _mark_start(step, self._folder / name)
            self._train = tf.summary.create_file_writer(str(self._folder / "train"))
            self._dev = tf.summary.create_file_writer(str(self._folder / "dev"))

    def settings(self, hp):
        """Show the settings in the HPARAMS tab, next to the dev scores."""
        from tensorboard.plugins.hparams import api

        shown = {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in hp.to_dict().items()
            if value is not None
        }
        metrics = [
            api.Metric(tag, display_name=f"dev {tag}") for tag in ("bleu", "chrf", "elbo", "kl")
        ]
        with self._writing(self._dev, 0):
            api.hparams_config(
                hparams=[api.HParam(name) for name in sorted(shown)], metrics=metrics
            )
            api.hparams(shown)

    def report(self, step, values):
        """Write a report of training."""
        with self._writing(self._train, step):
            for name in TRAIN_SCALARS:
                if name in values:
                    tf.summary.scalar(name, values[name])

    def evaluation(self, step, values):
        """Write the scores on the development set; their names start with dev_."""
        with self._writing(self._dev, step):
            for name, value in values.items():
                if name.startswith("dev_") and isinstance(value, int | float):
                    tf.summary.scalar(name.removeprefix("dev_"), value)

    def kl_by_dimension(self, step, kl):
        """Write a histogram of the mean KL of each dimension of z: [Z]."""
        with self._writing(self._dev, step):
            tf.summary.histogram("kl_by_dimension", kl)

    def attention(self, step, images):
        """Write attention images: a list of [height, width, 3] uint8 arrays."""
        with self._writing(self._dev, step):
            for number, image in enumerate(images):
                tf.summary.image(f"attention/{number}", image[None])

    def projection(self, projection):
        """Show z in the projector: keyword arguments of analysis.projector.write."""
        with snapshots.sentences(f"write {self._folder}"):
            projector.write(self._folder / "dev", **projection)

    def translations(self, step, rows):
        """Write translations: rows of (source, reference, translation)."""
        self._table(step, "translations", ("source", "reference", "translation"), rows)

    def prior_samples(self, step, rows):
        """Write sentence pairs sampled from the prior: rows of (source, target)."""
        self._table(step, "samples_from_the_prior", ("source", "target"), rows)

    def _table(self, step, name, header, rows):
        lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
        for row in rows:
            cells = (str(cell).replace("|", "\\|").replace("\n", " ") for cell in row)
            lines.append("| " + " | ".join(cells) + " |")
        with self._writing(self._dev, step):
            tf.summary.text(name, "\n".join(lines))

    def close(self):
        """Flush and close the files."""
        with snapshots.sentences(f"write {self._folder}"):
            self._train.close()
            self._dev.close()

    @contextlib.contextmanager
    def _writing(self, writer, step):
        """Write what the block shows of a step; TensorFlow may do so at any moment."""
        with snapshots.sentences(f"write {self._folder}"):
            with writer.as_default(step):
                yield
            writer.flush()


def _mark_start(step, folder):
    """Write TensorBoard's own mark of a start: a later one hides older events from its step on.

    TensorBoard reads the files of a folder in the order of their names.
    """
    folder.mkdir(exist_ok=True)
    now = time.time()
    start = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
    events = (
        tf.compat.v1.Event(wall_time=now, file_version="brain.Event:2"),
        tf.compat.v1.Event(wall_time=now, step=step, session_log=start),
    )
    # Before the files of this process, whose names go on with the machine's.
    with tf.io.TFRecordWriter(str(folder / f"events.out.tfevents.{int(now)}.0")) as file:
        for event in events:
            file.write(event.SerializeToString())
