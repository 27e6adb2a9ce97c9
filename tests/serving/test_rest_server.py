"""The REST server under load and stress: limits, batches, new versions, its end."""

import concurrent.futures
import contextlib
import gzip
import http.client
import json
import socket
import threading
import time

import grpc
import httpx
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import cancellation
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from aevnmt_tf.serving import json_tensors, predictions
from aevnmt_tf.serving.servable import Servable
from tests.serving import toy_model
from tests.serving.running import strict


def test_a_body_that_is_too_large(toy_export, start_server):
    with start_server(toy_export, max_request_bytes=1000) as running:
        path = f"{running.model}:predict"
        line = {"instances": ["a" * 900]}
        assert running.predict(line).status_code == 200
        for size in (1001, 100_000, 5_000_000):
            response = running.client.post(path, content=b"x" * size)
            assert response.status_code == 413
            assert strict(response) == {"error": "A request may have up to 1000 bytes."}
        # Of unknown length, and unpacked.
        chunks = (b"x" * 100 for _ in range(100))
        assert running.client.post(path, content=chunks).status_code == 413
        packed = gzip.compress(json.dumps({"instances": ["a" * 10_000]}).encode())
        assert len(packed) < 1000
        headers = {"content-encoding": "gzip"}
        assert running.client.post(path, content=packed, headers=headers).status_code == 413
        assert running.predict(line).status_code == 200


def test_packed_bodies(toy_server):
    path = f"{toy_server.model}:predict"
    packed = gzip.compress(b'{"instances": ["a"]}')
    for content, encoding, code in (
        (packed, "gzip", 200),
        (packed[:-4], "gzip", 400),
        (b"{}", "gzip", 400),
        (packed, "br", 415),
        (packed, "identity", 400),
    ):
        headers = {"content-encoding": encoding}
        response = toy_server.client.post(path, content=content, headers=headers)
        assert response.status_code == code
        strict(response)


def test_large_requests_are_not_read_by_the_event_loop(toy_server):
    """The same answers by the other way."""
    lines = [f"{'a' * 300} {number}" for number in range(256)]
    assert len(json.dumps(lines)) > predictions.LARGE_BODY
    found = strict(toy_server.predict({"instances": lines}))["predictions"]
    assert [row["translation"] for row in found] == [f"{line.upper()} v1" for line in lines]
    rows = [[1.0, 2.0, 3.0 + n] for n in range(256)]
    found = strict(toy_server.predict({"signature_name": "double", "instances": rows}))
    assert found == {"predictions": [[2 * x for x in row] for row in rows]}


def raw(server, content):
    """What the server answers to bytes that no HTTP client would send."""
    with socket.create_connection(("127.0.0.1", server.server.port), timeout=60) as connection:
        answer = b""
        # It may hang up before it has heard all.
        with contextlib.suppress(ConnectionError, OSError):
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                answer += part
    return answer


@pytest.mark.parametrize(
    "content, starts",
    [
        (b"nonsense\r\n\r\n", b"HTTP/1.1 400 "),
        (b"\x16\x03\x01\x02\x00\x01\x00", b""),  # TLS
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),  # no host
        (
            b"POST /v1/models/aevnmt:predict HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: -1\r\n\r\n",
            b"H",
        ),
        (
            b"POST /v1/models/aevnmt:predict HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 9\r\n\r\na",
            b"",
        ),
        (b"GET /v1/models/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HTTP/1.1 4"),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b""),
    ],
)
def test_what_is_not_http(toy_server, content, starts):
    assert raw(toy_server, content).startswith(starts)
    assert toy_server.predict({"instances": ["a"]}).status_code == 200


def test_concurrent_requests_share_batches_and_get_their_own_answers(toy_server):
    def translate(number):
        lines = [f"{number} {row} x" for row in range(number % 3 + 1)]
        found = strict(toy_server.predict({"instances": lines}))["predictions"]
        return [row["translation"] for row in found] == [f"{x.upper()} v1" for x in lines]

    def counts():
        document = {"signature_name": "count", "instances": ["x"]}
        return strict(toy_server.predict(document))["predictions"][0]

    before = counts()["calls"]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(translate, range(200)))
    assert 0 < counts()["calls"] - before < 200


