"""The settings of the embedded server: addresses, batching, limits and access."""

import dataclasses
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.settings import check_options, option
from aevnmt_tf.serving.status import RequestError, invalid

LOOPBACK = ("localhost", "127.0.0.1", "::1")

_batch = partial(option, group="batches (default: what the model's own file says)")
_limit = partial(option, int, group="limits", at_least=1, at_most=10**9)
_seconds = partial(option, float, above=0, at_most=1e6)
_access = partial(option, str, None, group="access")


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """The settings of `aevnmt serve`."""

    export_dir: Path
    model_name: str = option(str, "aevnmt", "name of the model in requests")
    host: str = option(
        str, "127.0.0.1", "address to listen on; 127.0.0.1: this machine only, 0.0.0.0: all"
    )
    port: int = option(
        int, 8501, "port of REST and the web page; 0: any free port", at_least=0, at_most=65535
    )
    grpc_port: int = option(
        int, 8500, "port of gRPC; 0: any free port", at_least=0, at_most=65535
    )
    poll_seconds: float = _seconds(1.0, "seconds between checks for a new version")
    version_label: tuple[str, ...] | None = option(
        str, None, "labels of versions to keep loaded, such as stable=3,canary=4", many=True
    )
    max_batch_size: int | None = _batch(
        int, None, "maximum number of lines per batch", at_least=1
    )
    batch_timeout_ms: float | None = _batch(
        float, None, "how long a line waits for others to join its batch", at_least=0
    )
    max_queue: int | None = _batch(
        int, None, "maximum number of waiting lines; further ones get 429", at_least=1
    )
    num_threads: int | None = _batch(
        int, None, "batches that run concurrently; by default one per core", at_least=1
    )
    max_batch_words: int = _limit(
        16384, "limit of lines x subwords of the longest line x hypotheses per line in a batch"
    )
    max_request_bytes: int = _limit(4 * 2**20, "bytes of a request; more get 413")
    max_lines: int = _limit(256, "lines of a request; more get 400")
    max_line_bytes: int = _limit(20_000, "bytes of a line; more get 400")
    max_request_words: int = _limit(32768, "subwords of a request; more get 400")
    max_reply_values: int = _limit(2_000_000, "numbers and texts of an answer; more get 400")
    max_connections: int = _limit(1000, "open REST connections; more are closed at once")
    max_bytes_in_flight: int = _limit(
        64 * 2**20, "total size of all requests in progress; more get 503"
    )
    read_timeout: float = _seconds(
        20.0,
        "time for the headers of a request, and then for its body, to arrive",
        group="limits",
    )
    request_timeout: float = _seconds(
        120.0, "time to answer a request; later answers become 504", group="limits"
    )
    allowed_hosts: tuple[str, ...] | None = _access(
        "names accepted in Host and Origin headers (default: local names if --host is local)",
        many=True,
    )
    token_file: str | None = _access("file with the bearer token that clients must send")
    tls_cert: str | None = _access(
        "PEM file with the certificate: serve HTTPS and gRPC over TLS"
    )
    tls_key: str | None = _access("PEM file with its private key")
    access_log: str | None = _access("file for one line of JSON per request; -: stderr")

    def __post_init__(self) -> None:
        check_options(self)
        # It is part of the paths of the REST API.
        if not re.fullmatch(r"[\w.-]+", self.model_name, re.ASCII):
            raise UserError(
                "--model_name: must consist of letters, digits, ., _ and -, not "
                f"{self.model_name!r}."
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise UserError("--tls_cert and --tls_key need each other: give both.")
        _ = self.labels  # checks them

    @property
    def labels(self) -> dict[str, int]:
        """The version numbers by label."""
        found = {}
        for word in self.version_label or ():
            name, _, number = word.partition("=")
            if not re.fullmatch(r"[\w.-]+=[0-9]{1,18}", word, re.ASCII):
                raise UserError(f"--version_label: must be like stable=3, not {word!r}.")
            found[name] = int(number)
        return found

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in LOOPBACK or self.host.startswith("127.")

    @property
    def batching(self) -> dict[str, int]:
        """The batching settings that were given, as fields of batching_file.Batching."""
        micros = None if self.batch_timeout_ms is None else round(1000 * self.batch_timeout_ms)
        changes = {
            "max_batch_size": self.max_batch_size,
            "batch_timeout_micros": micros,
            "max_queue": self.max_queue,
        }
        return {name: value for name, value in changes.items() if value is not None}

    def token(self) -> bytes | None:
        """Return the content of the token file."""
        if self.token_file is None:
            return None
        found = read_file("--token_file", self.token_file).strip()
        if not re.fullmatch(rb"[\x21-\x7e]+", found):
            raise UserError(f"{self.token_file} must contain one word of ASCII characters.")
        return found

    def check_lines(self, number: int) -> None:
        """Refuse a request with too many lines."""
        _check("A request", number, "lines", most=self.max_lines)

    def check_inputs(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Refuse too many and too long lines."""
        for name, array in inputs.items():
            self.check_lines(len(array))
            if array.dtype == object:
                longest = max(map(len, array.ravel()), default=0)
                _check(f"A line of {name}", longest, "bytes", most=self.max_line_bytes)

    def check_words(self, words: np.ndarray) -> None:
        """Refuse a request that would take too long."""
        _check("A request", int(words.sum()), "subwords", most=self.max_request_words)

    def check_reply(self, number: int) -> None:
        """Refuse an answer that would hold up all others."""
        _check("An answer", number, "values", most=self.max_reply_values)


def _check(what: str, number: int, unit: str, *, most: int) -> None:
    if number > most:
        raise invalid(
            f"{what} may have up to {most} {unit}, not {number}: send fewer or shorter lines."
        )


def read_file(flag: str, path: str) -> bytes:
    """Return the content of the file of a flag."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{flag}: cannot read {path}: {error.strerror}.") from None


def too_large(most: int) -> RequestError:
    """Return the error of a request with too many bytes."""
    message = f"A request may have up to {most} bytes."
    return RequestError("RESOURCE_EXHAUSTED", message, http_status=413)
