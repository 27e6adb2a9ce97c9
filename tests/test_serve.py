"""The command: what it says, its mistakes, and how it stops."""

import contextlib
import functools
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import httpx
import pytest
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

from aevnmt_tf import serve
from aevnmt_tf.cli import command as cli_command
from tests.serving import toy_model
from tests.serving.running import running_server


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    toy_model.save(folder, 1)
    return folder


@pytest.fixture
def command(capsys):
    """Run the command in this process, until it fails or a signal comes."""

    def call(*words):
        code = serve.main([*map(str, words)])
        return code, *capsys.readouterr()

    return call


FREE = ("--port", 0, "--grpc_port", 0)


def addresses(output):
    return dict(line.split(maxsplit=1) for line in output.splitlines())


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_lets_requests_finish(command, export, monkeypatch, number, code):
    """They wait for a batch that does not fill; the signal comes first."""
    say, answers, client = serve._say, [], []

    def ask(url):
        with httpx.Client(timeout=60) as connection:
            answers.append(connection.post(url, json={"instances": ["a"]}).json())

    def stop(versions):
        with versions.using("toy") as version:
            queue = version.queues["serving_default"]
        while not len(queue):  # the request has not come yet
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    def ready(server):
        say(server)
        url = f"{server.url}/v1/models/toy:predict"
        client.append(threading.Thread(target=ask, args=(url,)))
        client.append(threading.Thread(target=stop, args=(server.versions,)))
        for thread in client:
            thread.start()

    monkeypatch.setattr(serve, "_say", ready)
    flags = ("--model_name", "toy", "--batch_timeout_ms", 1500, *FREE)
    before = signal.getsignal(signal.SIGINT)
    found = command("--export_dir", export, *flags)
    for thread in client:
        thread.join(60)
    assert signal.getsignal(signal.SIGINT) == before
    assert answers == [{"predictions": [{"score": -0.1, "translation": "A v1"}]}]
    assert found[0] == code and found[2] == "aevnmt serve: version 1 is ready\n"
    said = addresses(found[1])
    assert said["serving"] == f"toy, version 1 of {export}"
    assert said["signatures"].startswith("attention, count, ")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", said["page"])
    assert said["REST"] == f"{said['page']}v1/models/toy:predict"
    assert re.fullmatch(r"127\.0\.0\.1:\d+", said["gRPC"])


def test_a_server_does_not_keep_freed_memory(tmp_path, monkeypatch):
    """One large request would hold it for good; training wants it kept."""
    calls = []
    monkeypatch.setattr(cli_command, "keep_freed_memory", lambda: calls.append(1))
    assert serve.main(["--export_dir", str(tmp_path)]) == 2 and calls == []


