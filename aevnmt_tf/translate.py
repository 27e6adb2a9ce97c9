"""Translate text, one line for each line.

    aevnmt translate --model RUN < source.txt > translation.txt
    aevnmt translate --model RUN --input source.gz --output out.jsonl --format jsonl --n_best 5

With --n_best N the translations of a line are separated by tabs (text) or in a list (jsonl).
"""

import collections
import contextlib
import gzip
import json
import os
import sys
import time
import zlib

from aevnmt_tf import command, hparams
from aevnmt_tf.errors import UserError

STD = "-"
BOM = b"\xef\xbb\xbf"
SECONDS = 10  # between reports of progress where stderr is no terminal
LINE_BREAKS = str.maketrans("\n\r\t", "   ")  # a model that writes bytes may write these


def parser() -> command.Parser:
    """The command line."""
    p = command.Parser("translate", __doc__)
    p.add_argument("--model", required=True, metavar="RUN", help="out_dir of a training run")
    p.add_argument("--checkpoint", choices=("best", "last", "average"), help="default: best")
    p.add_argument("--input", default=STD, metavar="FILE", help="plain or .gz; -: stdin")
    p.add_argument("--output", default=STD, metavar="FILE", help="plain or .gz; -: stdout")
    p.add_argument("--format", choices=("text", "jsonl"), default="text")
    p.add_argument(
        "--errors",
        choices=("strict", "replace"),
        default="strict",
        help="what to do about invalid UTF-8: stop at it, or replace it",
    )
    p.add_argument("--search", choices=("beam", "greedy", "sample"), help="default: the run's")
    p.add_argument("--n_best", type=_positive, metavar="N", help="translations of each line")
    p.add_argument("--z", choices=("mean", "sample", "zero"), default="mean")
    p.add_argument(
        "--num_z",
        type=_positive,
        default=1,
        metavar="K",
        help="with --z sample: draws for each line, whose translations compete",
    )
    p.add_argument("--seed", type=int, default=1, help="of --z sample and --search sample")
    p.add_argument("--top_k", type=_positive, metavar="K", help="sample among the K best words")
    p.add_argument("--top_p", type=_share, metavar="P", help="sample among the top P of mass")
    p.add_argument("--src_max_len_infer", type=_positive, metavar="N", help="cut longer lines")
    p.add_argument("--tgt_max_len_infer", type=_positive, metavar="N", help="longest output")
    p.add_argument(
        "--force_length",
        type=_positive,
        metavar="N",
        help="make all translations N subwords long (for benchmarks)",
    )
    hparams.add_flags(p, ["decoding"], file=False)
    return p


def _positive(word):
    number = int(word)
    if number < 1:
        raise ValueError
    return number


def _share(word):
    number = float(word)
    if not 0 < number <= 1:
        raise ValueError
    return number


def run(args) -> int:
    """Translate and return the exit code."""
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(_open_input(args.input))
        translator, decoding = _load(args)
        # Only now: a command that cannot work must not empty the file.
        output = stack.enter_context(Output(args.output, source=args.input))
        reader = Reader(
            source, name="stdin" if args.input == STD else args.input, errors=args.errors
        )
        progress = Progress()
        results = translator.stream(
            reader,
            decoding=decoding,
            seed=args.seed,
            details=args.format == "jsonl",
            window=1 if args.input == STD and sys.stdin.isatty() else None,
        )
        for number, (line, result) in enumerate(reader.beside(results), 1):
            if result.was_cut:
                longest = translator.hp.src_max_len_infer
                progress.say(f"line {number} is cut to its first {longest} subwords")
            row = _jsonl(number, line, result) if args.format == "jsonl" else _text(result)
            output.write(row)
            progress.move(number)
            if not reader.waiting:  # this window is done
                output.flush()
        output.flush()
        progress.end()
        if reader.problem:
            raise UserError(reader.problem)
    return 0


def _load(args):
    from aevnmt_tf import translator as translators

    overrides = hparams.overrides(args)
    for name in ("src_max_len_infer", "tgt_max_len_infer"):
        if getattr(args, name) is not None:
            overrides[name] = getattr(args, name)
    loaded = translators.load(args.model, checkpoint=args.checkpoint, **overrides)
    changes = {name: getattr(args, name) for name in ("z", "num_z", "force_length")}
    for name in ("search", "n_best", "top_k", "top_p"):
        if getattr(args, name) is not None:
            changes[name] = getattr(args, name)
    return loaded, translators.Decoding.of(loaded.hp, **changes)


