"""Connections that are silent, slow or too many."""

import contextlib
import socket

import pytest


def connect(running):
    return socket.create_connection(("127.0.0.1", running.server.port), timeout=30)


def all_of(connection):
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            found += part
    return found


@pytest.fixture(scope="module")
def impatient(toy_export, start_server):
    options = {"read_timeout": 0.3, "max_connections": 20, "max_bytes_in_flight": 1000}
    with start_server(toy_export, **options) as running:
        yield running


def head(running, length):
    lines = ("POST", f"{running.model}:predict HTTP/1.1\r\nHost: localhost")
    return f"{' '.join(lines)}\r\nContent-Length: {length}\r\n\r\n".encode()


@pytest.mark.parametrize("start", [b"", b"GET /healthz HTTP/1.1\r\nHost: loc"])
def test_silent_connections_are_closed(impatient, start):
    with connect(impatient) as connection:
        connection.sendall(start)
        assert all_of(connection) == b""


def test_silence_in_the_headers_of_a_second_request(impatient):
    with connect(impatient) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /healthz HT")
        all_of(connection)  # ends, because the server hangs up


def test_a_slow_body_is_408(impatient):
    with connect(impatient) as connection:
        connection.sendall(head(impatient, 100) + b"{")
        assert all_of(connection).startswith(b"HTTP/1.1 408")


def test_bytes_of_bodies_are_counted_and_given_back(impatient):
    for _ in range(3):
        with connect(impatient) as first, connect(impatient) as second:
            first.sendall(head(impatient, 900) + b"x" * 600)
            # Until the first one counts.
            impatient.client.get("/healthz")
            second.sendall(head(impatient, 900) + b"x" * 600)
            codes = {all_of(one).split()[1] for one in (first, second)}
        assert codes == {b"408", b"503"}


def test_too_many_connections(impatient):
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(connect(impatient)) for _ in range(25)]
        answers = [all_of(one) for one in many]
    assert sum(answer.startswith(b"HTTP/1.1 503") for answer in answers) >= 5
    assert impatient.client.get("/healthz").status_code == 200
