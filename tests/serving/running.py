"""A server that runs in a thread of the test's process."""

import asyncio
import contextlib
import dataclasses
import json
import threading
import time

import httpx

from aevnmt_tf.serving.server import Server
from aevnmt_tf.serving.server_options import ServerOptions


@dataclasses.dataclass
class Running:
    """The server and how to talk to it."""

    server: Server
    client: httpx.Client
    reports: list
    ready: threading.Event

    def wait_until_ready(self):
        assert self.ready.wait(120)

    @property
    def model(self):
        return f"/v1/models/{self.server.options.model_name}"

    def predict(self, document, *, version=None):
        which = "" if version is None else f"/versions/{version}"
        return self.client.post(f"{self.model}{which}:predict", json=document)

    def wait_for_queue(self, number, signature="serving_default"):
        """Wait until so many requests wait for their batch."""
        with self.server.versions.using(self.server.options.model_name) as version:
            queue = version.queues[signature]
        self.wait_for(lambda: len(queue) >= number)

    def wait_for(self, condition):
        for _ in range(6000):
            if condition():
                return
            time.sleep(0.01)
        raise AssertionError("waited in vain")


@contextlib.contextmanager
def running_server(export_dir, *, wait=True, **options):
    """Serve a folder on free ports; gives a Running, which is ready unless `wait` is False."""
    reports = []
    server = Server(
        ServerOptions(export_dir, port=0, grpc_port=0, **options), report=reports.append
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
        if wait:
            ready.wait(timeout=120)
        while not (server.port or ready.is_set()):
            time.sleep(0.01)
        if problem:
            raise problem[0]
        with httpx.Client(base_url=server.url, timeout=60) as client:
            yield Running(server, client, reports, ready)
    finally:
        server.stop()
        thread.join(timeout=120)
    assert not thread.is_alive() and not problem


def strict(response):
    """The document of a reply, which must be strict JSON."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    assert response.headers["content-type"] == "application/json"
    return json.loads(response.content.decode("utf-8"), parse_constant=refuse)
