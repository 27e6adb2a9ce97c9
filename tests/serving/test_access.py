"""Who may ask: hosts, origins, tokens and TLS."""

import shutil
import ssl
import subprocess

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

from aevnmt_tf.cli.errors import UserError

BODY = {"instances": ["a"]}


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8501", "Origin": "http://evil.example:8501"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://evil.example", "Content-Type": "text/plain"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "[::1"},
    ],
)
def test_other_hosts_and_sites_are_refused(toy_server, headers):
    path = f"{toy_server.model}:predict"
    response = toy_server.client.post(path, json=BODY, headers=headers)
    assert response.status_code == 403 and "predictions" not in response.text


def test_local_names_and_the_page_itself_are_served(toy_server):
    port = toy_server.server.port
    for host in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", "[::1]:1"):
        headers = {"Host": host, "Origin": f"http://{host}"}
        path = f"{toy_server.model}:predict"
        response = toy_server.client.post(path, json=BODY, headers=headers)
        assert response.status_code == 200


def test_allowed_hosts(toy_export, start_server):
    with start_server(toy_export, allowed_hosts=("models.example",)) as running:
        for host, code in (("models.example:80", 200), ("evil.example", 403)):
            origin = {"Host": host, "Origin": "https://models.example"}
            response = running.client.post(
                f"{running.model}:predict", json=BODY, headers=origin
            )
            assert response.status_code == code


def test_a_token_is_asked_for_by_both_protocols(toy_export, start_server, tmp_path):
    (tmp_path / "token").write_text("secret-1\n")
    with start_server(toy_export, token_file=str(tmp_path / "token")) as running:
        for path in ("/healthz", "/readyz", "/", "/page/api.js"):
            assert running.client.get(path).status_code == 200
        for word, code in (
            ("Bearer secret-1", 200),
            ("bearer secret-1", 200),
            ("Bearer secret", 401),
            ("Basic secret-1", 401),
            ("", 401),
        ):
            headers = {"Authorization": word}
            for path in (running.model, "/monitoring/prometheus/metrics"):
                assert running.client.get(path, headers=headers).status_code == code
        assert running.predict(BODY).status_code == 401
        with grpc.insecure_channel(f"127.0.0.1:{running.server.grpc_port}") as channel:
            health = health_pb2_grpc.HealthStub(channel)
            assert health.Check(health_pb2.HealthCheckRequest(), timeout=60).status == 1
            stub = model_service_pb2_grpc.ModelServiceStub(channel)
            request = get_model_status_pb2.GetModelStatusRequest()
            request.model_spec.name = "aevnmt"
            good = (("authorization", "Bearer secret-1"),)
            assert stub.GetModelStatus(request, metadata=good, timeout=60).model_version_status
            for metadata in ((), (("authorization", "Bearer no"),)):
                with pytest.raises(grpc.RpcError) as caught:
                    stub.GetModelStatus(request, metadata=metadata, timeout=60)
                assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


def make_certificate(folder):
    """Write a certificate for this machine and its key; return both files."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    files = ("-keyout", key, "-out", cert)
    subprocess.run([*words.split(), *names, *files], check=True, capture_output=True)
    return cert, key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_tls_of_both_protocols(toy_export, start_server, tmp_path):
    cert, key = make_certificate(tmp_path)
    options = {"tls_cert": str(cert), "tls_key": str(key)}
    with start_server(toy_export, **options) as running:
        url, address = running.server.url, f"127.0.0.1:{running.server.grpc_port}"
        assert url.startswith("https://")
        with httpx.Client(verify=ssl.create_default_context(cafile=cert)) as client:
            answer = client.post(f"{url}{running.model}:predict", json=BODY, timeout=60)
            # The page's own origin has the scheme that the browser sees.
            page = client.get(f"{url}/", headers={"Origin": url}, timeout=60)
        assert answer.json()["predictions"][0]["translation"] == "A v1"
        assert page.status_code == 200
        with pytest.raises(httpx.HTTPError):  # plain text
            httpx.get(url.replace("https", "http"), timeout=60)
        check = health_pb2.HealthCheckRequest()
        trusted = grpc.ssl_channel_credentials(cert.read_bytes())
        with grpc.secure_channel(address, trusted) as channel:
            assert health_pb2_grpc.HealthStub(channel).Check(check, timeout=60).status == 1
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
            health_pb2_grpc.HealthStub(channel).Check(check, timeout=60)
    cert.write_text("no certificate")
    with pytest.raises(UserError, match="are not a certificate and its key"):
        with start_server(toy_export, **options):
            pass
