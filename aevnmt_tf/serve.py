"""Serve an exported model over REST and gRPC, with a web page.

    aevnmt serve --export_dir D
    curl -d '{"instances": ["A red house ."]}' http://127.0.0.1:8501/v1/models/aevnmt:predict

The protocols are those of TensorFlow Serving, which reads the same folder. Use this server on a
laptop, for a demo or in a test. A new version in D is loaded while the old one serves, and then
replaces it. Ctrl-C finishes the requests in progress and stops.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aevnmt_tf.cli import command, machine, settings
from aevnmt_tf.serving.server_options import ServerOptions

if TYPE_CHECKING:
    from aevnmt_tf.serving.server import Server


def parser() -> command.Parser:
    """Return the command line."""
    p = command.Parser("serve", __doc__)
    p.add_argument(
        "--export_dir", required=True, metavar="D", help="folder of versions: D/1, D/2 ..."
    )
    settings.add_flags(p, ServerOptions)
    return p


def run(args: argparse.Namespace) -> int:
    """Serve until a signal; return the exit code."""
    options = ServerOptions(Path(args.export_dir), **settings.given(args, ServerOptions))
    machine.one_thread_per_operation()

    import asyncio
    import signal

    from aevnmt_tf.serving.server import Server

    server = Server(options, report=_report)
    asyncio.run(server.run(ready=_say, handle_signals=True))
    return command.INTERRUPTED if server.signal == signal.SIGINT else 0


def _say(server: "Server") -> None:
    options, versions = server.options, server.versions
    with versions.using(options.model_name) as version:
        names = ", ".join(sorted(version.servable.signatures))
        text = version.servable.text
    print(f"serving {options.model_name}, version {version.number} of {options.export_dir}")
    for name, side in (("takes", "source"), ("gives", "target")):
        if form := text.get(side):
            print(f"{name}       {form['lang']}: {form['note']}")
    print(f"signatures  {names}")
    print(f"page        {server.url}/")
    print(f"REST        {server.url}/v1/models/{options.model_name}:predict")
    print(f"gRPC        {options.host}:{server.grpc_port}", flush=True)


def _report(message: str) -> None:
    print(f"aevnmt serve: {message}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return command.main(run, parser=parser(), argv=argv, keep_memory=False)


if __name__ == "__main__":
    sys.exit(main())
