"""Where training runs, without starting any other process."""

import json
import socket
import types

import pytest
import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.training import distribution


def set_cluster(monkeypatch, *, index, workers=2):
    cluster = {"worker": [f"127.0.0.1:{9000 + n}" for n in range(workers)]}
    config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


def test_one_device_is_the_default_strategy(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert distribution.choose("none") is tf.distribute.get_strategy()
    if len(tf.config.list_logical_devices("GPU")) < 2:
        assert distribution.choose("auto") is tf.distribute.get_strategy()


def test_mirrored_takes_every_device():
    strategy = distribution.choose("mirrored")
    assert isinstance(strategy, tf.distribute.MirroredStrategy)
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    assert strategy.num_replicas_in_sync == len(devices)


def test_multi_worker_needs_tf_config(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(UserError, match="TF_CONFIG names no workers"):
        distribution.choose("multi_worker")


def test_a_broken_tf_config_is_a_sentence(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{cluster")
    with pytest.raises(UserError, match="TF_CONFIG is not JSON"):
        distribution.choose("auto")


TWO = {"worker": ["127.0.0.1:9000", "127.0.0.1:9001"]}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ([], "TF_CONFIG is not a JSON object"),
        ({"cluster": []}, "cluster in TF_CONFIG"),
        ({"cluster": None}, "cluster in TF_CONFIG"),
        ({"cluster": {"worker": "127.0.0.1:9000"}}, "worker in TF_CONFIG is not a list"),
        ({"cluster": {"worker": [9000, 9001]}}, "worker in TF_CONFIG is not a list"),
        ({"cluster": TWO}, "TF_CONFIG names workers, but no task"),
        ({"cluster": TWO, "task": []}, "TF_CONFIG names workers, but no task"),
        ({"cluster": TWO, "task": {"type": "worker"}}, "TF_CONFIG names workers, but no task"),
        ({"cluster": TWO, "task": {"type": "chief", "index": 0}}, "in TF_CONFIG is 'chief'"),
        ({"cluster": TWO, "task": {"type": "worker", "index": 2}}, "from 0 to 1"),
        ({"cluster": TWO, "task": {"type": "worker", "index": "0"}}, "in TF_CONFIG is '0'"),
    ],
)
@pytest.mark.parametrize("distribute", ["auto", "multi_worker"])
def test_a_mistake_in_tf_config_is_a_sentence(monkeypatch, distribute, config, words):
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(UserError, match=words):
        distribution.choose(distribute)


def test_a_cluster_without_workers_is_one_process(monkeypatch):
    config = {"cluster": {"chief": ["127.0.0.1:9000"]}, "task": {"type": "chief", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    strategy = distribution.choose("auto")
    assert distribution.is_chief(strategy) and distribution.num_workers(strategy) == 1


def several_processes(*, index, workers=2):
    """A strategy of several processes, as far as it says who they are."""
    cluster = {"worker": [f"127.0.0.1:{9000 + n}" for n in range(workers)]}
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="worker", task_id=index
    )
    return types.SimpleNamespace(cluster_resolver=resolver)


@pytest.mark.parametrize(("index", "expected"), [(0, True), (1, False)])
def test_the_first_worker_is_the_chief(index, expected):
    strategy = several_processes(index=index)
    assert distribution.is_chief(strategy) is expected
    assert distribution.num_workers(strategy) == 2


@pytest.mark.parametrize("distribute", ["none", "mirrored"])
def test_every_process_is_its_own_chief_where_none_shares_the_strategy(monkeypatch, distribute):
    set_cluster(monkeypatch, index=1)
    strategy = distribution.choose(distribute)
    assert distribution.is_chief(strategy) and distribution.num_workers(strategy) == 1
    agreement = distribution.Agreement(strategy)
    assert not agreement.several
    assert agreement.any(True) is True and agreement.from_chief(12.5) == 12.5


def test_one_process_agrees_with_itself():
    agreement = distribution.Agreement(tf.distribute.get_strategy())
    assert agreement.any(True) is True and agreement.any(False) is False
    assert agreement.from_chief(12.5) == 12.5


@pytest.mark.parametrize(
    ("kind", "message", "workers", "silent", "named"),
    [
        (tf.errors.UnavailableError, "Socket closed", 2, [], r"worker 1 \(127.0.0.1:"),
        (tf.errors.AbortedError, "gone", 3, [2], r"worker 2 \(127.0.0.1:9002"),
        (tf.errors.InternalError, "Collective failed", 3, [], "another process"),
        (tf.errors.DeadlineExceededError, "late", 3, [1], "worker 1 "),
        (tf.errors.CancelledError, "no heartbeat", 3, [1, 2], "worker 1 .* and worker 2 "),
    ],
)
def test_the_loss_of_a_worker_is_a_sentence_that_names_it(
    monkeypatch, kind, message, workers, silent, named
):
    error = kind(None, None, message)
    alone = distribution.lost_workers_explained(tf.distribute.get_strategy())
    with pytest.raises(kind), alone:
        raise error
    ports = tuple(f":{9000 + number}" for number in silent)
    monkeypatch.setattr(distribution, "_answers", lambda one: not one.endswith(ports or "-"))
    monkeypatch.setattr(distribution, "PATIENCE", 0.1)
    strategy = several_processes(index=0, workers=workers)
    together = distribution.lost_workers_explained(strategy)
    with pytest.raises(UserError, match=f"{named}.*start all processes again"), together:
        raise error


def test_only_a_server_that_speaks_answers(monkeypatch):
    monkeypatch.setattr(distribution, "SILENCE", 0.5)
    server = tf.distribute.Server({"worker": ["127.0.0.1:0"]}, "worker", 0)
    assert distribution._answers(server.target.removeprefix("grpc://"))
    with socket.create_server(("127.0.0.1", 0)) as hung:  # takes connections, says nothing
        address = f"127.0.0.1:{hung.getsockname()[1]}"
        assert not distribution._answers(address)
    assert not distribution._answers(address)  # nothing listens


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (tf.errors.InvalidArgumentError, "{{function_node GatherV2_device_%s}} indices[0] = 9"),
        (tf.errors.ResourceExhaustedError, "OOM when allocating tensor on %s"),
    ],
)
def test_an_error_of_the_model_is_no_loss_of_a_worker(kind, message):
    together = distribution.lost_workers_explained(several_processes(index=0))
    with pytest.raises(kind), together:
        raise kind(None, None, message % "/job:worker/replica:0/task:0/device:GPU:0")


@pytest.mark.parametrize(("others", "is_same"), [((3.0,), True), ((2.0,), False)])
def test_workers_that_start_from_different_states_stop(monkeypatch, others, is_same):
    agreement = distribution.Agreement(tf.distribute.get_strategy())
    weights = [tf.Variable([1.0, 2.0])]
    agreement.refuse_different_starts(3, weights)  # one process
    agreement.several = True
    asked = []

    def gather(value):
        asked.append(value)
        return [float(value), *(others if value == 3 else (value,))]

    monkeypatch.setattr(agreement, "gather", gather)
    if is_same:
        agreement.refuse_different_starts(3, weights)
    else:
        with pytest.raises(UserError, match="worker 0 step 3 .* worker 1 step 2 .*out_dir"):
            agreement.refuse_different_starts(3, weights)
    weights[0].assign([1.0, 2.5])
    agreement.refuse_different_starts(4, weights)
    assert asked[1] != asked[3], "the checksum is of the weights"


class TwoReplicas:
    """A strategy of one process with two devices, as far as the data sees it."""

    num_replicas_in_sync = 2

    def distribute_datasets_from_function(self, function):
        return function(tf.distribute.InputContext(num_replicas_in_sync=2))


def test_rows_of_fillers_stay_inside_the_batch(settings, training_data):
    data = training_data(settings(batch_size=5))
    dataset = distribution.batches(TwoReplicas(), data, first_step=0)
    parts = list(dataset.take(8).as_numpy_iterator())
    whole = list(data.dataset().take(4).as_numpy_iterator())
    for number, batch in enumerate(whole):
        halves = parts[2 * number : 2 * number + 2]
        assert [len(half["row"]) for half in halves] == [3, 3]
        assert max(half["row"].max() for half in halves) == 4
        assert sum(half["weight"].sum() for half in halves) == batch["weight"].sum()
        assert sum(half["x_len"][half["weight"] > 0].sum() for half in halves) == (
            batch["x_len"][batch["weight"] > 0].sum()
        )


def test_workers_that_read_different_text_stop(monkeypatch):
    agreement = distribution.Agreement(tf.distribute.get_strategy())
    agreement.refuse_different_text(["a", "b"])  # one process
    monkeypatch.setattr(agreement, "gather", lambda value: [value, value])
    agreement.refuse_different_text(["a", "b"])
    monkeypatch.setattr(agreement, "gather", lambda value: [value, 0.0])
    with pytest.raises(UserError, match="same training text"):
        agreement.refuse_different_text(["a", "b"])


@pytest.mark.parametrize(
    ("index", "expected"), [(0, ["block", "meet"]), (1, ["meet", "block"])]
)
def test_the_chief_goes_first(monkeypatch, index, expected):
    done = []

    class Meeting:
        def __init__(self, strategy):
            pass

        def any(self, flag):
            done.append("meet")

    monkeypatch.setattr(distribution, "Agreement", Meeting)
    with distribution.chief_first(several_processes(index=index)):
        done.append("block")
    assert done == expected
