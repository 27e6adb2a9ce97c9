"""The REST API of a real server, through a real client."""

import pytest
import tensorflow as tf

from aevnmt_tf.serving import rest
from tests.serving.running import strict


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
        ("GET", "/v1", 404, "Not Found"),
        ("GET", "/page/__init__.py", 404, "Not Found"),
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
        ({"inputs": []}, "The inputs have no rows"),
        (
            {"signature_name": "sample", "inputs": {"source": ["a", "b"], "seed": [1]}},
            "Batching Run() input tensors must have equal 0th-dimension size",
        ),
        ({"signature_name": "double", "inputs": [[1, 2]]}, "must have shape [?,3], not [1,2]"),
        ({"signature_name": "fails", "instances": ["bad"]}, "a bad line"),
        ({"instances": ["a"] * 257}, "A request may have up to 256 lines, not 257"),
        ({"inputs": ["a"] * 257}, "A request may have up to 256 lines, not 257"),
        ({"inputs": ["ü" * 10_001]}, "A line of source may have up to 20000 bytes, not 20002"),
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


def test_toy_signatures_are_what_this_file_believes(toy_versions):
    """The oracle: the SavedModel itself."""
    loaded = tf.saved_model.load(str(toy_versions[1]))
    found = loaded.signatures["serving_default"](source=tf.constant(["a", "ü"]))
    assert found["translation"].numpy().tolist() == [b"A v1", "ü v1".encode()]
