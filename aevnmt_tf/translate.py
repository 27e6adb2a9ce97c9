"""Translate text, one line for each line.

    aevnmt translate --model RUN < source.txt > translation.txt
    aevnmt translate --model RUN --input source.gz --output out.jsonl --format jsonl --n_best 5
    aevnmt translate --model RUN --search mbr --num_samples 50 --utility bleu < source.txt
    aevnmt translate --model RUN --search refine --refine_steps 3 < source.txt
    aevnmt translate --model RUN1 --model RUN2 --model RUN3 < source.txt        (an ensemble)
    echo "A sentence." | aevnmt translate --model RUN --attention alignment.png

With --n_best N the translations of a line are separated by tabs (text) or in a list (jsonl).
"""

import contextlib
import itertools
import json
import os
import sys
import time

from aevnmt_tf import command, flags, hparams, machine
from aevnmt_tf.data import line_files
from aevnmt_tf.errors import UserError

SECONDS = 10  # between reports of progress where stderr is no terminal
LINE_BREAKS = str.maketrans("\n\r\t", "   ")  # a model that writes bytes may write these


def parser() -> command.Parser:
    """The command line."""
    p = command.Parser("translate", __doc__)
    flags.add_runs(p)
    std = line_files.STD
    p.add_argument("--input", default=std, metavar="FILE", help="plain or .gz; -: stdin")
    p.add_argument("--output", default=std, metavar="FILE", help="plain or .gz; -: stdout")
    p.add_argument("--format", choices=("text", "jsonl"), default="text")
    p.add_argument(
        "--attention",
        metavar="PATH",
        help="draw alignments: of one line to FILE.png, or of each line to a PNG in a folder",
    )
    flags.add_errors(p)
    p.add_argument(
        "--n_best", type=flags.positive, metavar="N", help="translations of each line"
    )
    p.add_argument("--seed", type=flags.seed, default=1, help="of whatever is drawn")
    flags.add_lengths(p)
    p.add_argument(
        "--force_length",
        type=flags.positive,
        metavar="N",
        help="make all translations N subwords long (for benchmarks)",
    )
    flags.add_rules(p)
    hparams.add_flags(p, ["decoding"], file=False)
    return p


def run(args) -> int:
    """Translate and return the exit code."""
    machine.many_sentences()
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(line_files.open_input(args.input))
        is_stdin = args.input == line_files.STD
        reader = line_files.Reader(
            source, name="stdin" if is_stdin else args.input, errors=args.errors
        )
        pictures = Pictures(args.attention)
        lines = pictures.allowed(reader)
        translator, decoding = _load(args)
        # Only now: a command that cannot work must not empty the file.
        pictures.make_room()
        output = stack.enter_context(line_files.Output(args.output, source=args.input))
        progress = Progress()
        results = translator.stream(
            lines,
            decoding=decoding,
            seed=args.seed,
            details=args.format == "jsonl" or args.attention is not None,
            is_ready=reader.is_ready,
        )
        for number, (line, result) in enumerate(reader.beside(results), 1):
            if result.was_cut:
                longest = translator.hp.src_max_len_infer
                progress.say(f"line {number} is cut to its first {longest} subwords")
            output.write(
                _jsonl(number, line, result) if args.format == "jsonl" else _text(result)
            )
            pictures.draw(number, result)
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
    runs = args.model if len(args.model) > 1 else args.model[0]
    loaded = translators.load(runs, checkpoint=args.checkpoint, **overrides)
    names = (
        "search n_best z num_z top_k top_p force_length num_samples utility refine_steps "
        "refine_start"
    )
    given = {name: getattr(args, name) for name in names.split()}
    changes = {name: value for name, value in given.items() if value is not None}
    decoding = translators.Decoding.of(loaded.hp, given=overrides, **changes)
    loaded.check(decoding)
    return loaded, decoding


class Pictures:
    """The alignments of translations as PNG files; nothing where `path` is None.

    FILE.png takes that of a single line; any other path is a folder for those of all lines,
    000001.png and so on.
    """

    def __init__(self, path):
        self._path = path
        self._is_file = path is not None and path.lower().endswith(".png")

    def allowed(self, lines):
        """The lines, if there are not more of them than pictures."""
        if not self._is_file:
            return lines
        first = list(itertools.islice(lines, 2))
        if len(first) > 1:
            raise UserError(
                f"--attention {self._path} takes the alignment of one line, and there is more: "
                "give a folder"
            )
        return first

    def make_room(self):
        """Make the folder."""
        if self._path is not None and not self._is_file:
            with _writing(self._path):
                os.makedirs(self._path, exist_ok=True)

    def draw(self, number, result):
        """Draw the alignment of the chosen translation of line `number`, if it has words."""
        best = result.translations[0]
        if self._path is None or not best.target_pieces:
            return
        from aevnmt_tf.analysis import plots

        image = plots.attention(
            best.attention, source=result.source_pieces, target=best.target_pieces
        )
        path = self._path
        if not self._is_file:
            path = os.path.join(path, f"{number:06d}.png")
        with _writing(path):
            plots.save(image, path)


@contextlib.contextmanager
def _writing(path):
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None


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
    if best.z is not None:
        row["z"] = _rounded(best.z)
    return json.dumps(row, ensure_ascii=False)


def _described(translation):
    return {
        "translation": translation.text,
        "score": translation.score,
        "log_prob": translation.log_prob,
    }


def _rounded(z):
    """z as JSON has it; of an ensemble one for each model."""
    if isinstance(z, tuple):
        return [None if each is None else _rounded(each) for each in z]
    return [round(float(value), 5) for value in z]


def main(argv=None) -> int:
    """`aevnmt translate`."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
