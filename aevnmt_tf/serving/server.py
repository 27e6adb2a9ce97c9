"""Starts and stops the REST and the gRPC server around one model."""

import asyncio
import contextlib
import dataclasses
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from aevnmt_tf import machine
from aevnmt_tf.errors import UserError
from aevnmt_tf.serving import grpc_service, rest
from aevnmt_tf.serving.batching import Batcher
from aevnmt_tf.serving.limits import Limits
from aevnmt_tf.serving.versions import Versions, check

# A server that stops waits this long for requests under way.
GRACE_SECONDS = 30
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclasses.dataclass(frozen=True)
class Options:
    """What is served, and where. A port of 0 is any that is free."""

    export_dir: Path
    model_name: str = "aevnmt"
    host: str = "127.0.0.1"
    port: int = 8501
    grpc_port: int = 8500
    max_batch_size: int | None = None
    batch_timeout_ms: float | None = None
    max_queue: int | None = None
    num_threads: int | None = None
    poll_seconds: float = 1.0
    limits: Limits = Limits()

    @property
    def batching(self) -> dict:
        """The parameters that beat those of the model."""
        names = ("max_batch_size", "batch_timeout_ms", "max_queue")
        return {name: getattr(self, name) for name in names}


class Server:
    """A server that runs until `stop`; `report` gets sentences for the operator."""

    def __init__(self, options: Options, *, report: Callable[[str], None]):
        self.options = options
        self.report = report
        self.port = options.port
        self.grpc_port = options.grpc_port
        self.signal: int | None = None
        self.versions: Versions | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None

    @property
    def url(self) -> str:
        """The address of the page and of the REST API."""
        return f"http://{_bracketed(self.options.host)}:{self.port}"

    async def run(self, *, ready: Callable[["Server"], None], handle_signals: bool) -> None:
        """Serves until it is stopped; `ready` is called when requests are welcome."""
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        options = self.options
        # What can go wrong at once should, before seconds are spent on loading.
        check(options.export_dir)
        batcher = Batcher(num_threads=options.num_threads or machine.num_cores())
        self.versions = versions = Versions(
            options.export_dir,
            model_name=options.model_name,
            batcher=batcher,
            report=self.report,
            poll_seconds=options.poll_seconds,
            params=options.batching,
        )
        try:
            with contextlib.closing(_listen(options.host, options.port)) as listener:
                self.port = listener.getsockname()[1]
                grpc_server = self._bind_grpc(versions)
                with self._signals() if handle_signals else contextlib.nullcontext():
                    await asyncio.to_thread(versions.load_first)
                    if not self._stopped.is_set():
                        await self._serve(listener, grpc_server, versions, ready)
        finally:
            await asyncio.to_thread(versions.stop)
            await asyncio.to_thread(batcher.close)

    def stop(self) -> None:
        """Finishes the requests under way, then ends `run`; may be called by any thread."""
        if self._loop is not None and self._stopped is not None:
            # The loop may have ended by itself.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopped.set)

    async def _serve(self, listener, grpc_server, versions, ready) -> None:
        app = rest.app(versions, limits=self.options.limits, report=self.report)
        web_server = _WebServer(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",  # what clients do wrong is told to them
                access_log=False,
                server_header=False,
                # A client that comes back after a while finds its connection.
                timeout_keep_alive=75,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        web = asyncio.create_task(web_server.serve(sockets=[listener]))
        await grpc_server.start()
        while not (web_server.started or web.done()):
            await asyncio.sleep(0.01)
        versions.start()
        ready(self)
        stopped = asyncio.create_task(self._stopped.wait())
        await asyncio.wait({web, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        web_server.should_exit = True
        await asyncio.gather(web, grpc_server.stop(GRACE_SECONDS))

    def _bind_grpc(self, versions: Versions):
        made = grpc_service.server(versions, limits=self.options.limits, report=self.report)
        address = f"{_bracketed(self.options.host)}:{self.options.grpc_port}"
        try:
            self.grpc_port = made.add_insecure_port(address)
        except RuntimeError:
            self.grpc_port = 0
        if self.grpc_port == 0:
            raise UserError(
                f"cannot listen on {address}: another process may; give another --grpc_port"
            )
        return made

    @contextlib.contextmanager
    def _signals(self):
        """The first SIGINT or SIGTERM stops; a second does what it would without us."""

        def stop(number: int) -> None:
            self.signal = number
            for one in SIGNALS:
                self._loop.remove_signal_handler(one)
            self._stopped.set()

        for number in SIGNALS:
            self._loop.add_signal_handler(number, stop, number)
        try:
            yield
        finally:
            for number in SIGNALS:
                self._loop.remove_signal_handler(number)


class _WebServer(uvicorn.Server):
    """uvicorn, which leaves the signals to us."""

    @contextlib.contextmanager
    def capture_signals(self):
        """Captures none."""
        yield


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket; whoever connects waits until the model is loaded."""
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except (OSError, UnicodeError) as error:  # the second: not even the form of a name
        if listener is not None:
            listener.close()
        problem = getattr(error, "strerror", None) or error
        raise UserError(
            f"cannot listen on {host}:{port}: {problem}; give another --host or --port"
        ) from None
    return listener


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
