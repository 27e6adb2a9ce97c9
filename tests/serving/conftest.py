"""A toy model and servers that answer with it."""

import asyncio
import contextlib
import dataclasses
import shutil
import threading

import httpx
import pytest

from aevnmt_tf.serving.server import Options, Server
from tests.serving import toy_model


@pytest.fixture(scope="session")
def toy_versions(tmp_path_factory):
    """Two versions of the toy model; to be copied, not changed."""
    folder = tmp_path_factory.mktemp("toy")
    return {number: toy_model.save(folder, number) for number in (1, 2)}


@pytest.fixture(scope="module")
def toy_export(toy_versions, tmp_path_factory):
    """A folder with version 1 of the toy model."""
    folder = tmp_path_factory.mktemp("export")
    shutil.copytree(toy_versions[1], folder / "1")
    return folder


@dataclasses.dataclass
class Running:
    """A server that runs in a thread of this process, and how to talk to it."""

    server: Server
    client: httpx.Client
    reports: list

    @property
    def model(self):
        return f"/v1/models/{self.server.options.model_name}"

    def predict(self, document, *, version=None):
        which = "" if version is None else f"/versions/{version}"
        return self.client.post(f"{self.model}{which}:predict", json=document)


@contextlib.contextmanager
def running_server(export_dir, **options):
    reports = []
    server = Server(
        Options(export_dir=export_dir, port=0, grpc_port=0, **options), report=reports.append
    )
    ready, problem = threading.Event(), []

    def serve():
        try:
            asyncio.run(server.run(ready=lambda _: ready.set(), handle_signals=False))
        except BaseException as error:
            problem.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        ready.wait(timeout=120)
        if problem:
            raise problem[0]
        with httpx.Client(base_url=server.url, timeout=60) as client:
            yield Running(server, client, reports)
    finally:
        server.stop()
        thread.join(timeout=120)
    assert not thread.is_alive() and not problem


@pytest.fixture(scope="session")
def start_server():
    """Returns a context manager: a real server on free ports."""
    return running_server


@pytest.fixture(scope="module")
def toy_server(toy_export):
    """A server with version 1 of the toy model."""
    with running_server(toy_export) as running:
        yield running
