"""Metrics for Prometheus, and the access log.

TensorFlow Serving's metrics keep their names, and get the labels `signature` and `version`. The
access log has one line of JSON per prediction and never contains text of users.
"""

import contextlib
import dataclasses
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import IO, TYPE_CHECKING, Any

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

import aevnmt_tf
from aevnmt_tf.cli import machine
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.serving import status
from aevnmt_tf.serving.batching import Observe

if TYPE_CHECKING:
    from aevnmt_tf.serving.versions import Version

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST
# The buckets of TensorFlow Serving.
_MICROSECONDS = tuple(10 * 1.8**power for power in range(33))
_QUEUE_MICROSECONDS = tuple(100 * 1.2**power for power in range(52))
_ROWS = tuple(2**power for power in range(14))
_WHOSE = ("model_name", "signature", "version")
_WARMUP = ("model_path", "status")
_PREFIX = ":tensorflow:serving:"
_SESSION = "batching_session:"

# TensorFlow Serving's metrics: description, labels and, of histograms, buckets.
_COUNTERS = {
    "request_count": ("Requests.", (*_WHOSE, "status")),
    f"{_SESSION}wrapped_run_count": ("Batches.", _WHOSE),
    "model_warmup_records_read": ("Warm-up requests.", _WARMUP),
}
_HISTOGRAMS = {
    "request_latency": (
        "Microseconds per request.",
        (*_WHOSE, "API", "entrypoint"),
        _MICROSECONDS,
    ),
    "runtime_latency": ("Microseconds per batch.", (*_WHOSE, "API", "runtime"), _MICROSECONDS),
    f"{_SESSION}queuing_latency": ("Microseconds in the queue.", _WHOSE, _QUEUE_MICROSECONDS),
    f"{_SESSION}input_batch_size": ("Rows per batch.", _WHOSE, _ROWS),
    f"{_SESSION}processed_batch_size": ("Rows per batch, with padding.", _WHOSE, _ROWS),
    f"{_SESSION}padding_size": ("Padding.", (*_WHOSE, "execution_batch_size"), _ROWS),
    "model_warmup_latency": ("Microseconds per warm-up.", _WARMUP, _MICROSECONDS),
}


@dataclasses.dataclass
class LoggedRequest:
    """What is known about a prediction."""

    entrypoint: str  # as in TensorFlow Serving's metrics: REST or GRPC
    client: str
    signature: str = ""
    version: str = ""
    lines: int = 0
    words: int = 0
    status: str = "OK"


class ServerMetrics:
    """The metrics of one server, and its access log: a file, - for stderr, or None."""

    def __init__(self, model_name: str, access_log: str | None = None):
        self._model_name = model_name
        self._registry = registry = CollectorRegistry()
        self._serving: dict[str, Any] = {}
        for name, (about, labels) in _COUNTERS.items():
            self._serving[name] = Counter(f"{_PREFIX}{name}", about, labels, registry=registry)
        for name, (about, labels, buckets) in _HISTOGRAMS.items():
            self._serving[name] = Histogram(
                f"{_PREFIX}{name}", about, labels, buckets=buckets, registry=registry
            )
        about = "Parts of requests that wait."
        self._queue = Gauge("aevnmt_queue_length", about, _WHOSE, registry=registry)
        versions = machine.versions(["tensorflow"], own=aevnmt_tf.__version__)
        info = Gauge("aevnmt_build_info", "Versions.", list(versions), registry=registry)
        info.labels(**versions).set(1)
        self._log: IO[str] | None = sys.stderr if access_log == "-" else None
        if access_log not in (None, "-"):
            try:
                self._log = open(access_log, "a", encoding="utf-8")
            except OSError as error:
                raise UserError(
                    f"--access_log: cannot write {access_log}: {error.strerror}."
                ) from None

    @contextlib.contextmanager
    def request(self, entrypoint: str, client: str) -> Iterator[LoggedRequest]:
        """Count and log a request; yields a record to fill in."""
        start, made = time.perf_counter(), LoggedRequest(entrypoint, client)
        try:
            yield made
        except Exception as error:
            made.status = status.of(error).code
            raise
        except BaseException:  # such as asyncio.CancelledError, when the client is gone
            made.status = "CANCELLED"
            raise
        finally:
            seconds = time.perf_counter() - start
            whose = (self._model_name, made.signature, made.version)
            self._serving["request_count"].labels(*whose, made.status).inc()
            latency = self._serving["request_latency"].labels(*whose, "Predict", entrypoint)
            latency.observe(1e6 * seconds)
            if self._log is not None:
                now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
                line = {"time": now, **vars(made), "seconds": round(seconds, 6)}
                with contextlib.suppress(OSError, ValueError):  # a full disk is no failure
                    print(json.dumps(line), file=self._log, flush=True)

    def batches(self, signature: str, number: int) -> Observe:
        """Return the function that a queue calls after each batch."""
        whose = (self._model_name, signature, str(number))
        runtime = self._serving["runtime_latency"].labels(*whose, "Predict", "TF2")
        padding = self._serving[f"{_SESSION}padding_size"]
        names = "queuing_latency input_batch_size processed_batch_size wrapped_run_count"
        queuing, inputs, processed, runs = (
            self._serving[f"{_SESSION}{name}"].labels(*whose) for name in names.split()
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

    def warmed_up(self, path: str, *, seconds: float, records: int) -> None:
        """Count the warm-up requests of a version."""
        self._serving["model_warmup_latency"].labels(path, "OK").observe(1e6 * seconds)
        self._serving["model_warmup_records_read"].labels(path, "OK").inc(records)

    def exposition(self, versions: "Iterable[Version]") -> bytes:
        """Return the text that Prometheus reads, with the queues of these versions."""
        self._queue.clear()
        for version in versions:
            for signature, queue in version.queues.items():
                labels = (self._model_name, signature, str(version.number))
                self._queue.labels(*labels).set(len(queue))
        text = prometheus_client.generate_latest(self._registry)
        # TensorFlow Serving's counters do not end in _total and have no time of creation.
        text = re.sub(rb"(?m)^(# \w+ )?:tensorflow\S*_created\b.*\n", b"", text)
        return re.sub(rb"(?m)^((?:# \w+ )?:tensorflow:\S*?)_total\b", rb"\1", text)

    def close(self) -> None:
        """Close the access log."""
        if self._log not in (None, sys.stderr):
            self._log.close()
