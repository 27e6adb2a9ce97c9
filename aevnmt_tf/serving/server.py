"""Starts and stops the REST and the gRPC server of a model."""

import asyncio
import contextlib
import resource
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from aevnmt_tf.cli import machine
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.serving import connections, rest
from aevnmt_tf.serving.batching import Batcher
from aevnmt_tf.serving.export_folder import check
from aevnmt_tf.serving.grpc_service import GrpcServer
from aevnmt_tf.serving.server_metrics import ServerMetrics
from aevnmt_tf.serving.server_options import ServerOptions, read_file
from aevnmt_tf.serving.status import Report, on_one_line
from aevnmt_tf.serving.versions import Versions

GRACE_SECONDS = 30  # for requests in progress when the server stops
SIGNALS = (signal.SIGINT, signal.SIGTERM)
QUIET_SECONDS = 60  # between two reports of errors of the event loop
NUM_OTHER_FILES = 64  # file descriptors that are not connections


class Server:
    """A server that runs until `stop`; `report` gets messages for the operator."""

    def __init__(self, options: ServerOptions, *, report: Report):
        self.options = options
        self.report: Report = lambda message: report(on_one_line(message))
        self.port = options.port
        self.grpc_port = options.grpc_port
        self.signal: int | None = None
        self._last_error = -float("inf")
        # Half for each protocol.
        most = (_num_files() - NUM_OTHER_FILES) // 2
        self._max_connections = max(1, min(options.max_connections, most))
        # Errors of the user are raised here, before the model is loaded.
        check(options.export_dir)
        self._token = options.token()
        self._tls = _read_tls(options)
        self._metrics = ServerMetrics(options.model_name, options.access_log)
        self._batcher = Batcher(num_threads=options.num_threads or machine.num_cores())
        self.versions = Versions(
            options, batcher=self._batcher, report=self.report, metrics=self._metrics
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None

    @property
    def url(self) -> str:
        """The address of the web page and the REST API."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{_bracketed(self.options.host)}:{self.port}"

    async def run(self, *, ready: Callable[["Server"], None], handle_signals: bool) -> None:
        """Serve until `stop` or a signal; call `ready` when a version is served."""
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(self._report_error)
        options = self.options
        try:
            with contextlib.closing(_listen(options.host, options.port)) as listener:
                self.port = listener.getsockname()[1]
                most, token = self._max_connections, self._token
                grpc_server = GrpcServer(self.versions, max_connections=most, token=token)
                address = f"{_bracketed(options.host)}:{options.grpc_port}"
                self.grpc_port = grpc_server.listen(address, self._tls)
                if not options.is_local and token is None:
                    self.report(
                        f"warning: anybody who can connect to {options.host} can use the "
                        "model; --token_file restricts access to clients with a token"
                    )
                if handle_signals:
                    self._handle_signals()
                await self._serve(listener, grpc_server, ready)
        finally:
            await asyncio.to_thread(self.versions.stop)
            await asyncio.to_thread(self._batcher.close)
            self._metrics.close()

    def stop(self) -> None:
        """Finish the requests in progress, then end `run`; any thread may call this."""
        if self._loop is not None and self._stopped is not None:
            with contextlib.suppress(RuntimeError):  # the loop has already ended
                self._loop.call_soon_threadsafe(self._stopped.set)

    async def _serve(
        self,
        listener: socket.socket,
        grpc_server: GrpcServer,
        ready: Callable[["Server"], None],
    ) -> None:
        """Answer health checks at once, and other requests when a version is loaded."""
        assert self._stopped is not None
        web_server = self._web_server()
        web = asyncio.create_task(web_server.serve(sockets=[listener]))
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await grpc_server.start()
            while not (web_server.started or web.done()):
                await asyncio.sleep(0.01)
            await asyncio.to_thread(self.versions.load_first)
            if not self._stopped.is_set():
                self.versions.start()
                await grpc_server.ready()
                ready(self)
                await asyncio.wait({web, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            web_server.should_exit = True
            await asyncio.gather(web, grpc_server.stop(GRACE_SECONDS))

    def _web_server(self) -> uvicorn.Server:
        options = self.options
        return _WebServer(
            uvicorn.Config(
                rest.app(self.versions, token=self._token),
                http=connections.limited(self._max_connections, options.read_timeout),
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",  # errors of clients are reported to the clients
                access_log=False,
                server_header=False,
                headers=rest.HEADERS,
                proxy_headers=False,  # clients can forge X-Forwarded-For
                backlog=128,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=GRACE_SECONDS,
                ssl_certfile=options.tls_cert,
                ssl_keyfile=options.tls_key,
            )
        )

    def _report_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report an error of the event loop, such as too many open files, now and then."""
        now = time.monotonic()
        if now - self._last_error > QUIET_SECONDS:
            self._last_error = now
            error = context.get("exception")
            self.report(f"{context.get('message')}: {type(error).__name__}: {error}")

    def _handle_signals(self) -> None:
        """Stop at the first SIGINT or SIGTERM; a second one has its default effect."""
        loop, stopped = self._loop, self._stopped
        assert loop is not None and stopped is not None

        def stop(number: int) -> None:
            self.signal = number
            for one in SIGNALS:
                loop.remove_signal_handler(one)
            stopped.set()

        for number in SIGNALS:
            loop.add_signal_handler(number, stop, number)


class _WebServer(uvicorn.Server):
    """A uvicorn server that does not handle signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing."""
        yield


def _read_tls(options: ServerOptions) -> tuple[bytes, bytes] | None:
    """Return the key and the certificate, if they belong together."""
    if options.tls_cert is None or options.tls_key is None:
        return None
    key = read_file("--tls_key", options.tls_key)
    cert = read_file("--tls_cert", options.tls_cert)
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            options.tls_cert, options.tls_key
        )
    except (ssl.SSLError, OSError) as error:
        raise UserError(
            f"{options.tls_cert} and {options.tls_key} are not a certificate and its key: "
            f"{error}."
        ) from None
    return key, cert


def _num_files() -> int:
    """Raise the limit of open files as far as allowed, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return 2**31 if soft == resource.RLIM_INFINITY else soft


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:  # the second: an impossible host name
        problem = getattr(error, "strerror", None) or error
        raise UserError(
            f"cannot listen on {host}:{port}: {problem}; give another --host or --port."
        ) from None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
