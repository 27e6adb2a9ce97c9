"""Serve an exported model: REST, gRPC and a page, as TensorFlow Serving speaks them.

    aevnmt serve --export_dir D
    curl -d '{"instances": ["A red house ."]}' http://127.0.0.1:8501/v1/models/aevnmt:predict

For a laptop, a demo, a test; TensorFlow Serving takes the same folder. A new version in D is
loaded beside the old one and then takes over. Ctrl-C finishes the requests under way.
"""

import argparse
import re
import sys
from pathlib import Path

from aevnmt_tf import command, flags, machine


def parser() -> command.Parser:
    """The command line."""
    p = command.Parser("serve", __doc__)
    p.add_argument(
        "--export_dir", required=True, metavar="D", help="folder of versions: D/1, D/2 ..."
    )
    p.add_argument(
        "--model_name", type=_name, default="aevnmt", metavar="NAME", help="default: aevnmt"
    )
    p.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: 127.0.0.1, this machine alone; 0.0.0.0: all)",
    )
    p.add_argument(
        "--port", type=_port, default=8501, metavar="N", help="REST (default: 8501; 0: any)"
    )
    p.add_argument(
        "--grpc_port", type=_port, default=8500, metavar="N", help="default: 8500; 0: any"
    )
    group = p.add_argument_group("batches (default: what the model's own file says)")
    group.add_argument(
        "--max_batch_size", type=flags.positive, metavar="N", help="lines run together"
    )
    group.add_argument(
        "--batch_timeout_ms", type=_milliseconds, metavar="MS", help="wait so long for others"
    )
    group.add_argument(
        "--max_queue", type=flags.positive, metavar="N", help="lines that wait; more get 429"
    )
    group.add_argument(
        "--num_threads",
        type=flags.positive,
        metavar="N",
        help="batches that run at the same time (default: one a core)",
    )
    group = p.add_argument_group("limits")
    for name, default, sentence in (
        ("max_request_bytes", 4 * 2**20, "longer requests get 413"),
        ("max_lines", 256, "lines in a request; more get 400"),
        ("max_line_bytes", 20_000, "bytes of a line; longer ones get 400"),
    ):
        group.add_argument(
            f"--{name}",
            type=_limit,
            default=default,
            metavar="N",
            help=f"{sentence} (default: {default})",
        )
    p.add_argument(
        "--poll_seconds",
        type=flags.above_zero,
        default=1.0,
        metavar="S",
        help="how often to look for a new version (default: 1)",
    )
    return p


_limit = flags.number(int, lambda n: 0 < n < 2**31, "from 1 to 2147483647")
_port = flags.number(int, lambda n: 0 <= n < 2**16, "from 0 to 65535")
_milliseconds = flags.number(float, lambda n: 0 <= n < float("inf"), "0 or more")


def _name(word: str) -> str:
    # What a path of the REST API can hold.
    if not re.fullmatch(r"[\w.-]+", word, re.ASCII):
        raise argparse.ArgumentTypeError(f"must be letters, digits, ., _ and -, not {word!r}")
    return word


def run(args) -> int:
    """Serve until a signal comes; return the exit code."""
    import asyncio
    import signal

    from aevnmt_tf.serving.limits import Limits
    from aevnmt_tf.serving.server import Options, Server

    machine.one_core_an_operation()
    limits = Limits(args.max_request_bytes, args.max_lines, args.max_line_bytes)
    names = "model_name host port grpc_port max_batch_size batch_timeout_ms max_queue".split()
    settings = {name: getattr(args, name) for name in [*names, "num_threads", "poll_seconds"]}
    server = Server(
        Options(export_dir=Path(args.export_dir), limits=limits, **settings), report=_report
    )
    asyncio.run(server.run(ready=_say, handle_signals=True))
    return command.INTERRUPTED if server.signal == signal.SIGINT else 0


def _say(server) -> None:
    options, versions = server.options, server.versions
    with versions.using(options.model_name) as version:
        names = ", ".join(sorted(version.servable.signatures))
    print(f"serving {options.model_name}, version {version.number} of {options.export_dir}")
    print(f"signatures  {names}")
    print(f"page        {server.url}/")
    print(f"REST        {server.url}/v1/models/{options.model_name}:predict")
    print(f"gRPC        {options.host}:{server.grpc_port}", flush=True)


def _report(sentence: str) -> None:
    print(f"aevnmt serve: {sentence}", file=sys.stderr, flush=True)


def main(argv=None) -> int:
    """The command."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