def test_one_bad_line_does_not_spoil_other_requests(toy_server):
    def answer(number):
        line = "bad" if number % 5 == 0 else f"good {number}"
        response = toy_server.predict({"signature_name": "fails", "instances": [line]})
        if line == "bad":
            return response.status_code == 400 and "a bad line" in response.text
        return strict(response) == {"predictions": [f"{line}."]}

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(answer, range(100)))


def test_each_thread_has_its_own_cancellation(toy_export):
    """Otherwise the failure of one function cancels what another thread has started."""
    servable = Servable(toy_export / "1")
    seen = []

    def function(**_):
        seen.append(cancellation.context())
        thread = threading.Thread(target=lambda: seen.append(cancellation.context()))
        thread.start()
        thread.join()
        return {}

    servable._functions = {"serving_default": function}
    servable.run("serving_default", {"source": np.array([b"a"], object)})
    assert seen[0] is not None and seen[1] is None
    assert cancellation.context() is None


def test_a_full_queue_is_429(toy_export, start_server):
    # Nothing runs: the batch waits for a line that does not come.
    options = {"max_queue": 2, "batch_timeout_ms": 3000.0, "max_batch_size": 100}
    with start_server(toy_export, **options) as running:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            futures = [pool.submit(running.predict, {"instances": [n]}) for n in "abcdef"]
            responses = [future.result() for future in futures]
    codes = sorted(response.status_code for response in responses)
    assert codes == [200, 200, 429, 429, 429, 429]
    refused = next(response for response in responses if response.status_code == 429)
    assert refused.headers["retry-after"] == "1"
    assert "submitted is full" in strict(refused)["error"]


def test_a_new_version_takes_over_without_dropping_a_request(
    toy_versions, start_server, tmp_path
):
    toy_model.publish(toy_versions[1], tmp_path)
    answers, codes, done = [], set(), threading.Event()
    with start_server(tmp_path, poll_seconds=0.05) as running:

        def client():
            with httpx.Client(base_url=running.server.url, timeout=60) as connection:
                while not done.is_set():
                    body = {"instances": ["a"]}
                    response = connection.post(f"{running.model}:predict", json=body)
                    codes.add(response.status_code)
                    answers.append(response.json()["predictions"][0]["translation"])

        threads = [threading.Thread(target=client) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            toy_model.publish(toy_versions[2], tmp_path)
            pause = threading.Event()
            for _ in range(2000):
                if (
                    answers
                    and answers[-1] == "A v2"
                    and "version 1 is unloaded" in running.reports
                ):
                    break
                pause.wait(0.02)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        states = running.client.get(running.model).json()["model_version_status"]
    assert codes == {200}
    assert set(answers) == {"A v1", "A v2"} and answers[-1] == "A v2"
    assert [(state["version"], state["state"]) for state in states] == [
        ("2", "AVAILABLE"),
        ("1", "END"),
    ]


def test_requests_under_way_are_answered_when_the_server_stops(toy_export, start_server):
    """The batch waits a second for others; the stop comes before."""
    with start_server(toy_export, batch_timeout_ms=1000.0) as running:
        url = running.server.url
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(running.predict, {"instances": [n]}) for n in "abcd"]
            running.wait_for_queue(4)
            running.server.stop()
            responses = [future.result() for future in futures]
    assert [r.json()["predictions"][0]["translation"] for r in responses] == [
        "A v1",
        "B v1",
        "C v1",
        "D v1",
    ]
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, timeout=60)


def test_errors_of_ours_are_500_and_reported(toy_export, start_server, monkeypatch):
    def explode(*_, **__):
        raise RuntimeError("secret")

    with start_server(toy_export) as running:
        monkeypatch.setattr(json_tensors, "reply", explode)
        response = running.predict({"instances": ["a"]})
        assert response.status_code == 500 and strict(response) == {"error": "internal error"}
        # The connection stays open: http.client would raise an error if it were closed.
        url = running.client.base_url
        connection = http.client.HTTPConnection(url.host, url.port)
        for status in (500, 200):
            body = json.dumps({"instances": ["a"]})
            connection.request("POST", "/v1/models/aevnmt:predict", body)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
            monkeypatch.undo()
        connection.close()
        assert running.reports[-1] == "POST /v1/models/aevnmt:predict: RuntimeError: secret"


