"""The command: a process that serves, its mistakes, and how it stops."""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import grpc
import httpx
import pytest
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

from aevnmt_tf import serve
from tests.serving import toy_model


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    toy_model.save(folder, 1)
    return folder


class Process:
    """`python -m aevnmt_tf.serve` on free ports."""

    def __init__(self, export, *flags):
        words = ["--export_dir", export, "--port", 0, "--grpc_port", 0, *flags]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "aevnmt_tf.serve", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.said = []
        while not self.said or not self.said[-1].startswith("gRPC"):
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(self.process.communicate()[1])
            self.said.append(line.strip())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def stop(self, number):
        self.process.send_signal(number)
        messages = self.process.communicate(timeout=60)[1]
        return self.process.returncode, messages


def test_what_it_says_is_where_it_is(export):
    with Process(export, "--model_name", "toy") as served:
        found = dict(line.split(maxsplit=1) for line in served.said)
        assert found["serving"] == f"toy from {export}"
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", found["page"])
        assert httpx.get(found["page"], timeout=60).status_code == 200
        assert found["REST"] == f"{found['page']}v1/models/toy:predict"
        response = httpx.post(found["REST"], json={"instances": ["a"]}, timeout=60)
        assert response.json()["predictions"][0]["translation"] == "A v1"
        with grpc.insecure_channel(found["gRPC"]) as channel:
            request = get_model_status_pb2.GetModelStatusRequest()
            request.model_spec.name = "toy"
            stub = model_service_pb2_grpc.ModelServiceStub(channel)
            (state,) = stub.GetModelStatus(request, timeout=60).model_version_status
            assert state.version == 1
        code, messages = served.stop(signal.SIGTERM)
        assert code == 0 and messages == "aevnmt serve: version 1 is ready\n"


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_lets_requests_finish(export, number, code):
    """They wait for a batch that does not fill; the signal comes first."""
    with Process(export, "--batch_timeout_ms", 3000) as served:
        url = served.said[2].split()[1]
        body = b'{"instances": ["a"]}'
        host, port = re.search(r"//(.*):(\d+)/", url).groups()
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            head = "POST /v1/models/aevnmt:predict HTTP/1.1", "Host: x", "Content-Length: 20"
            connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
            time.sleep(1)
            found = served.stop(number)
            answer = b""
            while part := connection.recv(65536):
                answer += part
    assert answer.startswith(b"HTTP/1.1 200 ") and b"A v1" in answer
    assert found == (code, "aevnmt serve: version 1 is ready\n")


@pytest.fixture
def command(capsys):
    """Run the command in this process, where it must fail."""

    def call(*words):
        code = serve.main([*map(str, words)])
        return code, *capsys.readouterr()

    return call


@pytest.mark.parametrize(
    "words, sentence",
    [
        ([], "--export_dir"),
        (["--export_dir", "{tmp}/none"], "{tmp}/none does not exist"),
        (["--export_dir", "{tmp}"], "{tmp} has no version of a model"),
        (["--export_dir", "{tmp}", "--port", "65536"], "--port: must be from 0 to 65535"),
        (["--export_dir", "{tmp}", "--max_batch_size", "0"], "must be 1 or more, not 0"),
        (["--export_dir", "{tmp}", "--batch_timeout_ms", "-1"], "must be 0 or more, not -1"),
        (["--export_dir", "{tmp}", "--poll_seconds", "0"], "must be above 0, not 0"),
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
    assert f"cannot listen on 127.0.0.1:{port}: " in messages and f"give another {flag}" in (
        messages.replace("--host or ", "")
    )
    assert messages.count("\n") == 1


def test_an_address_that_is_not_here(command, export):
    flags = ("--port", 0, "--grpc_port", 0)
    code, _, messages = command("--export_dir", export, "--host", "192.0.2.1", *flags)
    assert code == 2 and "cannot listen on 192.0.2.1:0: " in messages
    assert messages.count("\n") == 1


def test_a_model_that_cannot_be_loaded(command, tmp_path):
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "saved_model.pb").write_bytes(b"x")
    code, output, messages = command("--export_dir", tmp_path, "--port", 0, "--grpc_port", 0)
    assert code == 2 and output == ""
    assert f"cannot load {tmp_path / '3'}: " in messages and messages.count("\n") == 1