@contextlib.contextmanager
def process_of_its_own(export, *flags, **options):
    """Start the command; gives the process and what it has said."""
    words = ["--export_dir", export, "--model_name", "toy", *FREE, *flags]
    process = subprocess.Popen(
        [sys.executable, "-m", "aevnmt_tf.serve", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        **options,
    )
    try:
        yield process, addresses("".join(process.stdout.readline() for _ in range(5)))
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_process_of_its_own(export, number, code):
    with process_of_its_own(export) as (process, said):
        assert httpx.get(said["page"], timeout=60).status_code == 200
        response = httpx.post(said["REST"], json={"instances": ["a"]}, timeout=60)
        assert response.json()["predictions"][0]["translation"] == "A v1"
        with grpc.insecure_channel(said["gRPC"]) as channel:
            request = get_model_status_pb2.GetModelStatusRequest()
            request.model_spec.name = "toy"
            stub = model_service_pb2_grpc.ModelServiceStub(channel)
            (state,) = stub.GetModelStatus(request, timeout=60).model_version_status
            assert state.version == 1
        process.send_signal(number)
        output, messages = process.communicate(timeout=60)
    assert process.returncode == code and output == ""
    assert messages == "aevnmt serve: version 1 is ready\n"


def memory(process):
    """Return the megabytes that a process has."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_silent_sockets_and_stalled_bodies_do_not_stop_the_server(export):
    """300 sockets to each port of a server that may open 300 files, then 60 x 4 MiB."""
    flags = ("--read_timeout", 3)
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (300, 300))
    with process_of_its_own(export, *flags, preexec_fn=limit) as (process, said):
        url = httpx.URL(said["page"])
        ports = (url.port, int(said["gRPC"].rpartition(":")[2]))
        with contextlib.ExitStack() as stack:
            for port in 300 * ports:
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            # A connection is let in at the latest when the silent ones are closed.
            transport = httpx.HTTPTransport(retries=20)
            with httpx.Client(transport=transport, timeout=20) as client:
                assert ask_until(client, said["page"] + "healthz") == 200
        before = memory(process)
        head = "POST /v1/models/toy:predict HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Length: {4 * 2**20}\r\n\r\n"
        with contextlib.ExitStack() as stack:
            bodies = [
                stack.enter_context(socket.create_connection(("127.0.0.1", ports[0]), 60))
                for _ in range(60)
            ]
            for one in bodies:
                with contextlib.suppress(ConnectionError):
                    one.sendall(head.encode() + b"x" * (4 * 2**20 - 1))
            assert memory(process) - before < 150  # --max_bytes_in_flight is 64 MiB
            for one in bodies:
                with contextlib.suppress(ConnectionError):
                    answer = one.recv(20)
                    assert answer == b"" or answer.split()[1] in (b"408", b"503")
        assert httpx.get(said["page"] + "healthz", timeout=60).status_code == 200
        process.send_signal(signal.SIGTERM)
        _, messages = process.communicate(timeout=60)
    assert len(messages.splitlines()) < 5, messages[:2000]


def ask_until(client, url):
    """Return the status of the first answer that is not "too many connections"."""
    for _ in range(100):
        with contextlib.suppress(httpx.HTTPError):
            code = client.get(url).status_code
            if code != 503:
                return code
        time.sleep(0.1)
    raise AssertionError("waited in vain")


@pytest.mark.parametrize(
    "words, sentence",
    [
        ([], "--export_dir"),
        (["--export_dir", "{tmp}/none"], "{tmp}/none does not exist"),
        (["--export_dir", "{tmp}"], "{tmp} has no version of a model"),
        (["--export_dir", "{tmp}", "--port", "65536"], "--port: "),
        (["--export_dir", "{tmp}", "--max_batch_size", "0"], "--max_batch_size: "),
        (["--export_dir", "{tmp}", "--batch_timeout_ms", "-1"], "--batch_timeout_ms: "),
        (
            ["--export_dir", "{tmp}", "--max_request_bytes", "3000000000"],
            "--max_request_bytes: ",
        ),
        (["--export_dir", "{tmp}", "--poll_seconds", "0"], "--poll_seconds: "),
        (
            ["--export_dir", "{tmp}", "--model_name", "a/b"],
            "--model_name: must consist of letters",
        ),
        (["--export_dir", "{tmp}", "--max_bach_size", "4"], "did you mean --max_batch_size"),
    ],
)
def test_mistakes_are_one_sentence(command, tmp_path, words, sentence):
    code, output, messages = command(*(word.format(tmp=tmp_path) for word in words))
    assert code == 2 and output == ""
    assert sentence.format(tmp=tmp_path) in messages and messages.count("\n") == 1


@pytest.mark.parametrize("flag, other", [("--port", "--grpc_port"), ("--grpc_port", "--port")])
def test_a_port_that_is_taken(command, export, flag, other):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, output, messages = command("--export_dir", export, flag, port, other, 0)
    assert code == 2 and output == ""
    assert f"cannot listen on 127.0.0.1:{port}: " in messages
    assert f"give another {flag}" in messages.replace("--host or ", "")
    assert messages.count("\n") == 1


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "my..host"])
def test_an_address_that_is_not_here(command, export, host):
    code, _, messages = command("--export_dir", export, "--host", host, *FREE)
    assert code == 2 and f"cannot listen on {host}:0: " in messages
    assert messages.count("\n") == 1


def test_a_model_that_cannot_be_loaded(command, tmp_path):
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "saved_model.pb").write_bytes(b"x")
    code, output, messages = command("--export_dir", tmp_path, *FREE)
    assert code == 2 and output == ""
    assert f"cannot load {tmp_path / '3'}: " in messages and messages.count("\n") == 1


def test_a_second_server_on_the_same_port(command, export):
    """gRPC would share it in silence."""
    with running_server(export) as running:
        port = running.server.grpc_port
        code, _, messages = command("--export_dir", export, "--port", 0, "--grpc_port", port)
    assert code == 2 and f"cannot listen on 127.0.0.1:{port}" in messages
