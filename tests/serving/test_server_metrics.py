"""Metrics, the access log, health and deadlines: what an operator relies on."""

import concurrent.futures
import json
import threading

import grpc
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from prometheus_client.parser import text_string_to_metric_families
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from aevnmt_tf.serving import rest
from aevnmt_tf.serving.servable import Servable
from tests.serving.running import strict

# From TensorFlow Serving's source; Prometheus' names have colons for slashes.
NAMES = (
    "request_count request_latency runtime_latency batching_session:queuing_latency "
    "batching_session:input_batch_size batching_session:processed_batch_size "
    "batching_session:padding_size batching_session:wrapped_run_count model_warmup_latency "
    "model_warmup_records_read"
).split()


def scrape(running):
    text = running.client.get("/monitoring/prometheus/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return text, families


def value(families, name, **labels):
    return sum(
        sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name.removesuffix("_total") == name
        and labels.items() <= sample.labels.items()
    )


def test_metrics_have_the_names_of_tensorflow_serving(toy_server):
    count = ":tensorflow:serving:request_count"
    _, before = scrape(toy_server)
    toy_server.predict({"instances": ["a", "b"]})
    toy_server.predict({"signature_name": "none", "instances": ["a"]})
    text, families = scrape(toy_server)
    for name in NAMES:
        assert f":tensorflow:serving:{name}" in families, name
    assert "_total" not in text and "_created" not in text
    labels = {"signature": "serving_default", "version": "1", "model_name": "aevnmt"}
    good = {**labels, "status": "OK"}
    assert value(families, count, **good) - value(before, count, **good) == 1
    assert value(families, count, status="INVALID_ARGUMENT", signature="") >= 1
    for name in ("request_latency", "runtime_latency"):
        assert value(families, f":tensorflow:serving:{name}_count", **labels) >= 1
    assert value(families, "aevnmt_queue_length", **labels) == 0
    assert value(families, "aevnmt_build_info") == 1


def test_the_access_log_has_no_text(toy_export, start_server, tmp_path):
    path = tmp_path / "log"
    with start_server(toy_export, access_log=str(path)) as running:
        running.predict({"instances": ["private words", "x"]})
        running.predict({"instances": [7]})
        stub(running).Predict(request("private"), timeout=60)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    shown = [
        (one["entrypoint"], one["status"], one["signature"], one["lines"]) for one in lines
    ]
    assert shown == [
        ("REST", "OK", "serving_default", 2),
        ("REST", "INVALID_ARGUMENT", "serving_default", 0),
        ("GRPC", "OK", "serving_default", 1),
    ]
    assert "private" not in path.read_text() and all(one["seconds"] > 0 for one in lines)


def request(*lines):
    made = predict_pb2.PredictRequest()
    made.model_spec.name = "aevnmt"
    made.inputs["source"].CopyFrom(tf.make_tensor_proto(list(lines)))
    return made


def stub(running):
    channel = grpc.insecure_channel(f"127.0.0.1:{running.server.grpc_port}")
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


def test_health_and_reflection(toy_server):
    assert toy_server.client.get("/readyz").json()["version"] == 1
    with grpc.insecure_channel(f"127.0.0.1:{toy_server.server.grpc_port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", "tensorflow.serving.PredictionService"):
            found = health.Check(health_pb2.HealthCheckRequest(service=name), timeout=60)
            assert found.status == health_pb2.HealthCheckResponse.SERVING
        services = ProtoReflectionDescriptorDatabase(channel).get_services()
    assert "tensorflow.serving.PredictionService" in services


def test_the_server_lives_before_it_is_ready(toy_export, start_server, monkeypatch):
    """Its first version takes a while to load."""
    go, load = threading.Event(), Servable.__init__

    def slow(self, folder):
        assert go.wait(60)
        load(self, folder)

    monkeypatch.setattr(Servable, "__init__", slow)
    with start_server(toy_export, wait=False) as running:
        assert running.client.get("/healthz").status_code == 200
        assert running.client.get("/readyz").status_code == 503
        assert running.predict({"instances": ["a"]}).status_code == 503
        go.set()
        running.wait_until_ready()
        assert running.client.get("/readyz").status_code == 200


@pytest.fixture
def slow_model(monkeypatch):
    run, go, seen = Servable.run, threading.Event(), []

    def slow(self, name, inputs, *more):
        seen.extend(inputs["source"])
        assert go.wait(60)
        return run(self, name, inputs, *more)

    monkeypatch.setattr(Servable, "run", slow)
    yield go, seen
    go.set()


def test_a_deadline_ends_the_wait_and_what_has_not_started_is_not_run(
    toy_export, start_server, slow_model
):
    go, seen = slow_model
    options = {"request_timeout": 0.5, "num_threads": 1, "batch_timeout_ms": 0.0}
    with start_server(toy_export, **options) as running:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first = pool.submit(running.predict, {"instances": ["first"]})
            running.wait_for(lambda: seen)
            late = running.predict({"instances": ["late"]})
            with pytest.raises(grpc.RpcError) as caught:
                stub(running).Predict(request("later"), timeout=60)
            assert late.status_code == first.result().status_code == 504
            assert "too long" in strict(late)["error"]
            assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        go.set()
        assert running.predict({"instances": ["last"]}).status_code == 200
    assert seen == [b"first", b"last"]


def test_a_large_answer_is_refused_before_it_is_computed(toy_export, start_server, slow_model):
    _, seen = slow_model
    lines = ["a " * 100] * 3
    with start_server(toy_export, max_reply_values=500) as running:
        body = {"signature_name": "attention", "instances": lines}
        assert running.predict(body).status_code == 400
        asked = request(*lines)
        asked.model_spec.signature_name = "attention"
        with pytest.raises(grpc.RpcError) as caught:
            stub(running).Predict(asked, timeout=60)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert seen == []


def test_a_request_has_a_budget_of_words(toy_export, start_server):
    with start_server(toy_export, max_request_words=100) as running:
        assert running.predict({"instances": ["a " * 90]}).status_code == 200
        response = running.predict({"instances": ["a " * 60] * 2})
        assert response.status_code == 400 and "subwords" in strict(response)["error"]


def test_a_path_cannot_forge_lines_of_a_log(toy_export, start_server, monkeypatch):
    monkeypatch.setattr(rest, "_which", lambda match: 1 / 0)  # our mistake, which is told
    with start_server(toy_export) as running:
        path = f"{running.model}%0Daevnmt serve: forged%1b[2J%E2%80%A8b"
        assert running.client.get(path.replace(": ", "%20")).status_code == 500
    told = running.reports[-1]
    assert "\\raevnmt serve forged\\x1b" in told
    assert len(told.splitlines()) == 1 and told.isprintable()


def test_a_client_cannot_choose_its_name_in_the_log(toy_export, start_server, tmp_path):
    log = tmp_path / "log"
    with start_server(toy_export, access_log=str(log)) as running:
        forged = {"X-Forwarded-For": "192.0.2.7", "Forwarded": "for=192.0.2.7"}
        path = f"{running.model}:predict"
        running.client.post(path, json={"instances": ["a"]}, headers=forged)
    assert json.loads(log.read_text())["client"] == "127.0.0.1"
