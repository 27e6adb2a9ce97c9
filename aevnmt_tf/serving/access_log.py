"""One line of JSON per request, with no text of users in it, and the numbers for Prometheus."""

import contextlib
import dataclasses
import json
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import IO

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.serving import status
from aevnmt_tf.serving.server_metrics import ServerMetrics


@dataclasses.dataclass
class LoggedRequest:
    """What is known of a request that asks for a prediction."""

    entrypoint: str  # as TensorFlow Serving's metrics name it: REST or GRPC
    client: str
    signature: str = ""
    version: str = ""
    lines: int = 0
    words: int = 0
    status: str = "OK"


class AccessLog:
    """Where requests are written down.

    Args:
        path: of the file, which is appended to; -: stderr; None: nowhere.
        metrics: counts them.
    """

    def __init__(self, path: str | None, metrics: ServerMetrics):
        self._metrics = metrics
        self._stream: IO[str] | None = None
        if path is not None:
            try:
                self._stream = sys.stderr if path == "-" else open(path, "a", encoding="utf-8")
            except OSError as error:
                sentence = f"--access_log: cannot write {path}: {error.strerror}."
                raise UserError(sentence) from None

    @contextlib.contextmanager
    def request(self, entrypoint: str, client: str) -> Iterator[LoggedRequest]:
        """Yield what is to be filled in while a request is answered."""
        start, made = time.perf_counter(), LoggedRequest(entrypoint, client)
        try:
            yield made
        except Exception as error:
            made.status = status.of(error).code
            raise
        except BaseException:  # it was left, as by a client that has gone
            made.status = "CANCELLED"
            raise
        finally:
            seconds = time.perf_counter() - start
            self._metrics.request(
                made.signature,
                made.version,
                status=made.status,
                entrypoint=entrypoint,
                seconds=seconds,
            )
            if self._stream is not None:
                now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
                line = {"time": now, **vars(made), "seconds": round(seconds, 6)}
                # A full disk is no reason to fail.
                with contextlib.suppress(OSError, ValueError):
                    print(json.dumps(line), file=self._stream, flush=True)

    def close(self) -> None:
        """Close the file."""
        if self._stream not in (None, sys.stderr):
            self._stream.close()
