#!/usr/bin/env python3
"""Asks a server for translations: `python -m aevnmt_tf.serve` or TensorFlow Serving.

    serve_client.py "A sentence." "Another one."
    serve_client.py --grpc 127.0.0.1:8500 --signature nbest --format json < source.txt

Sentences are arguments, or the lines of --input, or of stdin. Each gives one line of text:

    serving_default   the translation
    nbest, sample     translations, separated by tabs
    score             takes lines of SOURCE, tab, TARGET; a table with a header
    attention         a table: pieces of the source above, of the translation on the left
    embed             the means of z, separated by tabs

--format json gives one JSON object a line, with everything that the server said. What is wrong
is one sentence on stderr, with exit code 2.
"""

import argparse
import contextlib
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn, TextIO

from serve_transports import Busy, ClientError, Columns, Grpc, Refused, Rest, patiently

SIGNATURES = ("serving_default", "nbest", "sample", "mbr", "score", "attention", "embed")
REST = "http://127.0.0.1:8501"
LARGEST_SEED = 2**31 - 1
LOWEST = -3.4e38


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        """A bad command line is an error as any other."""
        raise ClientError(f"{message} (see --help)")


def parser() -> Parser:
    """The command line."""
    p = Parser(
        "serve_client.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument("sentences", nargs="*", metavar="SENTENCE")
    server = p.add_mutually_exclusive_group()
    server.add_argument("--rest", metavar="URL", help=f"default: {REST}")
    server.add_argument("--grpc", metavar="HOST:PORT", help="such as 127.0.0.1:8500")
    p.add_argument("--model_name", default="aevnmt", metavar="NAME")
    p.add_argument("--version", type=_positive, metavar="N", help="default: the newest")
    p.add_argument("--signature", choices=SIGNATURES, default="serving_default")
    p.add_argument("--input", metavar="FILE", help="one sentence a line; -: stdin")
    p.add_argument(
        "--seed",
        type=_seed,
        default=1,
        metavar="S",
        help="of --signature sample, mbr: the n-th line is drawn with S + n - 1 (default: 1)",
    )
    p.add_argument("--format", choices=("text", "json"), default="text")
    p.add_argument(
        "--batch_size", type=_positive, default=16, metavar="N", help="lines in a request"
    )
    p.add_argument(
        "--timeout", type=_seconds, default=60.0, metavar="S", help="seconds for a request"
    )
    p.add_argument(
        "--retries",
        type=_count,
        default=8,
        metavar="N",
        help="how often to ask again when the server's queue is full (default: 8)",
    )
    return p


def _positive(word: str) -> int:
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {word}")
    return number


def _count(word: str) -> int:
    number = int(word)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be 0 or more, not {word}")
    return number


def _seed(word: str) -> int:
    number = int(word)
    if not 0 <= number <= LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"must be from 0 to {LARGEST_SEED}, not {word}")
    return number


def _seconds(word: str) -> float:
    number = float(word)
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, not {word}")
    return number


def run(args: argparse.Namespace) -> None:
    """Asks for each batch of lines and prints the answers in their order."""
    if args.sentences and args.input:
        raise ClientError("give either sentences or --input, not both (see --help)")
    try:
        "".join(args.sentences).encode()
    except UnicodeEncodeError:
        raise ClientError("the sentences are not valid UTF-8") from None
    options = {"model": args.model_name, "version": args.version, "timeout": args.timeout}
    with contextlib.ExitStack() as stack:
        kind = (Grpc, args.grpc) if args.grpc else (Rest, args.rest or REST)
        server: Any = stack.enter_context(contextlib.closing(kind[0](kind[1], **options)))
        lines = iter(args.sentences or stack.enter_context(_input(args.input)))
        show = Json() if args.format == "json" else Text(args.signature)
        first = 0
        while batch := list(itertools.islice(_lines(lines), args.batch_size)):
            inputs = _inputs(args, batch, first=first)
            for text in show.lines(inputs, ask(server, args, inputs)):
                print(text)
            sys.stdout.flush()
            first += len(batch)


@contextlib.contextmanager
def _input(path: str | None) -> Iterator[Iterable[str]]:
    """The lines of a file, or of stdin."""
    if path in (None, "-"):
        sys.stdin.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        yield sys.stdin
        return
    try:
        file: TextIO = open(path, encoding="utf-8", newline="\n")  # type: ignore[arg-type]
    except OSError as error:
        raise ClientError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        yield file


