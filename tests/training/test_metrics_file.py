"""metrics.jsonl: flushed lines, cut back on resume."""

import errno
import json
import resource
import signal

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.training.metrics_file import MetricsFile


def up_to(step):
    return lambda line: line["step"] <= step


def test_lines_are_json_and_on_disk_at_once(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.append({"step": 1, "loss": 2.5, "text": "ü"})
    file.append({"step": 2, "loss": float("nan"), "units": [1, 2.5]})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"step": 1, "loss": 2.5, "text": "ü"},
        {"step": 2, "loss": None, "units": [1, 2.5]},
    ]


def test_numbers_survive_exactly(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.append({"step": 1, "loss": 0.1 + 0.2})
    file.cut_back(up_to(1))
    assert file.read() == [{"step": 1, "loss": 0.1 + 0.2}]


def test_cut_back_drops_later_steps_and_a_torn_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path)
    for step in (10, 20, 20, 30):
        file.append({"step": step})
    with open(path, "a") as torn:
        torn.write('{"step": 4')
    file.cut_back(up_to(20))
    assert path.read_text() == '{"step": 10}\n{"step": 20}\n{"step": 20}\n'
    file.append({"step": 30})
    assert [line["step"] for line in file.read()] == [10, 20, 20, 30]


def test_cut_back_to_the_start_and_of_nothing(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.cut_back(up_to(0))
    assert file.read() == []
    file.append({"step": 5})
    file.cut_back(up_to(0))
    assert (tmp_path / "metrics.jsonl").read_text() == ""


@pytest.mark.parametrize(
    "bad", ["no JSON", "", '{"loss": 1.0}', "[1]", "7", '{"step": null}', '{"step": "x"}', "\0"]
)
def test_a_bad_line_costs_no_good_one(tmp_path, bad):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1}}\n{bad}\n{{"step": 2}}\n{{"step": 3}}\n')
    file = MetricsFile(path)
    assert [line["step"] for line in file.read()] == [1, 2, 3]
    file.cut_back(up_to(2))
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'


def test_unwritable_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="cannot write .*metrics.jsonl"):
        MetricsFile(tmp_path / "missing" / "metrics.jsonl").append({"step": 1})


def test_a_line_that_a_full_disk_refuses_is_written_with_the_next(tmp_path, monkeypatch):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.append({"step": 1})

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(UserError, match="disk is full"):
            file.append({"step": 2})
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1}\n'
    assert [line["step"] for line in file.read()] == [1, 2]
    file.append({"step": 3})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]


def test_a_line_of_which_the_disk_takes_a_part_spoils_no_other(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path)
    file.append({"step": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, hard))
    try:
        with pytest.raises(UserError, match="cannot write"):
            file.append({"step": 2, "loss": 2.0})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert path.read_text() == '{"step": 1}\n'
    file.append({"step": 3})
    assert [line["step"] for line in MetricsFile(path).read()] == [1, 2, 3]
