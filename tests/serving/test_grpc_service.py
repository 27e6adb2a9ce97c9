"""The gRPC services of a real server, through the official stubs."""

import concurrent.futures

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from aevnmt_tf.serving.servable import Servable


@pytest.fixture(scope="module")
def channel(toy_server):
    with grpc.insecure_channel(f"127.0.0.1:{toy_server.server.grpc_port}") as channel:
        yield channel


@pytest.fixture(scope="module")
def prediction(channel):
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


@pytest.fixture(scope="module")
def models(channel):
    return model_service_pb2_grpc.ModelServiceStub(channel)


def request_for(signature="", *, name="aevnmt", version=None, outputs=(), **inputs):
    request = predict_pb2.PredictRequest(output_filter=outputs)
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    for key, value in inputs.items():
        is_proto = isinstance(value, tf.make_tensor_proto(0).__class__)
        request.inputs[key].CopyFrom(value if is_proto else tf.make_tensor_proto(value))
    return request


def test_predict(prediction):
    response = prediction.Predict(request_for(source=["a", "ü"]), timeout=60)
    assert response.model_spec.name == "aevnmt"
    assert response.model_spec.version.value == 1
    assert response.model_spec.signature_name == "serving_default"
    outputs = response.outputs
    assert sorted(outputs) == ["score", "translation"]
    # In the fields that clients of TensorFlow Serving read.
    assert list(outputs["translation"].string_val) == [b"A v1", "ü v1".encode()]
    np.testing.assert_allclose(outputs["score"].float_val, [-0.1, -0.2])
    assert [dim.size for dim in outputs["score"].tensor_shape.dim] == [2]
    np.testing.assert_allclose(tf.make_ndarray(outputs["score"]), [-0.1, -0.2])


def test_what_rest_says_is_what_grpc_says(toy_server, prediction):
    lines = ["a b", "c", "", "d e f"]
    for signature in ("serving_default", "attention", "nbest"):
        rest = toy_server.predict({"signature_name": signature, "inputs": lines}).json()
        outputs = prediction.Predict(request_for(signature, source=lines), timeout=60).outputs
        assert rest["outputs"].keys() == outputs.keys()
        for name, column in rest["outputs"].items():
            array = tf.make_ndarray(outputs[name])
            if array.dtype == object:
                assert np.char.decode(array.astype(bytes)).tolist() == column
            else:
                column = np.array(column, dtype=float)  # None is nan
                array = np.where(np.isfinite(array), array, np.nan)
                np.testing.assert_allclose(array, column, rtol=1e-6)


def test_the_output_filter(prediction):
    request = request_for(source=["a"], outputs=["score"])
    assert list(prediction.Predict(request, timeout=60).outputs) == ["score"]
    request = request_for("sample", source=["a"], seed=np.int32([7]), version=1)
    response = prediction.Predict(request, timeout=60)
    assert tf.make_ndarray(response.outputs["translations"]).tolist() == [[b"a7"]]


def huge(rows, dtype=tf.string):
    """A few bytes that claim to be many rows."""
    proto = tf.make_tensor_proto("a" if dtype == tf.string else 1.0)
    proto.tensor_shape.dim.add(size=rows)
    return proto


def broken(**changes):
    proto = tf.make_tensor_proto(["a"])
    if "content" in changes:
        proto.tensor_content = changes["content"]
    if "dtype" in changes:
        proto.dtype = changes["dtype"]
    if "size" in changes:
        proto.tensor_shape.dim[0].size = changes["size"]
    if changes.get("unknown"):
        proto.tensor_shape.unknown_rank = True
    return proto


