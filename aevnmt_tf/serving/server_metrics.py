"""What Prometheus is told: TensorFlow Serving's metrics under their names, and some of ours.

TensorFlow Serving's have the labels `signature` and `version` besides their own ones.
"""

import importlib.metadata
import platform
import re
from collections.abc import Iterable, Sequence

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

import aevnmt_tf
from aevnmt_tf.serving.batching import Observe, Queue

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST
_SERVING = ":tensorflow:serving:"
# TensorFlow Serving's own buckets.
_MICROSECONDS = tuple(10 * 1.8**power for power in range(33))
_QUEUE_MICROSECONDS = tuple(100 * 1.2**power for power in range(52))
_ROWS = tuple(2**power for power in range(14))
_WHOSE = ("model_name", "signature", "version")


class ServerMetrics:
    """The counters of one server."""

    def __init__(self, model_name: str):
        self._model_name = model_name
        self._registry = CollectorRegistry()
        self._requests = Counter(
            f"{_SERVING}request_count",
            "The total number of requests.",
            (*_WHOSE, "status"),
            registry=self._registry,
        )
        self._latency = self._histogram(
            "request_latency",
            "Wall time of requests in microseconds.",
            _MICROSECONDS,
            "API",
            "entrypoint",
        )
        self._runtime = self._histogram(
            "runtime_latency",
            "Wall time of TensorFlow in microseconds.",
            _MICROSECONDS,
            "API",
            "runtime",
        )
        session = "batching_session:"
        self._queuing = self._histogram(
            f"{session}queuing_latency", "Microseconds in the queue.", _QUEUE_MICROSECONDS
        )
        self._input_size = self._histogram(
            f"{session}input_batch_size", "Rows of batches before padding.", _ROWS
        )
        self._processed_size = self._histogram(
            f"{session}processed_batch_size", "Rows of batches after padding.", _ROWS
        )
        self._runs = Counter(
            f"{_SERVING}{session}wrapped_run_count",
            "Batches that were run.",
            _WHOSE,
            registry=self._registry,
        )
        self._queue = Gauge(
            "aevnmt_queue_length",
            "Parts of requests that wait.",
            _WHOSE,
            registry=self._registry,
        )
        Gauge(
            "aevnmt_build_info",
            "What is running.",
            ("aevnmt_tf", "tensorflow", "python"),
            registry=self._registry,
        ).labels(
            aevnmt_tf.__version__,
            importlib.metadata.version("tensorflow"),
            platform.python_version(),
        ).set(1)

    def _histogram(
        self, name: str, help: str, buckets: Sequence[float], *labels: str
    ) -> Histogram:
        return Histogram(
            f"{_SERVING}{name}",
            help,
            (*_WHOSE, *labels),
            buckets=buckets,
            registry=self._registry,
        )

    def request(
        self, signature: str, version: str, *, status: str, entrypoint: str, seconds: float
    ) -> None:
        """Count a request that is answered or refused."""
        whose = (self._model_name, signature, version)
        self._requests.labels(*whose, status).inc()
        self._latency.labels(*whose, "Predict", entrypoint).observe(1e6 * seconds)

    def batches(self, signature: str, number: int) -> Observe:
        """Return what a queue calls after each of its batches."""
        whose = (self._model_name, signature, str(number))
        runtime = self._runtime.labels(*whose, "Predict", "TF2")
        queuing = self._queuing.labels(*whose)
        sizes = self._input_size.labels(*whose), self._processed_size.labels(*whose)
        runs = self._runs.labels(*whose)

        def observe(rows: int, padded: int, waits: Sequence[float], seconds: float) -> None:
            runs.inc()
            runtime.observe(1e6 * seconds)
            for wait in waits:
                queuing.observe(1e6 * wait)
            for size, value in zip(sizes, (rows, padded), strict=True):
                size.observe(value)

        return observe

    def exposition(self, queues: Iterable[tuple[str, int, Queue]]) -> bytes:
        """Return the text that Prometheus reads.

        Args:
            queues: signature, version and queue of all that is served.
        """
        self._queue.clear()
        for signature, number, queue in queues:
            self._queue.labels(self._model_name, signature, str(number)).set(len(queue))
        text = prometheus_client.generate_latest(self._registry)
        # TensorFlow Serving's counters do not end in _total, and have no time of creation.
        text = re.sub(rb"(?m)^(# \w+ )?:tensorflow\S*_created\b.*\n", b"", text)
        return re.sub(rb"(?m)^((?:# \w+ )?:tensorflow:\S*?_count)_total\b", rb"\1", text)
