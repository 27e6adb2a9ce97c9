"""Malformed requests, by the hundred and by the thousand, leave a server as it was."""

import asyncio
import json
import random
import resource

import grpc
import httpx
import pytest

from tests.serving import malformed

GOOD = {"instances": ["a", "b c"]}
ANSWER = {
    "predictions": [
        {"score": -0.1, "translation": "A v1"},
        {"score": -0.3, "translation": "B C v1"},
    ]
}


@pytest.fixture(scope="module")
def server(toy_export, start_server):
    limits = {
        "max_request_bytes": malformed.MOST_BYTES,
        "max_lines": malformed.MOST_LINES,
        "max_line_bytes": malformed.MOST_LINE_BYTES,
    }
    with start_server(toy_export, **limits) as running:
        yield running


async def bombard(server, number, *, seed, clients=8):
    """Send malformed requests from some clients, and a good one between them."""
    waiting = list(malformed.requests(number, seed=seed))
    wrong = []

    async def client(connection):
        while waiting:
            request = waiting.pop()
            response = await connection.request(
                request.method, request.path, content=request.content, headers=request.headers
            )
            try:
                has_error = isinstance(json.loads(response.content)["error"], str)
            except (ValueError, KeyError, TypeError):
                has_error = False
            if response.status_code not in request.codes or not has_error:
                wrong.append((request, response.status_code, response.content[:300]))
            if len(waiting) % 10 == 0:
                response = await connection.post(malformed.PREDICT, json=GOOD)
                assert response.status_code == 200 and response.json() == ANSWER

    async with httpx.AsyncClient(base_url=server.server.url, timeout=60) as connection:
        await asyncio.gather(*(client(connection) for _ in range(clients)))
    return wrong


def test_hundreds(server):
    number = 12 * len(malformed.KINDS)
    assert asyncio.run(bombard(server, number, seed=1)) == []
    assert server.reports == ["version 1 is ready"]


@pytest.mark.slow
def test_ten_thousand(server):
    asyncio.run(bombard(server, 1000, seed=2))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert asyncio.run(bombard(server, 10_000, seed=3, clients=16)) == []
    assert server.reports == ["version 1 is ready"]
    # Nothing of them stays: memory has grown by less than 100 MB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 2**10


def test_messages_that_are_none(server):
    """gRPC with random bytes where a message should be."""
    dice = random.Random(1)
    address = f"127.0.0.1:{server.server.grpc_port}"
    with grpc.insecure_channel(address) as channel:
        service = "/tensorflow.serving.PredictionService"
        for _ in range(100):
            name = dice.choice(["Predict", "GetModelMetadata", "Classify", "None"])
            call = channel.unary_unary(f"{service}/{name}")
            with pytest.raises(grpc.RpcError) as caught:
                call(b"\xff" + dice.randbytes(dice.randint(1, 200)), timeout=60)
            assert caught.value.code() not in (
                grpc.StatusCode.OK,
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.DEADLINE_EXCEEDED,
            )
    assert server.predict(GOOD).json() == ANSWER


def test_the_kinds_are_different():
    """The generator gives the same requests for a seed, and many different ones."""
    made = list(malformed.requests(1000, seed=5))
    assert made == list(malformed.requests(1000, seed=5))
    assert len({(m.method, m.path, m.content) for m in made}) > 500
    assert {code for m in made for code in m.codes} == {400, 404, 413, 415}