@pytest.mark.parametrize(
    "changes, code, message",
    [
        ({"name": "half"}, "NOT_FOUND", "Servable not found for request: Latest(half)"),
        ({"version": 4}, "NOT_FOUND", "Servable not found for request: Specific(aevnmt, 4)"),
        ({"signature": "x"}, "FAILED_PRECONDITION", 'Serving signature key "x" not found.'),
        ({"source": "a"}, "INVALID_ARGUMENT", "must have shape [?], not []"),
        ({"source": [["a"]]}, "INVALID_ARGUMENT", "must have shape [?], not [1,1]"),
        ({"source": [1.0]}, "INVALID_ARGUMENT", "Input source must be string, not float32"),
        ({"source": tf.constant([], tf.string)}, "INVALID_ARGUMENT", "have no rows"),
        ({"source": ["a"] * 257}, "INVALID_ARGUMENT", "up to 256 lines, not 257"),
        ({"source": huge(10**12)}, "INVALID_ARGUMENT", "up to 256 lines, not 100000000"),
        ({"source": ["a" * 20_001]}, "INVALID_ARGUMENT", "up to 20000 bytes, not 20001"),
        (
            {"source": broken(content=b"xyz")},
            "INVALID_ARGUMENT",
            "tensor parsing error: source",
        ),
        ({"source": broken(dtype=99)}, "INVALID_ARGUMENT", "tensor parsing error: source"),
        ({"source": broken(size=-5)}, "INVALID_ARGUMENT", "tensor parsing error: source"),
        ({"source": broken(unknown=True)}, "INVALID_ARGUMENT", "tensor parsing error: source"),
        ({"other": ["a"]}, "INVALID_ARGUMENT", "2!=1 len({other,source}) != len({source})."),
        (
            {"signature": "sample"},
            "INVALID_ARGUMENT",
            "1!=2 len({source}) != len({seed,source}). Sent extra: {}. Missing but required: "
            "{seed}.",
        ),
        (
            {"signature": "sample", "seed": np.int32([1, 2])},
            "INVALID_ARGUMENT",
            "Batching Run() input tensors must have equal 0th-dimension size",
        ),
        (
            {"outputs": ["x"]},
            "INVALID_ARGUMENT",
            "output tensor alias not found in signature: x",
        ),
        (
            {"outputs": ["score"] * 2},
            "INVALID_ARGUMENT",
            "duplicate output tensor alias: score",
        ),
        ({"signature": "fails", "source": ["bad"]}, "INVALID_ARGUMENT", "a bad line"),
        ({"signature": "x" * 5000}, "FAILED_PRECONDITION", "...TRUNCATED"),
    ],
)
def test_bad_requests(prediction, changes, code, message):
    with pytest.raises(grpc.RpcError) as caught:
        prediction.Predict(request_for(**{"source": ["a"], **changes}), timeout=60)
    assert caught.value.code().name == code
    assert message in caught.value.details()
    assert len(caught.value.details()) < 1100
    assert prediction.Predict(request_for(source=["a"]), timeout=60).outputs


def test_one_value_may_stand_for_several(prediction):
    """Half of the rows are not sent: the last value counts for them."""
    found = prediction.Predict(request_for(source=huge(4)), timeout=60).outputs
    assert list(found["translation"].string_val) == [b"A v1"] * 4


