"""Where training runs: one device, several devices, several processes."""

import contextlib
import json
import os
import re
import socket
import time
import zlib
from collections.abc import Iterable, Iterator
from concurrent import futures

import numpy as np
import tensorflow as tf

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data.training_data import TrainingData

ADVICE = (
    'set it to {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker",'
    ' "index": 0}} in each process, with an index of its own.'
)

# Errors of this process, such as too little memory, unless they mention other workers.
_OWN = (
    tf.errors.ResourceExhaustedError,
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
    tf.errors.OutOfRangeError,
    tf.errors.UnimplementedError,
)
PATIENCE = 30.0  # seconds to wait for the name of a lost worker
SILENCE = 10.0  # seconds after which a server that does not answer is lost
# The first bytes of an HTTP/2 client, with an empty SETTINGS frame (RFC 9113).
_HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def choose(distribute: str) -> tf.distribute.Strategy:
    """Return the strategy of the setting `distribute`.

    auto uses the workers of TF_CONFIG if there are several, else all GPUs if there are several,
    else one device.
    """
    if distribute == "auto":
        if len(_workers()) > 1:
            distribute = "multi_worker"
        else:
            gpus = tf.config.list_logical_devices("GPU")
            distribute = "mirrored" if len(gpus) > 1 else "none"
    if distribute == "multi_worker":
        if not _workers():
            raise UserError(
                f"distribute is multi_worker, but TF_CONFIG names no workers: {ADVICE}"
            )
        return tf.distribute.MultiWorkerMirroredStrategy()
    if distribute == "mirrored":
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return tf.distribute.get_strategy()


