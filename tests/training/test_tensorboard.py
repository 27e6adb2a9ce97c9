"""TensorBoard's files, read back with TensorBoard's own reader."""

import types

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.training import report_keys
from aevnmt_tf.training.dev_evaluation import DevEvaluation
from aevnmt_tf.training.tensorboard import TensorBoard


def read(folder):
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    return accumulator


def value(accumulator, tag, step):
    (event,) = [event for event in accumulator.Tensors(tag) if event.step == step]
    return float(tf.make_ndarray(event.tensor_proto))


def evaluation(**values):
    return DevEvaluation(values=values, translations=[])


@pytest.fixture
def logs(tmp_path):
    board = TensorBoard(tmp_path)
    yield board
    board.close()


def test_train_and_dev_scalars(tmp_path, logs):
    logs.scalars(10, {name: float(n) for n, name in enumerate(report_keys.KEYS)})
    logs.evaluation(10, evaluation(dev_bleu=31.5, dev_active_units=7, dev_x="no"))
    train, dev = read(tmp_path / "train"), read(tmp_path / "dev")
    groups = {tag.split("/")[0] for tag in train.Tags()["tensors"]}
    assert groups == {"Overview", "loss", "latent", "optimisation", "speed"}
    for number, name in enumerate(report_keys.KEYS):
        assert value(train, report_keys.tag(name), 10) == number
    # TensorBoard sorts tags by their letters, capitals first.
    expected = ["Overview/BLEU", "latent/active_units", "quality/bleu", "translations"]
    assert sorted(dev.Tags()["tensors"]) == expected
    assert value(dev, "quality/bleu", 10) == 31.5


def test_a_run_that_goes_on_hides_what_it_does_again(tmp_path):
    def write(steps, **options):
        board = TensorBoard(tmp_path, **options)
        for step, score in steps:
            board.scalars(step, {"kl": score})
            board.evaluation(step, evaluation(dev_bleu=score))
        board.close()
        # Nobody resumes within a second. The oldest first, or it would be written over.
        for path in sorted(tmp_path.glob("*/events.out.tfevents.*")):
            *start, seconds, end = path.name.split(".", 4)
            path.rename(path.with_name(".".join([*start, str(int(seconds) - 10), end])))

    def found(name, tag):
        # What TensorBoard itself reads with.
        accumulator = plugin_event_accumulator.EventAccumulator(str(tmp_path / name))
        accumulator.Reload()
        return [
            (event.step, float(tf.make_ndarray(event.tensor_proto)))
            for event in accumulator.Tensors(tag)
        ]

    write([(1, 1.0), (2, 2.0), (3, 3.0)], first_steps={"train": 1, "dev": 1})
    write([(3, 30.0), (4, 40.0)], first_steps={"train": 3, "dev": 2})
    assert found("train", "latent/kl") == [(1, 1.0), (2, 2.0), (3, 30.0), (4, 40.0)]
    assert found("dev", "quality/bleu") == [(1, 1.0), (3, 30.0), (4, 40.0)]
    write([(5, 50.0)])
    assert [step for step, _ in found("train", "latent/kl")] == [1, 2, 3, 4, 5]


def test_histogram_image_and_tables(tmp_path, logs):
    found = evaluation()
    found.kl_by_dimension = np.array([0.1, 0.2, 3.0], np.float32)
    found.attention = [np.zeros((4, 6, 3), np.uint8), np.zeros((4, 6, 3), np.uint8)]
    found.translations = [("a | b", "c", "d")]
    found.prior_samples = [("e", "f")]
    logs.evaluation(5, found)
    dev = read(tmp_path / "dev")
    assert set(dev.Tags()["tensors"]) == {
        "latent/kl_by_dimension",
        "translations/attention_0",
        "translations/attention_1",
        "translations",
        "samples_from_the_prior",
    }
    (text,) = dev.Tensors("translations")
    assert r"| a \| b | c | d |" in text.tensor_proto.string_val[0].decode()


def test_settings_for_the_hparams_tab(tmp_path, logs):
    settings = {"num_units": 8, "optimizer": "adam", "out_dir": None, "metrics": ["bleu"]}
    logs.settings(types.SimpleNamespace(to_dict=lambda: settings))
    dev = read(tmp_path / "dev")

    def content(name):
        data = dev.summary_metadata[f"_hparams_/{name}"].plugin_data.content
        return plugin_data_pb2.HParamsPluginData.FromString(data)

    info = content("session_start_info").session_start_info
    assert set(info.hparams) == {"num_units", "optimizer", "metrics"}
    assert info.hparams["num_units"].number_value == 8
    experiment = content("experiment").experiment
    # TensorBoard sorts by name, but shows what is marked as different first.
    assert {one.name: one.differs for one in experiment.hparam_infos} == {
        "metrics": False,
        "num_units": True,
        "optimizer": False,
    }
    first = [metric.name.tag for metric in experiment.metric_infos][:2]
    assert first == ["quality/bleu", "latent/kl"]


def test_a_warning_is_a_text(tmp_path, logs):
    logs.warning(3, "z has collapsed")
    (text,) = read(tmp_path / "dev").Tensors("warnings")
    assert text.step == 3 and b"collapsed" in text.tensor_proto.string_val[0]


@pytest.mark.parametrize(
    "write",
    [
        lambda logs: logs.scalars(1, {"loss": 1.0}),
        lambda logs: logs.evaluation(1, evaluation(dev_bleu=1.0)),
        lambda logs: logs.warning(1, "z has collapsed"),
        lambda logs: logs.settings(types.SimpleNamespace(to_dict=lambda: {"num_units": 8})),
        lambda logs: logs.close(),
    ],
)
def test_a_full_disk_is_a_sentence_that_names_the_folder(tmp_path, logs, monkeypatch, write):
    def refuse():
        raise tf.errors.ResourceExhaustedError(None, None, "events; No space left on device")

    for writer in (logs._train, logs._dev):
        monkeypatch.setattr(writer, "flush", refuse)
        monkeypatch.setattr(writer, "close", refuse)
    with pytest.raises(UserError) as error:
        write(logs)
    assert str(error.value).startswith(f"cannot write {tmp_path}: the disk is full")