def test_requests_without_a_model(prediction, models):
    for call, request in (
        (prediction.Predict, predict_pb2.PredictRequest()),
        (prediction.GetModelMetadata, get_model_metadata_pb2.GetModelMetadataRequest()),
        (models.GetModelStatus, get_model_status_pb2.GetModelStatusRequest()),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call(request, timeout=60)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.details() == "Missing ModelSpec"


def test_labels(prediction, models):
    request = request_for(source=["a"])
    request.model_spec.version_label = "new"
    status = get_model_status_pb2.GetModelStatusRequest(model_spec=request.model_spec)
    for call, message in ((prediction.Predict, request), (models.GetModelStatus, status)):
        with pytest.raises(grpc.RpcError) as caught:
            call(message, timeout=60)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.details() == "Unrecognized servable version label: new"


def metadata_request(*fields, name="aevnmt"):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
    request.model_spec.name = name
    return request


def test_metadata(prediction):
    response = prediction.GetModelMetadata(metadata_request("signature_def"), timeout=60)
    assert (response.model_spec.name, response.model_spec.version.value) == ("aevnmt", 1)
    found = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(found)
    sample = found.signature_def["sample"]
    assert sorted(sample.inputs) == ["seed", "source"]
    assert sample.inputs["seed"].dtype == tf.int32.as_datatype_enum
    assert sample.method_name == "tensorflow/serving/predict"


@pytest.mark.parametrize(
    "request_, code, message",
    [
        (metadata_request(), "INVALID_ARGUMENT", "must specify at least one metadata_field"),
        (metadata_request("x"), "INVALID_ARGUMENT", "Metadata field x is not supported"),
        (metadata_request("signature_def", name="y"), "NOT_FOUND", "Latest(y)"),
    ],
)
def test_bad_metadata_requests(prediction, request_, code, message):
    with pytest.raises(grpc.RpcError) as caught:
        prediction.GetModelMetadata(request_, timeout=60)
    assert caught.value.code().name == code and message in caught.value.details()


def test_status(models):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "aevnmt"
    (state,) = models.GetModelStatus(request, timeout=60).model_version_status
    assert state.version == 1
    assert state.state == get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert (state.status.error_code, state.status.error_message) == (0, "")
    request.model_spec.version.value = 1
    assert list(models.GetModelStatus(request, timeout=60).model_version_status) == [state]
    request.model_spec.version.value = 8
    with pytest.raises(grpc.RpcError) as caught:
        models.GetModelStatus(request, timeout=60)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    assert caught.value.details() == "Could not find version 8 of model aevnmt"


def test_what_no_signature_does(prediction, models):
    for call, request, code in (
        (prediction.Classify, classification_pb2.ClassificationRequest(), "INVALID_ARGUMENT"),
        (prediction.Regress, regression_pb2.RegressionRequest(), "INVALID_ARGUMENT"),
        (prediction.MultiInference, inference_pb2.MultiInferenceRequest(), "INVALID_ARGUMENT"),
        (
            models.HandleReloadConfigRequest,
            model_management_pb2.ReloadConfigRequest(),
            "UNIMPLEMENTED",
        ),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call(request, timeout=60)
        assert caught.value.code().name == code


def test_concurrent_requests_share_batches(prediction):
    def translate(number):
        found = prediction.Predict(request_for(source=[f"{number} x"]), timeout=60)
        return list(found.outputs["translation"].string_val) == [f"{number} X v1".encode()]

    def calls():
        found = prediction.Predict(request_for("count", source=["x"]), timeout=60)
        return found.outputs["calls"].int_val[0]

    before = calls()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(translate, range(200)))
    assert 0 < calls() - before < 200


def test_limits_and_full_queues(toy_export, start_server):
    options = {"max_queue": 1, "batch_timeout_ms": 1500.0, "max_batch_size": 100}
    with start_server(toy_export, max_request_bytes=1000, **options) as running:
        with grpc.insecure_channel(f"127.0.0.1:{running.server.grpc_port}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            with pytest.raises(grpc.RpcError) as caught:
                stub.Predict(request_for(source=["a" * 2000]), timeout=60)
            assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            futures = [
                stub.Predict.future(request_for(source=["a"]), timeout=60) for _ in "abc"
            ]
            codes = sorted(future.code().name for future in futures)
    assert codes == ["OK", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"]


def test_what_a_model_cannot_do_is_reported(toy_export, start_server, monkeypatch):
    monkeypatch.setattr(Servable, "run", lambda *_: 1 / 0)
    with start_server(toy_export) as running:
        with grpc.insecure_channel(f"127.0.0.1:{running.server.grpc_port}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            with pytest.raises(grpc.RpcError) as caught:
                stub.Predict(request_for(source=["a"]), timeout=60)
        assert caught.value.code() == grpc.StatusCode.INTERNAL
        assert running.reports[-1] == "Predict: RequestError: division by zero"


def test_requests_under_way_are_answered_when_the_server_stops(toy_export, start_server):
    with start_server(toy_export, batch_timeout_ms=1000.0) as running:
        with grpc.insecure_channel(f"127.0.0.1:{running.server.grpc_port}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            futures = [stub.Predict.future(request_for(source=[n]), timeout=60) for n in "ab"]
            running.wait_for_queue(2)
            running.server.stop()
            texts = [f.result().outputs["translation"].string_val[0] for f in futures]
    assert texts == [b"A v1", b"B v1"]


def test_a_cancelled_request_is_not_run(toy_export, start_server):
    options = {"batch_timeout_ms": 700.0, "max_batch_size": 100}
    with start_server(toy_export, **options) as running:
        with grpc.insecure_channel(f"127.0.0.1:{running.server.grpc_port}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            with pytest.raises(grpc.RpcError) as caught:
                stub.Predict(request_for(source=["a"]), timeout=0.2)
            assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            found = stub.Predict(request_for("count", source=["x"]), timeout=60)
        assert found.outputs["calls"].int_val[0] == 0