class Reader:
    r"""The lines of a binary stream, split at \n alone.

    Reading ends before a line that is not UTF-8, and `problem` says so: what came before it
    is translated first. Lines wait in `waiting` until their results come.
    """

    def __init__(self, stream, *, name, errors="strict"):
        self.problem = None
        self.waiting = collections.deque()
        self._stream, self._name, self._errors = stream, name, errors

    def __iter__(self):
        try:
            for number, line in enumerate(self._stream, 1):
                if number == 1:
                    line = line.removeprefix(BOM)
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                try:
                    decoded = line.decode("utf-8", errors=self._errors)
                except UnicodeDecodeError as error:
                    self.problem = (
                        f"{self._name}, line {number}: byte 0x{line[error.start]:02x} is not "
                        "valid UTF-8; --errors replace goes on"
                    )
                    return
                self.waiting.append(decoded)
                yield decoded
        except (OSError, EOFError, zlib.error) as error:
            self.problem = f"cannot read {self._name}: {error}"

    def beside(self, results):
        """Pairs of a line and its result."""
        for result in results:
            yield self.waiting.popleft(), result


class Progress:
    """How many lines are done, on stderr."""

    def __init__(self):
        self._start = self._last = time.monotonic()
        self._count = 0
        self._is_terminal = sys.stderr.isatty()

    def say(self, sentence):
        """One line about one thing."""
        self._clear()
        print(f"aevnmt translate: {sentence}", file=sys.stderr, flush=True)

    def move(self, count):
        """`count` lines are done."""
        self._count = count
        now = time.monotonic()
        if now - self._last >= (0.5 if self._is_terminal else SECONDS):
            self._last = now
            end = "\r" if self._is_terminal else "\n"
            print(f"aevnmt translate: {self._sentence()}", end=end, file=sys.stderr, flush=True)

    def end(self):
        """All lines are done."""
        self.say(self._sentence())

    def _sentence(self):
        seconds = max(time.monotonic() - self._start, 1e-9)
        lines = "1 line" if self._count == 1 else f"{self._count} lines"
        return f"{lines} in {seconds:.1f} s ({self._count / seconds:.1f} lines/s)"

    def _clear(self):
        if self._is_terminal:
            print("\x1b[2K", end="\r", file=sys.stderr)


def _text(result):
    return "\t".join(t.text.translate(LINE_BREAKS) for t in result.translations)


def _jsonl(number, line, result):
    best, *_ = result.translations
    row = {"line": number, "source": line, **_described(best)}
    if len(result.translations) > 1:
        row["n_best"] = [_described(t) for t in result.translations]
    row["source_pieces"] = result.source_pieces
    row["target_pieces"] = best.target_pieces
    row["attention"] = [[round(float(a), 4) for a in weights] for weights in best.attention]
    if result.z is not None:
        row["z"] = [round(float(value), 5) for value in result.z]
    return json.dumps(row, ensure_ascii=False)


def _described(translation):
    return {
        "translation": translation.text,
        "score": translation.score,
        "log_prob": translation.log_prob,
    }


def _open_input(path):
    if path == STD:
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        stream = gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")
        stream.peek(1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {path}: {reason}") from None
    return stream


class Output:
    """Where lines go: a file, plain or .gz, or stdout."""

    def __init__(self, path, *, source):
        self._name = "stdout" if path == STD else path
        self._is_file = path != STD
        with self._sentences():
            if self._is_file and source != STD and os.path.exists(path):
                if os.path.samefile(path, source):
                    raise UserError(f"{path} is the input as well: give another --output")
            opener = gzip.open if path.endswith(".gz") else open
            self._stream = opener(path, "wb") if self._is_file else sys.stdout.buffer

    def write(self, line):
        """Write a line at once, so that an interruption leaves no half of it."""
        with self._sentences():
            self._stream.write(f"{line}\n".encode())

    def flush(self):
        """Show what has been written."""
        with self._sentences():
            self._stream.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self._sentences():
            if self._is_file:
                self._stream.close()

    @contextlib.contextmanager
    def _sentences(self):
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            if not self._is_file:  # or Python tries and fails again when it ends
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise UserError(f"cannot write {self._name}: {error.strerror}") from None


def main(argv=None) -> int:
    """`aevnmt translate`."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
