"""The server with a real export: what it says is what the translator says."""

import concurrent.futures
import shutil

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

import aevnmt_tf
from aevnmt_tf.serving import warmup
from tests import tiny_export

LINES = tiny_export.sentences(24)


@pytest.fixture(scope="module")
def server(shared, start_server, tmp_path_factory):
    """Without a warm-up, which would take longer than the tests."""
    folder = tmp_path_factory.mktemp("cold")
    shutil.copytree(shared.export_dir / "1", folder / "1")
    (folder / "1" / warmup.FILE).unlink()
    with start_server(folder) as running:
        yield running


def test_translations_and_scores(server, shared):
    """In one request, and in many at once that share batches."""
    offline = [found[0] for found in aevnmt_tf.load(shared.run).n_best(LINES, n_best=1)]
    found = server.predict({"instances": LINES}).json()["predictions"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = pool.map(lambda line: server.predict({"instances": [line]}).json(), LINES)
        alone = [reply["predictions"][0] for reply in replies]
    for rows in (found, alone):
        assert [row["translation"] for row in rows] == [t.text for t in offline]
        scores = [row["score"] for row in rows]
        np.testing.assert_allclose(scores, [t.score for t in offline], rtol=1e-4, atol=1e-4)
    assert len({row["translation"] for row in found}) > 5


def test_odd_lines_are_answered(server):
    odd = ["", " ", "\0", "\n", "a" * 5000, "日本" * 900, "\u2028", "<s>", "</s>", "%s{}"]
    found = server.predict({"instances": odd})
    assert found.status_code == 200 and len(found.json()["predictions"]) == len(odd)
    broken = {"instances": [{"b64": "//79"}, {"b64": ""}, "a"]}
    found = server.predict(broken)
    assert found.status_code == 200 and len(found.json()["predictions"]) == 3


@pytest.mark.slow
def test_every_signature_over_both_protocols(shared, start_server):
    """As the export is, which warms up with every signature."""
    with start_server(shared.export_dir) as server:
        inputs = {"source": LINES[:5], "target": LINES[1:6], "seed": [3, 1, 4, 1, 5]}
        metadata = server.client.get(f"{server.model}/metadata").json()
        definitions = metadata["metadata"]["signature_def"]["signature_def"]
        assert set(tiny_export.SIGNATURES) <= set(definitions)
        with grpc.insecure_channel(f"127.0.0.1:{server.server.grpc_port}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            for name in tiny_export.SIGNATURES:
                wanted = {key: inputs[key] for key in definitions[name]["inputs"]}
                reply = server.predict({"signature_name": name, "inputs": wanted})
                assert reply.status_code == 200, reply.text
                columns = reply.json()["outputs"]
                if len(definitions[name]["outputs"]) == 1:
                    columns = dict(zip(definitions[name]["outputs"], [columns], strict=True))
                request = predict_pb2.PredictRequest()
                request.model_spec.name = "aevnmt"
                request.model_spec.signature_name = name
                for key, value in wanted.items():
                    dtype = tf.int32 if key == "seed" else tf.string
                    request.inputs[key].CopyFrom(tf.make_tensor_proto(value, dtype))
                outputs = stub.Predict(request, timeout=60).outputs
                assert columns.keys() == outputs.keys() == definitions[name]["outputs"].keys()
                for key, column in columns.items():
                    array = tf.make_ndarray(outputs[key])
                    assert np.shape(column) == array.shape and array.shape[0] == 5
                    if array.dtype == object:
                        assert [t.decode() for t in array.ravel()] == np.ravel(column).tolist()
                    else:
                        np.testing.assert_allclose(array, column, rtol=1e-4, atol=1e-5)
