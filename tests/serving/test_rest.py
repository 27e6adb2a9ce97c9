"""The REST API of a real server, through a real client."""

import concurrent.futures
import contextlib
import gzip
import json
import socket
import threading

import httpx
import pytest
import tensorflow as tf

from aevnmt_tf.serving import rest
from tests.serving import toy_model


def strict(response):
    """The document of a reply, which must be strict JSON."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    assert response.headers["content-type"] == "application/json"
    return json.loads(response.content.decode("utf-8"), parse_constant=refuse)


def test_rows(toy_server):
    response = toy_server.predict({"instances": ["a", "ü"]})
    assert response.status_code == 200
    assert strict(response) == {
        "predictions": [
            {"score": -0.1, "translation": "A v1"},
            {"score": -0.2, "translation": "ü v1"},  # two bytes, and TensorFlow knows ASCII
        ]
    }


def test_columns(toy_server):
    response = toy_server.predict({"inputs": {"source": ["ab", ""]}})
    assert strict(response) == {
        "outputs": {"score": [-0.2, 0.0], "translation": ["AB v1", " v1"]}
    }
    assert strict(toy_server.predict({"inputs": ["ab", ""]})) == strict(response)


def test_signatures(toy_server):
    document = {"instances": [{"source": "a", "seed": 3}, {"source": "b", "seed": 4}]}
    found = toy_server.predict({**document, "signature_name": "sample"})
    assert strict(found) == {"predictions": [["a3"], ["b4"]]}
    found = toy_server.predict({"signature_name": "attention", "instances": ["a b c", "d"]})
    assert strict(found)["predictions"][1] == {
        "attention": [pytest.approx(1 / 3)] * 3,
        "source_pieces": ["d", "", ""],
    }
    found = toy_server.predict({"signature_name": "serving_default", "instances": ["a"]})
    assert strict(found)["predictions"][0]["translation"] == "A v1"


def test_infinity_is_null(toy_server):
    found = strict(toy_server.predict({"signature_name": "nbest", "instances": ["a"]}))
    assert found == {"predictions": [{"scores": [0.2, None], "translations": ["A", "a"]}]}


def test_bytes(toy_server):
    document = {"signature_name": "raw", "instances": [{"b64": "w7w="}]}
    assert strict(toy_server.predict(document)) == {
        "predictions": [{"broken": "\ufffd", "packed_bytes": {"b64": "w7w="}}]
    }


def test_versions_and_names_in_the_path(toy_server):
    body = {"instances": ["a"]}
    assert toy_server.predict(body, version=1).status_code == 200
    client = toy_server.client
    assert client.post("/V1/Models/aevnmt/VERSIONS/1:PREDICT", json=body).status_code == 200
    assert client.post("/v1/models/aevn%6dt:predict", json=body).status_code == 200
    assert client.post("/v1/models/aevnmt:predict?x=1", json=body).status_code == 200


def test_status(toy_server):
    expected = {
        "model_version_status": [
            {
                "version": "1",
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""},
            }
        ]
    }
    for path in (toy_server.model, f"{toy_server.model}/versions/1"):
        assert strict(toy_server.client.get(path)) == expected
    assert strict(toy_server.client.get("/v1/models")) == {"models": ["aevnmt"]}


def test_metadata(toy_server):
    found = strict(toy_server.client.get(f"{toy_server.model}/metadata"))
    assert found["model_spec"] == {"name": "aevnmt", "signature_name": "", "version": "1"}
    (key,) = found["metadata"]
    assert key == "signature_def"
    signatures = found["metadata"]["signature_def"]["signature_def"]
    assert {"serving_default", "nbest", "sample", "attention"} < set(signatures)
    source = signatures["serving_default"]["inputs"]["source"]
    assert source["dtype"] == "DT_STRING"
    assert source["tensor_shape"] == {
        "dim": [{"size": "-1", "name": ""}],
        "unknown_rank": False,
    }
    assert source["name"].endswith(":0")
    assert signatures["serving_default"]["method_name"] == "tensorflow/serving/predict"
    assert strict(toy_server.client.get(f"{toy_server.model}/versions/1/metadata")) == found


@pytest.mark.parametrize(
    "method, path, code, sentence",
    [
        ("GET", "/v1/models/half", 404, "Could not find any versions of model half"),
        (
            "GET",
            "/v1/models/aevnmt/versions/9",
            404,
            "Could not find version 9 of model aevnmt",
        ),
        (
            "GET",
            "/v1/models/aevnmt/labels/new",
            400,
            "Unrecognized servable version label: new",
        ),
        (
            "GET",
            "/v1/models/half/metadata",
            404,
            "Servable not found for request: Latest(half)",
        ),
        (
            "POST",
            "/v1/models/half:predict",
            404,
            "Servable not found for request: Latest(half)",
        ),
        ("POST", "/v1/models/aevnmt/versions/9:predict", 404, "Specific(aevnmt, 9)"),
        ("POST", "/v1/models/aevnmt/labels/x:predict", 400, "version label: x"),
        ("POST", f"/v1/models/a/versions/{2**64}:predict", 400, "Failed to convert version"),
        ("POST", f"/v1/models/a/versions/{'9' * 99}:predict", 400, "Failed to convert version"),
        ("POST", "/v1/models/aevnmt:classify", 400, "Expected classification signature"),
        ("POST", "/v1/models/aevnmt:regress", 400, "Expected regression signature"),
        ("GET", "/v1/foo", 400, "Malformed request: GET /v1/foo"),
        ("POST", "/v1/models", 400, "Malformed request: POST /v1/models"),
        ("GET", "/v1/models/versions/1/2", 400, "Malformed request"),
        ("GET", "/v1/models/versions/1", 400, "Malformed request|Missing model name"),
        ("GET", "/v1/models/aevnmt:predict", 400, "Malformed request"),
        ("POST", "/v1/models/aevnmt/versions/x:predict", 400, "Malformed request"),
        ("PUT", "/v1/models/aevnmt:predict", 400, "Malformed request: PUT"),
        ("DELETE", "/v1/models/aevnmt", 400, "Malformed request: DELETE"),
        ("OPTIONS", "/v1/models/aevnmt", 400, "Malformed request: OPTIONS"),
        ("BREW", "/v1/models/aevnmt", 400, "Malformed request: BREW"),
        ("GET", "/nowhere", 404, "Not Found"),
        ("GET", "/page/../serve.py", 404, "Not Found"),
        ("GET", "/page/%2e%2e/rest.py", 404, "Not Found"),
        ("POST", "/healthz", 405, "Method Not Allowed"),
        ("POST", "/", 405, "Method Not Allowed"),
    ],
)
def test_what_is_not_there(toy_server, method, path, code, sentence):
    response = toy_server.client.request(
        method, path, content=b'{"instances": ["a"]}' if method != "GET" else None
    )
    assert response.status_code == code
    error = strict(response)["error"]
    assert any(part in error for part in sentence.split("|"))


@pytest.mark.parametrize(
    "document, sentence",
    [
        ({"instances": [1]}, "is not of expected type: string"),
        (
            {"instances": ["a"], "signature_name": "x"},
            'Serving signature name: "x" not found in',
        ),
        ({"instances": ["a"], "signature_name": "__saved_model_init_op"}, "not found in sign"),
        ({"inputs": []}, "the inputs have no rows"),
        (
            {"signature_name": "sample", "inputs": {"source": ["a", "b"], "seed": [1]}},
            "Batching Run() input tensors must have equal 0th-dimension size",
        ),
        ({"signature_name": "double", "inputs": [[1, 2]]}, "must have shape [?,3], not [1,2]"),
        ({"signature_name": "fails", "instances": ["bad"]}, "a bad line"),
        ({"instances": ["a"] * 257}, "a request may have 256 lines, not 257"),
        ({"inputs": ["a"] * 257}, "a request may have 256 lines, not 257"),
        ({"inputs": ["ü" * 10_001]}, "a line of source has 20002 bytes, and 20000 are allowed"),
    ],
)
def test_bad_predictions(toy_server, document, sentence):
    response = toy_server.predict(document)
    assert response.status_code == 400
    assert sentence in strict(response)["error"]


def test_bad_bodies_come_before_bad_names(toy_server):
    """In the order of TensorFlow Serving."""
    response = toy_server.client.post("/v1/models/half:predict", content=b"{")
    assert response.status_code == 400 and "JSON Parse error" in strict(response)["error"]


def test_health_and_headers(toy_server):
    response = toy_server.client.get("/healthz")
    assert strict(response) == {"status": "ok", "model": "aevnmt", "version": 1}
    assert toy_server.client.head("/healthz").status_code == 200
    for path in ("/healthz", "/", "/page/index.html", "/nowhere", "/v1/nowhere"):
        headers = toy_server.client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert "server" not in headers


def test_the_page(toy_server):
    response = toy_server.client.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert response.content == (rest.PAGE / "index.html").read_bytes()
    assert toy_server.client.get("/page/index.html").content == response.content


def test_a_body_that_is_too_large(toy_export, start_server):
    from aevnmt_tf.serving.limits import Limits

    with start_server(toy_export, limits=Limits(max_request_bytes=1000)) as running:
        path = f"{running.model}:predict"
        line = {"instances": ["a" * 900]}
        assert running.predict(line).status_code == 200
        for size in (1001, 100_000, 5_000_000):
            response = running.client.post(path, content=b"x" * size)
            assert response.status_code == 413
            assert strict(response) == {"error": "a request may have 1000 bytes"}
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
    assert len(json.dumps(lines)) > rest.LARGE_BODY
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
            b"POST /v1/models/aevnmt:predict HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
            b"H",
        ),
        (
            b"POST /v1/models/aevnmt:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\na",
            b"",
        ),
        (b"GET /v1/models/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 4"),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b""),
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
    """The batch waits two seconds for others; the stop comes before."""
    with start_server(toy_export, batch_timeout_ms=2000.0) as running:
        url = running.server.url
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(running.predict, {"instances": [n]}) for n in "abcd"]
            threading.Event().wait(1)
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
    def explode(*_):
        raise RuntimeError("secret")

    with start_server(toy_export) as running:
        monkeypatch.setattr(rest, "_reply", explode)
        response = running.predict({"instances": ["a"]})
        assert response.status_code == 500 and strict(response) == {"error": "internal error"}
        monkeypatch.undo()
        assert running.predict({"instances": ["a"]}).status_code == 200
        assert running.reports[-1] == "POST /v1/models/aevnmt:predict: RuntimeError: secret"


def test_toy_signatures_are_what_this_file_believes(toy_versions):
    """The oracle: the SavedModel itself."""
    loaded = tf.saved_model.load(str(toy_versions[1]))
    found = loaded.signatures["serving_default"](source=tf.constant(["a", "ü"]))
    assert found["translation"].numpy().tolist() == [b"A v1", "ü v1".encode()]
