"""HTTP connections with limits on their number and on the time to send a request."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class Connection(H11Protocol):
    """A connection of uvicorn that is closed if the headers of a request arrive too late.

    `limited` sets `most` and `read_timeout`.
    """

    most = 1000
    read_timeout = 20.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or answer 503 if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.write(BUSY)
            transport.close()
        else:
            self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        """Receive bytes; the timer runs until they are a request."""
        if self.cycle is None or self.cycle.response_complete:
            self._wait_for_request()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, even if the client does not read its answer."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def _wait_for_request(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.read_timeout, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def limited(most: int, read_timeout: float) -> type[Connection]:
    """Return a class of connections with these limits."""
    limits: dict[str, Any] = {"most": most, "read_timeout": read_timeout}
    return type("LimitedConnection", (Connection,), limits)
