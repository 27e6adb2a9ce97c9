"""What Prometheus is told: TensorFlow Serving's metrics under their names, and some of ours.

TensorFlow Serving's have the labels `signature` and `version` besides their own ones.
"""

import importlib.metadata
import platform
import re
from collections.abc import Iterable, Sequence
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

import aevnmt_tf
from aevnmt_tf.serving.batching import Observe, Queue

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST
# TensorFlow Serving's own buckets.
_MICROSECONDS = tuple(10 * 1.8**power for power in range(33))
_QUEUE_MICROSECONDS = tuple(100 * 1.2**power for power in range(52))
_ROWS = tuple(2**power for power in range(14))
_WHOSE = ("model_name", "signature", "version")
_WARMUP = ("model_path", "status")
_SESSION = "batching_session:"

# Name -> description, labels, and buckets where it is a histogram.
_SERVING: dict[str, tuple[str, tuple[str, ...], Sequence[float] | None]] = {
    "request_count": ("The total number of requests.", (*_WHOSE, "status"), None),
    "request_latency": (
        "Wall time of requests in microseconds.",
        (*_WHOSE, "API", "entrypoint"),
        _MICROSECONDS,
    ),
    "runtime_latency": (
        "Wall time of TensorFlow in microseconds.",
        (*_WHOSE, "API", "runtime"),
        _MICROSECONDS,
    ),
    f"{_SESSION}queuing_latency": (
        "Microseconds in the queue.",
        _WHOSE,
        _QUEUE_MICROSECONDS,
    ),
    f"{_SESSION}input_batch_size": ("Rows of batches before padding.", _WHOSE, _ROWS),
    f"{_SESSION}processed_batch_size": ("Rows of batches after padding.", _WHOSE, _ROWS),
    f"{_SESSION}padding_size": (
        "Rows that fill up batches.",
        (*_WHOSE, "execution_batch_size"),
        _ROWS,
    ),
    f"{_SESSION}wrapped_run_count": ("Batches that were run.", _WHOSE, None),
    "model_warmup_latency": ("Microseconds of warming up.", _WARMUP, _MICROSECONDS),
    "model_warmup_records_read": ("Requests of the warm-up.", _WARMUP, None),
}


class ServerMetrics:
    """The counters of one server."""

    def __init__(self, model_name: str):
        self._model_name = model_name
        self._registry = CollectorRegistry()
        self._serving: dict[str, Any] = {}
        for name, (description, labels, buckets) in _SERVING.items():
            more: dict[str, Any] = {} if buckets is None else {"buckets": buckets}
            kind = Counter if buckets is None else Histogram
            whole_name = f":tensorflow:serving:{name}"
            self._serving[name] = kind(
                whole_name, description, labels, registry=self._registry, **more
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

    def request(
        self, signature: str, version: str, *, status: str, entrypoint: str, seconds: float
    ) -> None:
        """Count a request that is answered or refused."""
        whose = (self._model_name, signature, version)
        self._serving["request_count"].labels(*whose, status).inc()
        latency = self._serving["request_latency"].labels(*whose, "Predict", entrypoint)
        latency.observe(1e6 * seconds)

    def batches(self, signature: str, number: int) -> Observe:
        """Return what a queue calls after each of its batches."""
        whose = (self._model_name, signature, str(number))
        runtime = self._serving["runtime_latency"].labels(*whose, "Predict", "TF2")
        padding = self._serving[f"{_SESSION}padding_size"]
        queuing, inputs, processed, runs = (
            self._serving[f"{_SESSION}{name}"].labels(*whose)
            for name in (
                "queuing_latency",
                "input_batch_size",
                "processed_batch_size",
                "wrapped_run_count",
            )
        )

        def observe(rows: int, padded: int, waits: Sequence[float], seconds: float) -> None:
            runs.inc()
            runtime.observe(1e6 * seconds)
            for wait in waits:
                queuing.observe(1e6 * wait)
            inputs.observe(rows)
            processed.observe(padded)
            padding.labels(*whose, str(padded)).observe(padded - rows)

        return observe

    def warmed_up(self, path: str, *, seconds: float, records: int, status: str) -> None:
        """Count the requests that a version has been warmed up with."""
        self._serving["model_warmup_latency"].labels(path, status).observe(1e6 * seconds)
        self._serving["model_warmup_records_read"].labels(path, status).inc(records)

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
        return re.sub(rb"(?m)^((?:# \w+ )?:tensorflow:\S*?)_total\b", rb"\1", text)
