"""Loading, swapping and refusing versions of a model."""

import shutil
import threading

import numpy as np
import pytest

from aevnmt_tf.cli import machine
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.serving import versions as versions_module
from aevnmt_tf.serving.batching import Batcher
from aevnmt_tf.serving.export_folder import find, fingerprint
from aevnmt_tf.serving.server_options import ServerOptions
from aevnmt_tf.serving.status import RequestError
from aevnmt_tf.serving.versions import Versions
from tests.serving import toy_model


@pytest.fixture
def make(tmp_path):
    """Return a function that makes the Versions of a folder, which is not watched."""
    batcher = Batcher(num_threads=1)
    reports = []

    def versions(folder=tmp_path, *, first_wait=600.0, **changes):
        waits = {"first_wait": first_wait}
        options = ServerOptions(folder, model_name="toy", **changes)
        made = Versions(options, batcher=batcher, report=reports.append, **waits)
        made.reports = reports
        return made

    yield versions
    batcher.close()


def translate(versions, *lines, number=None):
    with versions.using("toy", number=number) as version:
        inputs = {"source": np.array(lines, dtype=object)}
        future = version.queues["serving_default"].submit(
            inputs, words=np.ones(len(lines), int)
        )
        return future.result(60)["translation"].tolist()


def states(versions):
    return [(v.number, v.state, v.error_code) for v in versions.states("toy")]


def settle(versions):
    """Poll as often as it takes to see that the files do not change."""
    versions.poll()
    versions.poll()


def test_which_folders_are_versions(tmp_path):
    for name in ("1", "007", "x", "3.tmp", ".5", "-6", "8", "²", "9" * 20, "10"):
        (tmp_path / name).mkdir()
        if name != "8":  # no model in it yet
            (tmp_path / name / "saved_model.pb").touch()
    (tmp_path / "11").touch()
    assert find(tmp_path) == {
        n: tmp_path / name for n, name in ((1, "1"), (7, "007"), (10, "10"))
    }


def test_a_new_version_takes_over(make, toy_versions, tmp_path):
    toy_model.publish(toy_versions[1], tmp_path)
    versions = make()
    assert versions.load_first() == 1 and versions.current == 1
    assert translate(versions, "a") == [b"A v1"]
    toy_model.publish(toy_versions[2], tmp_path)
    versions.poll()
    assert versions.current == 1  # its files may still be growing
    versions.poll()
    assert versions.current == 2
    assert translate(versions, "a") == translate(versions, "a", number=2) == [b"A v2"]
    with pytest.raises(RequestError) as caught:
        translate(versions, "a", number=1)
    assert caught.value.code == "NOT_FOUND"
    assert caught.value.message == "Servable not found for request: Specific(toy, 1)"
    assert states(versions) == [(2, "AVAILABLE", "OK"), (1, "END", "OK")]
    assert versions.reports == [
        "version 1 is ready",
        "version 2 is ready",
        "version 1 is unloaded",
    ]
    settle(versions)  # nothing more to do
    assert len(versions.reports) == 3


def test_memory_is_given_back(make, toy_versions, tmp_path, monkeypatch):
    """After the warm-up of a version, and when one is unloaded."""
    calls = []
    monkeypatch.setattr(machine, "give_back_freed_memory", lambda: calls.append(1))
    toy_model.publish(toy_versions[1], tmp_path)
    versions = make()
    versions.load_first()
    assert len(calls) == 1
    toy_model.publish(toy_versions[2], tmp_path)
    settle(versions)
    assert len(calls) == 3


def test_an_old_version_answers_before_it_goes(make, toy_versions, tmp_path):
    toy_model.publish(toy_versions[1], tmp_path)
    versions = make()
    versions.load_first()
    with versions.using("toy") as old:
        toy_model.publish(toy_versions[2], tmp_path)
        versions.poll()
        poll = threading.Thread(target=versions.poll)
        poll.start()
        with versions._changed:
            assert versions._changed.wait_for(lambda: old.state == "UNLOADING", timeout=60)
        assert translate(versions, "a") == [b"A v2"]
        assert states(versions) == [(2, "AVAILABLE", "OK"), (1, "UNLOADING", "OK")]
        # Held by a request, it still works.
        inputs = {"source": np.array(["b"], dtype=object)}
        future = old.queues["serving_default"].submit(inputs, words=np.ones(1, int))
        assert future.result(60)["translation"].tolist() == [b"B v1"]
    poll.join(60)
    assert old.state == "END" and old.loaded is None and not old.queues


def broken(toy_versions, folder, number):
    toy_model.publish(toy_versions[2], folder, number=number)
    for path in (folder / str(number) / "variables").iterdir():
        path.write_bytes(path.read_bytes()[:20])


