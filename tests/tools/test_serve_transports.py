"""How the client takes servers with a bad day, and what it makes of tensors."""

import concurrent.futures
import http.server
import importlib
import json
import pathlib
import sys
import threading
import time

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

TOOLS = pathlib.Path(__file__).parents[2] / "tools"


@pytest.fixture
def client(monkeypatch):
    """The module of the command."""
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("serve_client")


@pytest.fixture
def bad_day():
    """A REST server that gives the replies of a list, one a request: status, headers, body."""
    replies = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def do_GET(self):
            status, headers, body = replies.pop(0)
            time.sleep(headers.pop("sleep", 0))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}", replies
    made.shutdown()
    made.server_close()


GOOD = (200, {}, b'{"outputs": {"translation": ["A"], "score": [0.5]}}')
FULL = (429, {"Retry-After": "3"}, b'{"error": "the queue is full"}')
LOADING = (503, {}, b'{"error": "not yet"}')


@pytest.fixture
def waits(client, monkeypatch):
    """The waits between attempts, in seconds; they take no time."""
    found = []
    monkeypatch.setattr(sys.modules["serve_transports"], "sleep", found.append)
    return found


def test_comes_back_when_the_queue_is_full(client, bad_day, waits, capsys):
    url, replies = bad_day
    replies += [FULL, LOADING, LOADING, LOADING, GOOD]
    assert client.main(["--rest", url, "a"]) == 0
    assert capsys.readouterr().out == "A\n"
    assert len(waits) == 4 and waits[0] == 3  # what the server asked for
    assert 0.1 <= waits[1] <= 0.2 <= waits[2] <= 0.4 <= waits[3] <= 0.8


def test_gives_up(client, bad_day, waits, capsys):
    url, replies = bad_day
    replies += [FULL] * 3
    assert client.main(["--rest", url, "--retries", "2", "a"]) == 2
    assert "too busy, after 3 attempts: the queue is full" in capsys.readouterr().err
    assert not replies


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        ((200, {}, b"<html>"), "is it another server?"),
        ((200, {}, b'{"other": 1}'), "is it another server?"),
        ((504, {}, b'{"error": "late"}'), "did not answer within"),
    ],
)
def test_strange_replies(client, bad_day, capsys, reply, sentence):
    url, replies = bad_day
    replies.append(reply)
    assert client.main(["--rest", url, "a"]) == 2
    assert sentence in capsys.readouterr().err


def test_no_answer_in_time(client, bad_day, capsys):
    url, replies = bad_day
    replies.append((200, {"sleep": 1.0}, b"{}"))
    assert client.main(["--rest", url, "--timeout", "0.2", "a"]) == 2
    assert "did not answer within 0.2 s" in capsys.readouterr().err


class Stub(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Fails with the errors of a list, one a request, then answers."""

    def __init__(self):
        self.errors = []

    def Predict(self, request, context):
        if self.errors:
            error = self.errors.pop(0)
            if error == "slow":
                time.sleep(1.0)
            else:
                context.abort(*error)
        response = predict_pb2.PredictResponse()
        # Packed, as TensorFlow Serving may send numbers.
        response.outputs["score"].CopyFrom(tf.make_tensor_proto([0.5, 0.25]))
        response.outputs["translation"].CopyFrom(tf.make_tensor_proto(["A", "B"]))
        return response


@pytest.fixture
def stub():
    made = Stub()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(made, server)
    made.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield made
    server.stop(None)


def test_grpc_comes_back_when_the_queue_is_full(client, stub, waits, capsys):
    stub.errors = [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "too many requests"),
        (grpc.StatusCode.UNAVAILABLE, "The batch scheduling queue is full"),
    ]
    assert client.main(["--grpc", stub.address, "--format", "json", "a", "b"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["translation"], row["score"]) for row in rows] == [("A", 0.5), ("B", 0.25)]
    assert len(waits) == 2 and 0.05 <= waits[0] <= 0.1 <= waits[1] <= 0.2


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ((grpc.StatusCode.UNAVAILABLE, "shutting down"), "went away (shutting down)"),
        ("slow", "did not answer within 0.3 s"),
    ],
)
def test_grpc_gives_up_at_once(client, stub, waits, capsys, error, sentence):
    stub.errors = [error]
    assert client.main(["--grpc", stub.address, "--timeout", "0.3", "a", "b"]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flat", "shape"),
    [([1, 2, 3, 4], (2, 2)), ([], (2, 0)), ([], (0, 2)), ([], (2, 0, 3)), ([5], (1, 1, 1))],
)
def test_tensors_of_every_shape(client, flat, shape):
    read = sys.modules["serve_transports"].read_tensor
    array = tf.reshape(tf.constant(flat, tf.float32), shape).numpy()
    assert read(tf.make_tensor_proto(array)) == array.tolist()
    values = tf.make_tensor_proto(array.astype("int64"))
    assert read(values) == array.tolist()


def test_equal_values_may_be_left_out(client):
    read = sys.modules["serve_transports"].read_tensor
    tensor = tf.make_tensor_proto([0.0])
    tensor.ClearField("float_val")
    tensor.ClearField("tensor_content")
    tensor.tensor_shape.dim[0].size = 3
    assert read(tensor) == [0, 0, 0]
    tensor.float_val.extend([1.0, 2.0])
    assert read(tensor) == [1, 2, 2]