def test_what_a_model_cannot_do_is_reported(toy_export, start_server, monkeypatch):
    monkeypatch.setattr(Servable, "run", lambda *_: 1 / 0)
    with start_server(toy_export) as running:
        response = running.predict({"instances": ["a"]})
        assert response.status_code == 500 and strict(response) == {"error": "division by zero"}
        assert running.reports[-1] == "POST /v1/models/aevnmt:predict: division by zero"
        # A client's mistake is the client's to read.
        assert running.predict({"instances": [1]}).status_code == 400
        assert len(running.reports) == 2


def test_who_hangs_up_has_no_place_in_the_queue(toy_export, start_server, monkeypatch):
    run, seen = Servable.run, []

    def record(self, name, inputs, *more):
        seen.extend(inputs["source"])
        return run(self, name, inputs, *more)

    monkeypatch.setattr(Servable, "run", record)
    options = {"max_queue": 2, "batch_timeout_ms": 2000.0, "max_batch_size": 100}
    with start_server(toy_export, **options) as running:
        body = b'{"instances": ["gone"]}'
        head = f"POST {running.model}:predict HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Length: {len(body)}"
        for number in (1, 2):
            address = ("127.0.0.1", running.server.port)
            with socket.create_connection(address, timeout=60) as connection:
                connection.sendall(f"{head}\r\n\r\n".encode() + body)
                running.wait_for_queue(number)
        for _ in range(500):
            response = running.predict({"instances": ["stays"]})
            if response.status_code != 429:
                break
            time.sleep(0.01)  # until the server has heard of it
    assert response.status_code == 200
    assert [line.decode() for line in seen] == ["stays"]


@pytest.mark.parametrize("how", ["REST", "gRPC", "deadline"])
def test_what_nobody_waits_for_is_stopped(toy_export, start_server, how):
    """`spin` would keep the only thread busy for hours."""
    options = {"request_timeout": 0.5} if how == "deadline" else {}
    with start_server(toy_export, num_threads=1, **options) as running:
        with running.server.versions.using("aevnmt") as version:
            queue, started = version.queues["spin"], threading.Event()
            spin = queue._run

            def run(*args):
                started.set()
                return spin(*args)

            queue._run = run
        if how == "gRPC":
            asked = predict_pb2.PredictRequest()
            asked.model_spec.name, asked.model_spec.signature_name = "aevnmt", "spin"
            asked.inputs["source"].CopyFrom(tf.make_tensor_proto(["a"]))
            with grpc.insecure_channel(f"127.0.0.1:{running.server.grpc_port}") as channel:
                stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
                call = stub.Predict.future(asked)
                assert started.wait(60)
                call.cancel()
        else:
            body = b'{"signature_name": "spin", "instances": ["a"]}'
            head = f"POST {running.model}:predict HTTP/1.1\r\nHost: localhost\r\n"
            head += f"Content-Length: {len(body)}"
            address = ("127.0.0.1", running.server.port)
            with socket.create_connection(address, timeout=60) as connection:
                connection.sendall(f"{head}\r\n\r\n".encode() + body)
                assert started.wait(60)
                if how == "deadline":
                    assert connection.recv(100).startswith(b"HTTP/1.1 504")
        assert running.predict({"instances": ["a"]}).status_code == 200


def test_an_answer_that_is_too_large_for_json(toy_export, start_server):
    with start_server(toy_export, max_reply_values=5) as running:
        assert running.predict({"instances": ["a"]}).status_code == 200
        response = running.predict({"instances": [*"abcdef"]})
    assert response.status_code == 400
    assert "up to 5 values, not 12: send fewer or shorter" in strict(response)["error"]


def test_the_event_loop_is_free_while_a_model_runs(toy_export, start_server, monkeypatch):
    run, go, started = Servable.run, threading.Event(), threading.Event()

    def slow(self, *args):
        started.set()
        assert go.wait(60)
        return run(self, *args)

    monkeypatch.setattr(Servable, "run", slow)
    with start_server(toy_export) as running:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            future = pool.submit(running.predict, {"instances": ["a"]})
            try:
                assert started.wait(60)
                assert running.client.get("/healthz").status_code == 200
                assert running.client.get(running.model).status_code == 200
                assert not future.done()
            finally:
                go.set()
            assert future.result().status_code == 200