def _lines(lines: Iterable[str]) -> Iterator[str]:
    try:
        for line in lines:
            yield line.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise ClientError(f"the input is not valid UTF-8 ({error.reason})") from None


def _inputs(args: argparse.Namespace, batch: list[str], *, first: int) -> Columns:
    if args.signature == "score":
        pairs = [line.split("\t") for line in batch]
        for number, pair in enumerate(pairs, first + 1):
            if len(pair) != 2:
                raise ClientError(f"line {number} is not SOURCE, tab, TARGET")
        sources, targets = zip(*pairs, strict=True)
        return {"source": list(sources), "target": list(targets)}
    if args.signature in ("sample", "mbr"):
        numbers = range(args.seed + first, args.seed + first + len(batch))
        return {"source": batch, "seed": [number % (LARGEST_SEED + 1) for number in numbers]}
    return {"source": batch}


def ask(server: Any, args: argparse.Namespace, inputs: Columns) -> Columns:
    """The server's outputs, or the reason why there are none."""
    try:
        return patiently(lambda: server.predict(args.signature, inputs), retries=args.retries)
    except Refused as refused:
        message = str(refused)
    model = f'"{args.model_name}"' + (f" of version {args.version}" if args.version else "")
    try:
        names = server.signatures()
    except (Refused, Busy) as error:
        raise ClientError(f"there is no model {model} at {server.where}: {error}") from None
    if args.signature not in names:
        known = ", ".join(name for name in names if not name.startswith("__"))
        raise ClientError(f"model {model} has no signature {args.signature}; it has {known}")
    raise ClientError(f"the server refused the request: {message}")


class Json:
    """One object per sentence."""

    def lines(self, inputs: Columns, outputs: Columns) -> Iterator[str]:
        """A batch as JSON."""
        columns = {**inputs, **outputs}
        for row in zip(*columns.values(), strict=True):
            yield json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False)


class Text:
    """What a person or a pipe wants of a signature."""

    def __init__(self, signature: str):
        self._show = getattr(self, f"_{signature}")
        self._begun = False

    def lines(self, inputs: Columns, outputs: Columns) -> Iterator[str]:
        """A batch as text."""
        yield from self._show(outputs)
        self._begun = True

    def _serving_default(self, outputs: Columns) -> Iterator[str]:
        yield from map(_one_line, outputs["translation"])

    _mbr = _serving_default

    def _nbest(self, outputs: Columns) -> Iterator[str]:
        for texts, scores in zip(outputs["translations"], outputs["scores"], strict=True):
            # The lowest float32 as a score marks the end of the translations.
            yield _tabbed(
                text
                for text, score in zip(texts, scores, strict=True)
                if score is not None and score > LOWEST
            )

    def _sample(self, outputs: Columns) -> Iterator[str]:
        yield from map(_tabbed, outputs["translations"])

    def _score(self, outputs: Columns) -> Iterator[str]:
        order = ("elbo", "log_px", "log_py", "kl", "iw_log_pxy", "iw_log_px")
        names = [name for name in order if name in outputs]
        if not self._begun:
            yield "\t".join(names)
        for row in zip(*(outputs[name] for name in names), strict=True):
            yield "\t".join(f"{value:.6g}" for value in row)

    def _attention(self, outputs: Columns) -> Iterator[str]:
        columns = outputs["source_pieces"], outputs["target_pieces"], outputs["attention"]
        for number, (source, target, weights) in enumerate(zip(*columns, strict=True)):
            if self._begun or number:
                yield ""
            source, target = _unpadded(source), _unpadded(target)
            yield "\t".join(["", *source])
            for piece, row in zip(target, weights, strict=False):
                yield "\t".join([piece, *(f"{weight:.3f}" for weight in row[: len(source)])])

    def _embed(self, outputs: Columns) -> Iterator[str]:
        for loc in outputs["loc"]:
            yield "\t".join(f"{value:.6g}" for value in loc)


def _tabbed(texts: Iterable[str]) -> str:
    return "\t".join(_one_line(text).replace("\t", " ") for text in texts)


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


def _unpadded(pieces: list[str]) -> list[str]:
    end = len(pieces)
    while end and not pieces[end - 1]:
        end -= 1
    return pieces[:end]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    try:
        run(parser().parse_args(argv))
        return 0
    except ClientError as error:
        print(f"serve_client: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("serve_client: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe. Python would report it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.exit(main())