def test_a_broken_version_is_reported_and_the_old_one_serves(make, toy_versions, tmp_path):
    toy_model.publish(toy_versions[1], tmp_path)
    versions = make()
    versions.load_first()
    broken(toy_versions, tmp_path, 3)
    settle(versions)
    assert translate(versions, "a") == [b"A v1"]
    (number, state, code), current = states(versions)
    assert (number, state) == (3, "END") and code != "OK" and current[:2] == (1, "AVAILABLE")
    assert versions.states("toy", number=3)[0].error_message
    assert (
        len(versions.reports) == 2 and f"cannot load {tmp_path / '3'}: " in versions.reports[1]
    )
    settle(versions)  # it is not tried again
    assert len(versions.reports) == 2
    toy_model.publish(toy_versions[2], tmp_path)  # lower, but not broken
    settle(versions)
    assert versions.current == 2
    shutil.rmtree(tmp_path / "3")
    toy_model.publish(toy_versions[2], tmp_path, number=3)  # repaired
    settle(versions)
    assert versions.current == 3


def test_a_version_that_failed_is_tried_again(make, toy_versions, tmp_path, monkeypatch):
    """Such as one whose files cannot be read for a moment."""
    toy_model.publish(toy_versions[1], tmp_path)
    versions = make(first_wait=0.0)
    versions.load_first()
    toy_model.publish(toy_versions[2], tmp_path)

    def unreadable(path):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as context:
        context.setattr(versions_module, "Servable", unreadable)
        settle(versions)
        settle(versions)
    assert versions.current == 1
    assert len(versions.reports) == 2  # the same trouble is reported once
    versions.poll()
    assert versions.current == 2


def test_waits_grow(make, toy_versions, tmp_path):
    toy_model.publish(toy_versions[1], tmp_path)
    versions = make(first_wait=100.0)
    versions.load_first()
    broken(toy_versions, tmp_path, 3)
    settle(versions)
    first = versions._failed[3]
    first.again = 0.0
    settle(versions)
    assert (first.wait, versions._failed[3].wait) == (100.0, 200.0)


def test_labels(make, toy_versions, tmp_path):
    for path in toy_versions.values():
        toy_model.publish(path, tmp_path)
    versions = make(version_label=("stable=1", "canary=2", "next=7"))
    assert versions.load_first() == 2
    inputs = {"source": np.array(["a"], dtype=object)}
    for label, answer in (("stable", b"A v1"), ("canary", b"A v2"), ("", b"A v2")):
        with versions.using("toy", label=label) as version:
            found = version.queues["serving_default"].submit(inputs, words=np.ones(1, int))
            assert found.result(60)["translation"].tolist() == [answer]
    for label, code in (("next", "NOT_FOUND"), ("other", "INVALID_ARGUMENT")):
        with pytest.raises(RequestError) as caught, versions.using("toy", label=label):
            pass
        assert caught.value.code == code
    toy_model.publish(toy_versions[2], tmp_path, number=7)
    settle(versions)
    assert versions.current == 7
    assert states(versions) == [(n, "AVAILABLE", "OK") for n in (7, 2, 1)]


def test_half_a_version_waits(make, toy_versions, tmp_path):
    """A copy in place, file by file."""
    toy_model.publish(toy_versions[1], tmp_path)
    versions = make()
    versions.load_first()
    (tmp_path / "2").mkdir()
    settle(versions)
    shutil.copy(toy_versions[2] / "saved_model.pb", tmp_path / "2")
    versions.poll()
    shutil.copytree(toy_versions[2] / "variables", tmp_path / "2" / "variables")
    versions.poll()
    assert states(versions) == [(1, "AVAILABLE", "OK")]
    versions.poll()
    assert versions.current == 2


def test_back_to_a_lower_version(make, toy_versions, tmp_path):
    for path in toy_versions.values():
        toy_model.publish(path, tmp_path)
    versions = make()
    assert versions.load_first() == 2
    settle(versions)
    assert versions.current == 2
    shutil.rmtree(tmp_path / "2")
    settle(versions)
    assert translate(versions, "a") == [b"A v1"]
    shutil.rmtree(tmp_path / "1")
    settle(versions)
    assert translate(versions, "a") == [b"A v1"]  # better than nothing


def test_the_watcher_survives_a_folder_that_is_away(make, toy_versions, tmp_path):
    folder = tmp_path / "export"
    folder.mkdir()
    toy_model.publish(toy_versions[1], folder)
    versions = make(folder, poll_seconds=0.01)
    versions.load_first()
    folder.rename(tmp_path / "away")
    versions.start()
    wait_for(lambda: any("cannot look for new versions" in r for r in versions.reports))
    (tmp_path / "away").rename(folder)
    toy_model.publish(toy_versions[2], folder)
    wait_for(lambda: versions.current == 2)
    versions.stop()
    # One sentence, not one for each look.
    assert sum("cannot look for new versions" in r for r in versions.reports) == 1


def wait_for(condition, seconds=60):
    pause = threading.Event()
    for _ in range(seconds * 100):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("waited in vain")


