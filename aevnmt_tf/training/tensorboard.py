"""What TensorBoard shows of a run: scalars, histograms, images, texts, settings and z."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from aevnmt_tf import hparams
from aevnmt_tf.cli import tables
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.plots import projector
from aevnmt_tf.storage import disk_errors
from aevnmt_tf.training import report_keys
from aevnmt_tf.training.report_keys import Values

Rows = Sequence[tuple[str, ...]]


class TensorBoard:
    """The event files in a folder's train/ and dev/.

    Args:
        folder: where to.
        first_steps: {"train": step, "dev": step} where a process begins. TensorBoard no longer
            shows what others before it wrote of these steps and later ones.

    The settings and z are in dev/, too: TensorBoard looks for the scores of the HPARAMS tab in
    the same run, and for the projector's files in the folder of a run.
    """

    def __init__(
        self, folder: str | Path, *, first_steps: Mapping[str, int] | None = None
    ) -> None:
        self._folder = Path(folder)
        with disk_errors.explained(f"write {self._folder}"):
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, step in (first_steps or {}).items():
                _mark_start(step, self._folder / name)
            self._train = tf.summary.create_file_writer(str(self._folder / "train"))
            self._dev = tf.summary.create_file_writer(str(self._folder / "dev"))

    def settings(self, hp: Hparams) -> None:
        """Show the settings in the HPARAMS tab, those that differ from the defaults first."""
        from tensorboard.plugins.hparams import api

        shown = {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in hp.to_dict().items()
            if value is not None
        }
        scores = [
            api.Metric(report_keys.tag(name), display_name=f"dev {name}")
            for name in ("bleu", "kl", "information", "chrf", "elbo")
        ]
        config = api.hparams_config_pb([api.HParam(name) for name in shown], scores)
        values, usual = hp.to_dict(), hparams.load().to_dict()
        _mark_changed(config, {name for name in shown if values[name] != usual.get(name)})
        with self._writing(self._dev, 0):
            tf.summary.experimental.write_raw_pb(config.SerializeToString(), step=0)
            api.hparams(shown)

    def scalars(self, step: int, values: Values) -> None:
        """Write a report of training, or an evaluation: its keys start with dev_."""
        is_dev = any(name.startswith("dev_") for name in values)
        with self._writing(self._dev if is_dev else self._train, step):
            for name, value in values.items():
                if isinstance(value, int | float):
                    for tag in report_keys.tags(name):
                        tf.summary.scalar(tag, float(value))

    def warning(self, step: int, sentence: str) -> None:
        """Show a warning among the texts."""
        with self._writing(self._dev, step):
            tf.summary.text("warnings", sentence)

    def kl_by_dimension(self, step: int, kl: np.ndarray) -> None:
        """Write a histogram of the mean KL of each dimension of z: [Z]."""
        with self._writing(self._dev, step):
            tf.summary.histogram("latent/kl_by_dimension", kl)

    def attention(self, step: int, images: Sequence[np.ndarray]) -> None:
        """Write attention images: a list of [height, width, 3] uint8 arrays."""
        with self._writing(self._dev, step):
            for number, image in enumerate(images):
                tf.summary.image(f"translations/attention_{number}", image[None])

    def projection(self, projection: dict[str, Any]) -> None:
        """Show z in the projector: keyword arguments of plots.projector.write."""
        with disk_errors.explained(f"write {self._folder}"):
            projector.write(self._folder / "dev", **projection)

    def translations(self, step: int, rows: Rows) -> None:
        """Write translations: rows of (source, reference, translation)."""
        self._table(step, "translations", ("source", "reference", "translation"), rows)

    def prior_samples(self, step: int, rows: Rows) -> None:
        """Write sentence pairs sampled from the prior: rows of (source, target)."""
        self._table(step, "samples_from_the_prior", ("source", "target"), rows)

    def _table(self, step: int, name: str, header: Sequence[str], rows: Rows) -> None:
        table = tables.markdown(header, [list(map(str, row)) for row in rows])
        with self._writing(self._dev, step):
            tf.summary.text(name, table)

    def close(self) -> None:
        """Flush and close the files."""
        with disk_errors.explained(f"write {self._folder}"):
            self._train.close()
            self._dev.close()

    @contextlib.contextmanager
    def _writing(self, writer: tf.summary.SummaryWriter, step: int) -> Iterator[None]:
        """Write what the block shows of a step; TensorFlow may do so at any moment."""
        with disk_errors.explained(f"write {self._folder}"):
            with writer.as_default(step):
                yield
            writer.flush()


def _mark_changed(config: Any, changed: set[str]) -> None:
    """Mark settings as different in a summary of the HPARAMS tab, which lists those first."""
    from tensorboard.plugins.hparams import plugin_data_pb2

    data = config.value[0].metadata.plugin_data
    content = plugin_data_pb2.HParamsPluginData.FromString(data.content)
    for info in content.experiment.hparam_infos:
        info.differs = info.name in changed
    data.content = content.SerializeToString()


def _mark_start(step: int, folder: Path) -> None:
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
