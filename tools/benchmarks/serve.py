"""Serving: requests per second of many concurrent clients and of one client, p50 and p99.

    tools/benchmark.py serve --export_dir D [--src F] [--clients 64] [--requests 2000] [--json]

The server is a process of its own, `aevnmt serve`; the clients are in this one, on the same
machine. A request has one sentence, for serving_default. First one client sends its requests
one after the other; then all clients do at the same time, and the server merges what waits.
Every answer is compared with the first one for the same sentence.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from aevnmt_tf.cli import command, flags
from aevnmt_tf.cli.errors import UserError

from . import machine, report

# Words of the demo corpus; for other models they are as good as any.
WORDS = (
    "the a old small red house man woman sees buys takes tree book in near and today".split()
)


def parser() -> argparse.ArgumentParser:
    """The flags of this benchmark."""
    p = command.Parser("serve", __doc__, prog="tools/benchmark.py serve")
    p.add_argument("--export_dir", required=True, metavar="D", help="of aevnmt export")
    p.add_argument("--src", metavar="FILE", help="sentences, plain or .gz (default: made up)")
    for name, default, sentence in (
        ("clients", 64, "that send at the same time"),
        ("requests", 2000, "of all clients together"),
        ("single", 200, "requests of the one client"),
        ("sentences", 200, "how many different ones"),
    ):
        p.add_argument(
            f"--{name}", type=flags.positive, default=default, metavar="N", help=sentence
        )
    p.add_argument("--protocol", choices=("rest", "grpc"), default="rest")
    p.add_argument("--json", action="store_true", help="print JSON")
    p.add_argument(
        "server_flags", nargs="*", metavar="-- FLAG", help="flags of aevnmt serve, after --"
    )
    return p


def run(args: argparse.Namespace) -> int:
    """Measures and prints."""
    lines = sentences(args)
    from aevnmt_tf.serving import export_folder

    export_folder.check(Path(args.export_dir))
    before = machine.gemm_gflops()
    with server(args.export_dir, *args.server_flags) as addresses:
        results = asyncio.run(measure(addresses, lines, args))
    description = machine.description()
    results["gemm_gflops"] = max(before, description["gemm_gflops"])
    report.show({**results, "machine": description}, as_json=args.json)
    if results["errors"]:
        raise UserError(f"{results['errors']} requests failed; the first: {results['error']}")
    return 0


def sentences(args: argparse.Namespace) -> list[str]:
    """The first lines of --src that are not empty, or made-up ones."""
    if args.src is None:
        dice = random.Random(1)
        return [
            " ".join(dice.choices(WORDS, k=dice.randint(4, 16))) for _ in range(args.sentences)
        ]
    from aevnmt_tf.storage import line_streams

    with line_streams.open_input(args.src) as stream:
        reader = line_streams.Reader(stream, name=args.src)
        filled = (line for line in reader if line.strip())
        lines = list(itertools.islice(filled, args.sentences))
    if len(lines) < args.sentences and reader.problem:
        raise UserError(reader.problem)
    if not lines:
        raise UserError(f"{args.src} has no sentence to translate")
    return lines


@contextlib.contextmanager
def server(export_dir: str, *more: str):
    """A server process on free ports; gives {"REST": address, "gRPC": address, "pid": ...}."""
    words = ["--export_dir", export_dir, "--port", "0", "--grpc_port", "0", *more]
    process = subprocess.Popen(
        [sys.executable, "-m", "aevnmt_tf.serve", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        addresses = {"pid": str(process.pid)}
        while "gRPC" not in addresses:
            line = process.stdout.readline()
            if not line:
                problem = process.communicate()[1].strip().splitlines()
                raise UserError(problem[-1] if problem else "the server has ended")
            name, _, address = line.strip().partition(" ")
            addresses[name] = address.strip()
        yield addresses
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


async def measure(addresses: dict[str, str], lines: list[str], args) -> dict:
    """One client, then all of them."""
    connect = {"rest": _rest, "grpc": _grpc}[args.protocol]
    answers: dict[str, str] = {}
    async with connect(addresses) as translate:
        # The server is warm; the clients are not.
        for line in lines[: args.clients]:
            await translate(line)
        alone = await _load(translate, lines, answers, clients=1, requests=args.single)
        together = await _load(
            translate, lines, answers, clients=args.clients, requests=args.requests
        )
    problems = alone.pop("problems") + together.pop("problems")
    ratio = together["requests_per_second"] / alone["requests_per_second"]
    return {
        "protocol": args.protocol,
        "clients": args.clients,
        "requests": args.requests,
        "sentences": len(lines),
        "errors": len(problems),
        **({"error": problems[0]} if problems else {}),
        "batched": together,
        "one_at_a_time": alone,
        "batched_over_one_at_a_time": round(ratio, 2),
    }


async def _load(translate, lines, answers, *, clients: int, requests: int) -> dict:
    """Sends so many requests from so many clients, each of which waits for its answer."""
    waiting = iter(range(requests))
    seconds: list[float] = []
    problems: list[str] = []

    async def client():
        for number in waiting:
            line = lines[number % len(lines)]
            start = time.perf_counter()
            try:
                answer = await translate(line)
            except Exception as error:
                problems.append(f"{type(error).__name__}: {error}")
                continue
            seconds.append(time.perf_counter() - start)
            if answers.setdefault(line, answer) != answer:
                problems.append(f"{line!r} became {answer!r}, and {answers[line]!r} before")

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    total = time.perf_counter() - start
    ordered = sorted(seconds) or [float("nan")]
    return {
        "requests_per_second": round(len(seconds) / total, 2),
        "p50_ms": round(1e3 * _quantile(ordered, 0.5), 2),
        "p99_ms": round(1e3 * _quantile(ordered, 0.99), 2),
        "worst_ms": round(1e3 * ordered[-1], 2),
        "requests": len(seconds),
        "seconds": round(total, 3),
        "problems": problems,
    }


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@contextlib.asynccontextmanager
async def _rest(addresses):
    import httpx

    url = addresses["REST"]
    free: list[httpx.AsyncClient] = []  # a pool of many connections costs more than the server

    async with contextlib.AsyncExitStack() as stack:

        async def translate(line: str) -> str:
            if free:
                connection = free.pop()
            else:
                connection = httpx.AsyncClient(timeout=300, verify=False, trust_env=False)
                await stack.enter_async_context(connection)
            try:
                response = await connection.post(url, json={"instances": [line]})
            finally:
                free.append(connection)
            response.raise_for_status()
            return response.json()["predictions"][0]["translation"]

        yield translate


@contextlib.asynccontextmanager
async def _grpc(addresses):
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    name = addresses["REST"].rpartition("/")[2].partition(":")[0]
    async with grpc.aio.insecure_channel(addresses["gRPC"]) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

        async def translate(line: str) -> str:
            request = predict_pb2.PredictRequest()
            request.model_spec.name = name
            request.inputs["source"].CopyFrom(tf.make_tensor_proto([line]))
            response = await stub.Predict(request, timeout=300)
            return response.outputs["translation"].string_val[0].decode()

        yield translate