def test_the_highest_version_that_works_is_first(make, toy_versions, tmp_path):
    toy_model.publish(toy_versions[1], tmp_path)
    broken(toy_versions, tmp_path, 9)
    versions = make()
    assert versions.load_first() == 1
    assert versions.reports[0] == "version 1 is ready"
    assert versions.reports[1].startswith(f"cannot load {tmp_path / '9'}: ")
    settle(versions)  # and that is all
    assert len(versions.reports) == 2


def test_nothing_to_serve(make, toy_versions, tmp_path):
    with pytest.raises(UserError, match="none does not exist: give the --export_dir"):
        make(tmp_path / "none").load_first()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file is not a folder"):
        make(tmp_path / "file").load_first()
    with pytest.raises(UserError, match="has no version of a model: make one with aevnmt exp"):
        make().load_first()
    broken(toy_versions, tmp_path, 4)
    with pytest.raises(UserError, match="cannot load .*/4: "):
        make().load_first()
    with pytest.raises(UserError, match=f"is one version of a model: .*, {tmp_path}"):
        make(tmp_path / "4").load_first()


def test_a_folder_that_cannot_be_read(make, tmp_path, monkeypatch):
    """Nobody can keep root out of a folder, so this one is only said to be closed."""

    def closed(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(type(tmp_path), "iterdir", closed)
    with pytest.raises(UserError, match=f"cannot read {tmp_path}: Permission denied"):
        make().load_first()


def test_names_and_labels(make, toy_versions, tmp_path):
    toy_model.publish(toy_versions[1], tmp_path)
    versions = make()
    versions.load_first()
    for which, code, message in (
        ({"name": "other"}, "NOT_FOUND", "Servable not found for request: Latest(other)"),
        ({"name": "toy", "number": 7}, "NOT_FOUND", "Specific(toy, 7)"),
        ({"name": "toy", "label": "new"}, "INVALID_ARGUMENT", "version label: new"),
    ):
        with pytest.raises(RequestError) as caught, versions.using(**which):
            pass
        assert caught.value.code == code and message in caught.value.message
    for which, message in (
        ({"name": "other"}, "Could not find any versions of model other"),
        ({"name": "toy", "number": 7}, "Could not find version 7 of model toy"),
    ):
        with pytest.raises(RequestError) as caught:
            versions.states(**which)
        assert (caught.value.code, caught.value.message) == ("NOT_FOUND", message)


# Warming up.


def test_warm_up_requests_are_answered_before_the_first(make, toy_versions, tmp_path):
    toy_model.publish(toy_versions[1], tmp_path)
    requests = [("serving_default", {"source": ["a"] * size}) for size in (1, 2, 5)]
    more = [("", {"source": ["b"]}), ("sample", {"source": ["a"], "seed": np.int32([1])})]
    toy_model.write_warm_up(tmp_path / "1", *requests, *more)
    versions = make()
    versions.load_first()
    with versions.using("toy") as version:
        inputs = {"source": np.array(["x"], dtype=object)}
        counts = version.queues["count"].submit(inputs, words=np.ones(1, int)).result(60)
    assert (counts["calls"].tolist(), counts["largest"].tolist()) == ([4], [5])


@pytest.mark.parametrize(
    "request_, sentence",
    [
        (("translate", {"source": ["a"]}), 'Serving signature key "translate" not found'),
        (("serving_default", {"line": ["a"]}), "Sent extra: {line}. Missing but required: {so"),
        (("serving_default", {"source": [["a"]]}), "must have shape [?], not [1,1]"),
        (("serving_default", {"source": [1.0]}), "Input source must be string, not float32"),
        (("fails", {"source": ["bad"]}), "a bad line"),
    ],
)
def test_a_model_that_cannot_answer_its_own_requests(
    make, toy_versions, tmp_path, request_, sentence
):
    toy_model.publish(toy_versions[1], tmp_path)
    toy_model.write_warm_up(tmp_path / "1", request_)
    with pytest.raises(UserError) as caught:
        make().load_first()
    assert sentence in str(caught.value)


def test_a_warm_up_file_that_is_none(make, toy_versions, tmp_path):
    toy_model.publish(toy_versions[1], tmp_path)
    (tmp_path / "1" / "assets.extra").mkdir()
    (tmp_path / "1" / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"x" * 100)
    with pytest.raises(UserError, match="cannot load .*/1: .*corrupted record"):
        make().load_first()


def test_too_many_warm_up_requests(make, toy_versions, tmp_path, monkeypatch):
    toy_model.publish(toy_versions[1], tmp_path)
    toy_model.write_warm_up(tmp_path / "1", *[("double", {"x": [[1.0, 2.0, 3.0]]})] * 4)
    monkeypatch.setattr("aevnmt_tf.serving.warmup.MOST_RECORDS", 3)
    with pytest.raises(UserError, match="more than 3 requests"):
        make().load_first()


def test_fingerprints_see_every_file(tmp_path):
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "a").write_text("1")
    first = fingerprint(tmp_path)
    assert first == fingerprint(tmp_path)
    (tmp_path / "variables" / "a").write_text("22")
    assert fingerprint(tmp_path) != first
