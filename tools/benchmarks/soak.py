"""Soak: many clients for minutes, while versions change and some requests are malformed.

    tools/benchmark.py soak --export_dir D [--minutes 15] [--clients 64] [--exchange 30]

The newest version of D is copied into a folder of its own as version 1, and again as 2, 3, ...
every --exchange seconds; a version that is no longer served is removed. The server is a process
of its own, `aevnmt serve`. Half of the clients speak REST, half gRPC; each sends a sentence,
waits for the answer and sends the next. A share of the requests is malformed in one of several
ways. An error is every answer but the right translation, or, to a malformed request, but the
status that it must have. Memory is the resident memory of the server's process.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import re
import shutil
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

from aevnmt_tf.cli import command, flags
from aevnmt_tf.cli.errors import UserError

from . import machine, report, serve

# Bodies of REST requests, and the status that each must get.
MALFORMED = (
    (b"", 400),
    (b"{", 400),
    (b"[1, 2]", 400),
    (b'{"instances": []}', 400),
    (b'{"instances": [7]}', 400),
    (b'{"instances": ["a"], "signature_name": "none"}', 400),
    (b'{"instances": ["\\ud800"]}', 400),
    (json.dumps({"instances": ["a"] * 1000}).encode(), 400),
    (json.dumps({"instances": ["a" * 30_000]}).encode(), 400),
    (b"x" * (5 * 2**20), 413),
)


def parser() -> argparse.ArgumentParser:
    """The flags of this benchmark."""
    p = command.Parser("soak", __doc__, prog="tools/benchmark.py soak")
    p.add_argument("--export_dir", required=True, metavar="D", help="of aevnmt export")
    p.add_argument("--src", metavar="FILE", help="sentences, plain or .gz (default: made up)")
    for name, kind, default, sentence in (
        ("minutes", float, 15.0, "how long"),
        ("clients", flags.positive, 64, "that send at the same time"),
        ("exchange", float, 30.0, "seconds between two versions"),
        ("malformed", float, 0.05, "share of requests that are malformed"),
        ("sentences", flags.positive, 200, "how many different ones"),
    ):
        p.add_argument(f"--{name}", type=kind, default=default, metavar="N", help=sentence)
    p.add_argument("--json", action="store_true", help="print JSON")
    p.add_argument(
        "server_flags", nargs="*", metavar="-- FLAG", help="flags of aevnmt serve, after --"
    )
    return p


def run(args: argparse.Namespace) -> int:
    """Measures and prints."""
    lines = serve.sentences(args)
    from aevnmt_tf.serving import export_folder

    export_folder.check(Path(args.export_dir))
    found = export_folder.find(Path(args.export_dir))
    with tempfile.TemporaryDirectory() as folder:
        exchange = Exchange(found[max(found)], Path(folder))
        exchange.publish()
        with serve.server(folder, *args.server_flags) as addresses:
            load = Load(addresses, lines, args)
            results = asyncio.run(load.run(exchange))
    report.show({**results, "machine": machine.description()}, as_json=args.json)
    if load.problems:
        raise UserError(f"{len(load.problems)} requests failed; first: {load.problems[0]}")
    return 0


class Exchange:
    """Copies of one version under growing numbers, of which the last two stay."""

    def __init__(self, version: Path, folder: Path):
        self._version = version
        self._folder = folder
        self.number = 0

    def publish(self) -> None:
        """Add the next version, as an exporter does: in one operation."""
        self.number += 1
        hidden = self._folder / ".writing"
        shutil.copytree(self._version, hidden)
        hidden.rename(self._folder / str(self.number))
        shutil.rmtree(self._folder / str(self.number - 2), ignore_errors=True)


class Load:
    """What the clients send, and what they got."""

    def __init__(self, addresses: dict[str, str], lines: list[str], args: argparse.Namespace):
        self._addresses = addresses
        self._lines = lines
        self._args = args
        self._dice = random.Random(1)
        self._answers: dict[str, str] = {}
        self._seconds: list[float] = []  # of good requests, since the last report
        self.problems: list[str] = []
        self._refused: Counter[int] = Counter()
        self._taken_over: list[float] = []  # seconds from the publication of a version

    async def run(self, exchange: Exchange) -> dict:
        """Send for so many minutes; return a line per minute and a summary."""
        import httpx

        end = time.monotonic() + 60 * self._args.minutes
        async with contextlib.AsyncExitStack() as stack:
            senders = [
                await stack.enter_async_context(connect(self._addresses))
                for connect in (serve._rest, serve._grpc)
            ]
            raw = await stack.enter_async_context(httpx.AsyncClient(timeout=300))
            clients = [
                self._client(senders[number % 2], raw, end)
                for number in range(self._args.clients)
            ]
            minutes, *_ = await asyncio.gather(
                self._watch(end), self._exchange(exchange, raw, end), *clients
            )
            url = httpx.URL(self._addresses["REST"]).join("/monitoring/prometheus/metrics")
            metrics = (await raw.get(url)).text
        answered = re.findall(r'request_count\{.*status="OK".*version="(\d+)"', metrics)
        third = len(minutes) // 3 or 1
        first, last = (
            statistics.median(line["memory_mb"] for line in part)
            for part in (minutes[:third], minutes[-third:])
        )
        return {
            "clients": self._args.clients,
            "minutes": self._args.minutes,
            "requests": sum(line["requests"] for line in minutes),
            "refused": {str(code): number for code, number in sorted(self._refused.items())},
            "errors": len(self.problems),
            "versions": {
                "published": exchange.number,
                "answered": len(set(answered)),
                "seconds_until_served": self._taken_over,
            },
            "memory_mb_first_third": first,
            "memory_mb_last_third": last,
            "p50_ms": statistics.median(line["p50_ms"] for line in minutes),
            "worst_p99_ms": max(line["p99_ms"] for line in minutes),
            "by_minute": minutes,
        }

    async def _client(self, translate, raw, end: float) -> None:
        while time.monotonic() < end:
            if self._dice.random() < self._args.malformed:
                await self._send_malformed(raw)
                continue
            line, start = self._dice.choice(self._lines), time.perf_counter()
            try:
                answer = await translate(line)
            except Exception as error:
                self.problems.append(f"{type(error).__name__}: {error}")
                continue
            self._seconds.append(time.perf_counter() - start)
            if self._answers.setdefault(line, answer) != answer:
                self.problems.append(f"{line!r}: {answer!r}, before {self._answers[line]!r}")

    async def _send_malformed(self, raw) -> None:
        import httpx

        body, wanted = self._dice.choice(MALFORMED)
        try:
            code = (await raw.post(self._addresses["REST"], content=body)).status_code
        except (httpx.WriteError, httpx.ReadError):  # it has hung up on a body that is too long
            code = 413
        self._refused[code] += 1
        if code != wanted:
            self.problems.append(f"{body[:60]!r} got {code}, not {wanted}")

    async def _exchange(self, exchange: Exchange, raw, end: float) -> None:
        """Publish a version every --exchange seconds, and see how soon it is served."""
        import httpx

        health = httpx.URL(self._addresses["REST"]).join("/healthz")
        is_served = True
        next_one = time.monotonic() + self._args.exchange
        while (now := time.monotonic()) < end:
            if now >= next_one:
                await asyncio.to_thread(exchange.publish)
                published, is_served = now, False
                next_one += self._args.exchange
            if not is_served and (await raw.get(health)).json()["version"] == exchange.number:
                self._taken_over.append(round(time.monotonic() - published, 1))
                is_served = True
            await asyncio.sleep(0.2)

    async def _watch(self, end: float) -> list[dict]:
        minutes = []
        for number in itertools.count(1):
            left = end - time.monotonic()
            if left <= 0:
                return minutes
            await asyncio.sleep(min(60, left))
            ordered, self._seconds = sorted(self._seconds) or [float("nan")], []
            minutes.append(
                {
                    "minute": number,
                    "requests": len(ordered),
                    "p50_ms": round(1e3 * serve._quantile(ordered, 0.5), 1),
                    "p99_ms": round(1e3 * serve._quantile(ordered, 0.99), 1),
                    "memory_mb": memory_mb(int(self._addresses["pid"])),
                }
            )
        raise AssertionError


def memory_mb(pid: int) -> int:
    """Return the resident memory of a process, as Linux tells it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024