def num_workers(strategy: tf.distribute.Strategy) -> int:
    """Return how many processes share the strategy, whatever TF_CONFIG names."""
    resolver = strategy.cluster_resolver  # None unless the strategy has several processes
    return 1 if resolver is None else resolver.cluster_spec().num_tasks("worker")


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Return whether this process, the first or only worker, is the one that writes."""
    return num_workers(strategy) < 2 or strategy.cluster_resolver.task_id == 0


def _workers() -> list[str]:
    """Return the workers that TF_CONFIG names, after checking it."""
    try:
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    except ValueError as error:
        raise UserError(f"TF_CONFIG is not JSON: {error}.") from None
    if not isinstance(config, dict):
        raise UserError(f"TF_CONFIG is not a JSON object: {ADVICE}")
    cluster, task = config.get("cluster", {}), config.get("task")
    if not isinstance(cluster, dict):
        raise UserError(f"cluster in TF_CONFIG is not a JSON object: {ADVICE}")
    workers = cluster.get("worker", [])
    if not isinstance(workers, list) or not all(isinstance(one, str) for one in workers):
        raise UserError(f"worker in TF_CONFIG is not a list of addresses: {ADVICE}")
    if not workers:
        return []
    if not isinstance(task, dict) or not {"type", "index"} <= task.keys():
        raise UserError(f"TF_CONFIG names workers, but no task of this process: {ADVICE}")
    if task["type"] != "worker":
        raise UserError(
            f"the task's type in TF_CONFIG is {task['type']!r}, but every process must be a"
            f" worker, and worker 0 is the chief: {ADVICE}"
        )
    if type(task["index"]) is not int or not 0 <= task["index"] < len(workers):
        raise UserError(
            f"the task's index in TF_CONFIG is {task['index']!r}, but it must be a number"
            f" from 0 to {len(workers) - 1}, because there are {len(workers)} worker(s)."
        )
    return workers


def batches(
    strategy: tf.distribute.Strategy, data: TrainingData, *, first_step: int
) -> tf.distribute.DistributedDataset:
    """Return a dataset of each replica's part of every global batch, starting at a step."""
    replicas = strategy.num_replicas_in_sync

    def of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        local = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * local
        shards = list(range(first, first + local))
        dataset = data.dataset(first_step=first_step, num_shards=replicas, shard=shards)
        return dataset if data.batch_size % replicas == 0 else dataset.map(in_range)

    def in_range(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        # Fillers that make the parts equal have rows beyond the batch, for which there is no
        # noise. Their weight is 0, so the noise of any row will do.
        return {**batch, "row": tf.minimum(batch["row"], data.batch_size - 1)}

    return strategy.distribute_datasets_from_function(of_worker)


@contextlib.contextmanager
def lost_workers_explained(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Turn the loss of another worker into a UserError that names it.

    TensorFlow's coordination service notices a process that has ended within seconds, and one
    that does not answer after some missed heartbeats.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if num_workers(strategy) < 2 or not _is_about_workers(error):
            raise
        raise UserError(
            f"{_lost(strategy)} has ended or does not answer; the newest"
            " checkpoint is intact: start all processes again to resume."
        ) from error


def _is_about_workers(error: tf.errors.OpError) -> bool:
    certain = (tf.errors.UnavailableError, tf.errors.AbortedError)
    if isinstance(error, certain + (tf.errors.DeadlineExceededError,)):
        return True
    # Every error in a cluster names its device, /job:worker/replica:0/task:0.
    words = "collective op|coordination|heartbeat|peer|socket"
    if not isinstance(error, _OWN):
        words += "|collective|/task:"
    return bool(re.search(words, error.message, re.I))


def _lost(strategy: tf.distribute.Strategy) -> str:
    """Return which worker is lost: the one whose server does not answer."""
    resolver = strategy.cluster_resolver
    addresses = resolver.cluster_spec().as_dict()["worker"]
    others = {n: each for n, each in enumerate(addresses) if n != resolver.task_id}
    lost, end = list[int](), time.monotonic() + PATIENCE
    with futures.ThreadPoolExecutor(len(others)) as threads:
        while not lost and time.monotonic() < end:
            answers = threads.map(_answers, others.values())
            lost = [n for n, answer in zip(others, answers, strict=True) if not answer]
            time.sleep(0.0 if lost else 0.5)
    if len(others) == 1:
        lost = list(others)
    if not lost:
        return "another process of the run"
    return " and ".join(f"worker {number} ({addresses[number]})" for number in lost)


def _answers(address: str) -> bool:
    """Return whether a gRPC server answers at host:port.

    TensorFlow's coordination service knows, too, but it runs in worker 0: if that hangs or the
    network does not reach it, the question is never answered and blocks all of Python.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), SILENCE) as connection:
            connection.settimeout(SILENCE)
            connection.sendall(_HTTP2_HELLO)
            return bool(connection.recv(1))
    except OSError:
        return False


@contextlib.contextmanager
def chief_first(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Run the block in the chief, then in the other processes; all must call this."""
    agreement = Agreement(strategy)
    if not is_chief(strategy):
        agreement.any(False)
    yield
    if is_chief(strategy):
        agreement.any(False)


class Agreement:
    """How processes make one decision; with one process it costs nothing.

    Every process must call each method.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self._num_workers = num_workers(strategy)
        self.several = self._num_workers > 1

        @tf.function
        def total(value: tf.Tensor) -> tf.Tensor:
            # A process would add up a single tensor only once for all of its replicas.
            values = strategy.run(tf.identity, args=(value,))
            return strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None)

        self._total = total

    def gather(self, value: float) -> list[float]:
        """Return the number of each process."""
        if not self.several:
            return [float(value)]
        own = np.zeros(self._num_workers)
        own[self._strategy.cluster_resolver.task_id] = value
        replicas = self._strategy.num_replicas_in_sync // self._num_workers
        with lost_workers_explained(self._strategy):
            return list(self._total(tf.constant(own, tf.float64)).numpy() / replicas)

    def any(self, flag: bool) -> bool:
        """Return whether the flag is true in at least one process."""
        return any(self.gather(flag))

    def from_chief(self, value: float) -> float:
        """Return the chief's number in every process."""
        return self.gather(value)[0]

    def refuse_different_text(self, digests: Iterable[str]) -> None:
        """Raise a UserError in every process if they have not read the same files."""
        if len(set(self.gather(zlib.crc32(" ".join(digests).encode())))) > 1:
            raise UserError(
                "the workers do not read the same training text: give all of them the same"
                " files, for example on a shared disk."
            )

    def refuse_different_starts(self, step: int, variables: Iterable[tf.Variable] = ()) -> None:
        """Raise a UserError in every process if they do not start from the same state.

        Each process restores what it sees in out_dir. With a disk of its own, or an outdated
        listing of a network disk, the gradients of different weights would be added up.

        Args:
            step: where this process starts.
            variables: what it has restored.
        """
        if not self.several:
            return
        checksum = 0
        for variable in variables:
            checksum = zlib.crc32(np.ascontiguousarray(variable.numpy()), checksum)
        steps, checksums = self.gather(step), self.gather(checksum)
        if len(set(steps)) == len(set(checksums)) == 1:
            return
        found = [
            f"worker {number} step {int(step)} (weights {int(value):08x})"
            for number, (step, value) in enumerate(zip(steps, checksums, strict=True))
        ]
        raise UserError(
            f"the workers do not start from the same checkpoint: {', '.join(found)}; give all"
            " of them the same out_dir on a shared disk, and start them again."
        )
