"""What TensorBoard shows of a run: scalars, histograms, images, texts, settings and z."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from aevnmt_tf import hparams
from aevnmt_tf.cli import tables
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.plots import projector
from aevnmt_tf.storage import disk_errors
from aevnmt_tf.training import report_keys
from aevnmt_tf.training.dev_evaluation import SHOWN, DevEvaluation
from aevnmt_tf.training.report_keys import Values


class TensorBoard:
    """The event files in a folder's train/ and dev/.

    The settings and z are in dev/ as well: TensorBoard looks for the scores of the HPARAMS tab
    in the same run, and for the projector's files in the folder of a run.

    Args:
        folder: where to write.
        first_steps: {"train": step, "dev": step} where this process begins. TensorBoard hides
            what earlier processes wrote about these and later steps.
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
        """Write a report on training."""
        with self._writing(self._train, step):
            _write_scalars(values)

    def evaluation(self, step: int, evaluation: DevEvaluation) -> None:
        """Write an evaluation: scores, histogram, images, texts, and z for the projector."""
        with self._writing(self._dev, step):
            if evaluation.kl_by_dimension is not None:
                tf.summary.histogram("latent/kl_by_dimension", evaluation.kl_by_dimension)
            for number, image in enumerate(evaluation.attention):
                tf.summary.image(f"translations/attention_{number}", image[None])
            columns = ("source", "reference", "translation")
            _write_table("translations", columns, evaluation.translations[:SHOWN])
            if evaluation.prior_samples:
                _write_table(
                    "samples_from_the_prior", ("source", "target"), evaluation.prior_samples
                )
            if evaluation.projection is not None:
                projector.write(self._folder / "dev", **evaluation.projection)
            _write_scalars(evaluation.values)

    def warning(self, step: int, text: str) -> None:
        """Show a warning among the texts."""
        with self._writing(self._dev, step):
            tf.summary.text("warnings", text)

    def close(self) -> None:
        """Flush and close the files."""
        with disk_errors.explained(f"write {self._folder}"):
            self._train.close()
            self._dev.close()

    @contextlib.contextmanager
    def _writing(self, writer: tf.summary.SummaryWriter, step: int) -> Iterator[None]:
        """Write what the block shows of a step; TensorFlow may write at any moment."""
        with disk_errors.explained(f"write {self._folder}"):
            with writer.as_default(step):
                yield
            writer.flush()


def _write_scalars(values: Values) -> None:
    for name, value in values.items():
        if isinstance(value, int | float):
            for tag in report_keys.tags(name):
                tf.summary.scalar(tag, float(value))


def _write_table(name: str, header: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    tf.summary.text(name, tables.markdown(header, rows))


def _mark_changed(config: Any, changed: set[str]) -> None:
    """Mark settings as changed, so that the HPARAMS tab lists them first."""
    from tensorboard.plugins.hparams import plugin_data_pb2

    data = config.value[0].metadata.plugin_data
    content = plugin_data_pb2.HParamsPluginData.FromString(data.content)
    for info in content.experiment.hparam_infos:
        info.differs = info.name in changed
    data.content = content.SerializeToString()


def _mark_start(step: int, folder: Path) -> None:
    """Write TensorBoard's mark of a start, which hides older events from its step on."""
    folder.mkdir(exist_ok=True)
    now = time.time()
    start = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
    events = (
        tf.compat.v1.Event(wall_time=now, file_version="brain.Event:2"),
        tf.compat.v1.Event(wall_time=now, step=step, session_log=start),
    )
    # TensorBoard reads files by name: this one comes before those of this process, whose names
    # continue with that of the machine.
    with tf.io.TFRecordWriter(str(folder / f"events.out.tfevents.{int(now)}.0")) as file:
        for event in events:
            file.write(event.SerializeToString())
