"""Metrics for Prometheus, and the access log.

TensorFlow Serving's metrics keep their names, and get the labels `signature` and `version`. The
access log has one line of JSON per prediction and never contains text of users.
"""

import contextlib
import dataclasses
import importlib.metadata
import json
import platform
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import IO, TYPE_CHECKING, Any

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

import aevnmt_tf
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
_SESSION = "batching_session:"

# Name -> description, labels, and the buckets of histograms; the others are counters.
_SERVING: dict[str, tuple[str, tuple[str, ...], Sequence[float] | None]] = {
    "request_count": ("Requests.", (*_WHOSE, "status"), None),
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
    f"{_SESSION}wrapped_run_count": ("Batches.", _WHOSE, None),
    "model_warmup_latency": ("Microseconds per warm-up.", _WARMUP, _MICROSECONDS),
    "model_warmup_records_read": ("Warm-up requests.", _WARMUP, None),
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
    """The metrics and the access log of one server.

    Args:
        model_name: a label of most metrics.
        access_log: file to append to; -: stderr; None: no log.
    """

    def __init__(self, model_name: str, access_log: str | None = None):
        self._model_name = model_name
        self._registry = CollectorRegistry()
        self._serving: dict[str, Any] = {}
        for name, (description, labels, buckets) in _SERVING.items():
            more: dict[str, Any] = {} if buckets is None else {"buckets": buckets}
            kind = Counter if buckets is None else Histogram
            self._serving[name] = kind(
                f":tensorflow:serving:{name}",
                description,
                labels,
                registry=self._registry,
                **more,
            )
        self._queue = Gauge(
            "aevnmt_queue_length",
            "Parts of requests that wait.",
            _WHOSE,
            registry=self._registry,
        )
        versions = {
            "aevnmt_tf": aevnmt_tf.__version__,
            "tensorflow": importlib.metadata.version("tensorflow"),
            "python": platform.python_version(),
        }
        Gauge("aevnmt_build_info", "Versions.", list(versions), registry=self._registry).labels(
            **versions
        ).set(1)
        self._log: IO[str] | None = None
        if access_log is not None:
            try:
                self._log = (
                    sys.stderr if access_log == "-" else open(access_log, "a", encoding="utf-8")
                )
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
