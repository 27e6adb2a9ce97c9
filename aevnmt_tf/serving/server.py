"""Starts and stops the REST and the gRPC server around one model."""

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
from aevnmt_tf.serving.access_log import AccessLog
from aevnmt_tf.serving.batching import Batcher
from aevnmt_tf.serving.export_folder import check
from aevnmt_tf.serving.grpc_service import GrpcServer
from aevnmt_tf.serving.server_metrics import ServerMetrics
from aevnmt_tf.serving.server_options import ServerOptions, read_file
from aevnmt_tf.serving.status import Report, on_one_line
from aevnmt_tf.serving.versions import Versions

# A server that stops waits this long for requests under way.
GRACE_SECONDS = 30
SIGNALS = (signal.SIGINT, signal.SIGTERM)
QUIET_SECONDS = 60  # between two sentences about the same trouble
NUM_OTHER_FILES = 64  # descriptors that are no connections


class Server:
    """A server that runs until `stop`; `report` gets sentences for the operator."""

    def __init__(self, options: ServerOptions, *, report: Report):
        self.options = options
        self.report: Report = lambda sentence: report(on_one_line(sentence))
        self.port = options.port
        self.grpc_port = options.grpc_port
        self.signal: int | None = None
        self.metrics = ServerMetrics(options.model_name)
        self._last_trouble = -float("inf")
        # Each protocol has its half.
        most = (_num_files() - NUM_OTHER_FILES) // 2
        self._max_connections = max(1, min(options.max_connections, most))
        # What can go wrong at once should, before seconds are spent on loading.
        check(options.export_dir)
        self._token = options.token()
        self._tls = _read_tls(options)
        self.batcher = Batcher(num_threads=options.num_threads or machine.num_cores())
        self.versions = Versions(
            options, batcher=self.batcher, report=self.report, metrics=self.metrics
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None

    @property
    def url(self) -> str:
        """The address of the page and of the REST API."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{_bracketed(self.options.host)}:{self.port}"

    async def run(self, *, ready: Callable[["Server"], None], handle_signals: bool) -> None:
        """Serve until it is stopped; `ready` is called when requests are welcome."""
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(self._quiet)
        options = self.options
        log = AccessLog(options.access_log, self.metrics)
        try:
            with contextlib.closing(_listen(options.host, options.port)) as listener:
                self.port = listener.getsockname()[1]
                grpc_server = self._bind_grpc(log)
                if not options.is_local and self._token is None:
                    self.report(
                        f"warning: everybody who reaches {options.host} can use the model; "
                        "--token_file lets in only those who know a token"
                    )
                if handle_signals:
                    self._handle_signals()
                await self._serve(self._web_server(log), listener, grpc_server, ready)
        finally:
            await asyncio.to_thread(self.versions.stop)
            await asyncio.to_thread(self.batcher.close)
            log.close()

    def stop(self) -> None:
        """Finish the requests under way, then end `run`; may be called by any thread."""
        if self._loop is not None and self._stopped is not None:
            # The loop may have ended by itself.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopped.set)

    async def _serve(
        self,
        web_server: uvicorn.Server,
        listener: socket.socket,
        grpc_server: GrpcServer,
        ready: Callable[["Server"], None],
    ) -> None:
        """Answer from the start whether a version is ready, and requests once one is."""
        assert self._stopped is not None
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

    def _web_server(self, log: AccessLog) -> uvicorn.Server:
        options = self.options
        app = rest.app(
            self.versions,
            options=options,
            log=log,
            metrics=self.metrics,
            report=self.report,
            token=self._token,
        )
        return _WebServer(
            uvicorn.Config(
                app,
                http=connections.limited(self._max_connections, options.read_timeout),
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",  # what clients do wrong is told to them
                access_log=False,
                server_header=False,
                headers=rest.HEADERS,
                proxy_headers=False,  # anybody can send X-Forwarded-For
                backlog=128,
                # A client that comes back after a while finds its connection.
                timeout_keep_alive=75,
                timeout_graceful_shutdown=GRACE_SECONDS,
                ssl_certfile=options.tls_cert,
                ssl_keyfile=options.tls_key,
            )
        )

    def _bind_grpc(self, log: AccessLog) -> GrpcServer:
        made = GrpcServer(
            self.versions,
            options=self.options,
            log=log,
            report=self.report,
            max_connections=self._max_connections,
            token=self._token,
        )
        address = f"{_bracketed(self.options.host)}:{self.options.grpc_port}"
        self.grpc_port = made.listen(address, self._tls)
        if self.grpc_port == 0:
            raise UserError(
                f"cannot listen on {address}: another process may; give another --grpc_port."
            )
        return made

    def _quiet(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report trouble of the event loop, such as too many open files, now and then."""
        now = time.monotonic()
        if now - self._last_trouble > QUIET_SECONDS:
            self._last_trouble = now
            error = context.get("exception")
            self.report(f"{context.get('message')}: {type(error).__name__}: {error}")

    def _handle_signals(self) -> None:
        """Let the first SIGINT or SIGTERM stop; a second does what it would without us."""
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
    """uvicorn, which leaves the signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def _read_tls(options: ServerOptions) -> tuple[bytes, bytes] | None:
    """Return key and certificate, which must belong together."""
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
            f"{options.tls_cert} and {options.tls_key} are no certificate and its key: {error}."
        ) from None
    return key, cert


def _num_files() -> int:
    """Return how many files this process may open; as many as it can be allowed."""
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
    except (OSError, UnicodeError) as error:  # the second: not even the form of a name
        problem = getattr(error, "strerror", None) or error
        raise UserError(
            f"cannot listen on {host}:{port}: {problem}; give another --host or --port."
        ) from None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
