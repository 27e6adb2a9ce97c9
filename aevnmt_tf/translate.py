"""Translate text line by line.

    aevnmt translate --model RUN < source.txt > translation.txt
    aevnmt translate --model RUN --input source.gz --output out.jsonl --format jsonl --n_best 5
    aevnmt translate --model RUN --search mbr --num_samples 50 --utility bleu < source.txt
    aevnmt translate --model RUN --search refine --refine_steps 3 < source.txt
    aevnmt translate --model RUN1 --model RUN2 --model RUN3 < source.txt        (an ensemble)
    echo "A sentence." | aevnmt translate --model RUN --attention alignment.png

With --n_best N, the translations of a line are separated by tabs (text) or form a list (jsonl).
"""

import argparse
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

from aevnmt_tf import hparams
from aevnmt_tf.cli import command, flags, machine
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import LineRate
from aevnmt_tf.plots.alignment_files import AlignmentFiles
from aevnmt_tf.storage import line_streams
from aevnmt_tf.translator import rules
from aevnmt_tf.translator.unknown_words import UnknownWords

if TYPE_CHECKING:
    from aevnmt_tf.translator import Decoding, TranslatedLine, Translation, Translator


def parser() -> command.Parser:
    """Return the command line."""
    p = command.Parser("translate", __doc__)
    flags.add_runs(p)
    std = line_streams.STD
    p.add_argument(
        "--input",
        default=std,
        metavar="FILE",
        help="source text, plain or .gz (default: stdin)",
    )
    p.add_argument(
        "--output",
        default=std,
        metavar="FILE",
        help="translations, plain or .gz (default: stdout)",
    )
    p.add_argument("--format", choices=("text", "jsonl"), default="text")
    p.add_argument(
        "--attention",
        metavar="PATH",
        help="draw alignments: FILE.png for a single line, or a folder for one PNG per line",
    )
    p.add_argument(
        "--lines",
        type=flags.line_numbers,
        metavar="N,...",
        help="translate these lines of the input alone, counted from 0",
    )
    flags.add_errors(p)
    p.add_argument("--seed", type=flags.seed, default=1, help="random seed (default: 1)")
    flags.add_lengths(p)
    rules.add_flags(p, ("n_best", "force_length", *rules.FLAGS))
    hparams.add_flags(p, ["decoding"], file=False)
    return p


def run(args: argparse.Namespace) -> int:
    """Translate and return the exit code."""
    machine.tune_for_throughput()
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(line_streams.open_input(args.input))
        is_stdin = args.input == line_streams.STD
        reader = line_streams.Reader(
            source,
            name="stdin" if is_stdin else args.input,
            errors=args.errors,
            only=args.lines,
        )
        pictures = AlignmentFiles(args.attention)
        lines = pictures.allowed(reader)
        translator, decoding = _load(args)
        # Only now: a command that cannot work must not empty the file.
        pictures.make_folder()
        output = stack.enter_context(line_streams.Output(args.output, source=args.input))
        rate, unknown = LineRate("aevnmt translate"), UnknownWords()
        if is_stdin and sys.stdin.isatty():
            rate.say("type sentences, one per line; Ctrl-D ends the input")
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
                rate.say(f"line {number} is cut to its first {longest} subwords")
            output.write(
                _jsonl(number, line, result) if args.format == "jsonl" else _text(result)
            )
            best = result.translations[0]
            pictures.draw(
                number, best.attention, source=result.source_pieces, target=best.target_pieces
            )
            unknown.add(result)
            rate.move(number)
            if not reader.waiting:  # this window is done
                output.flush()
        output.flush()
        rate.end()
        if sentence := unknown.sentence(translator.encoder.source_form):
            rate.say(sentence)
        if reader.problem:
            raise UserError(reader.problem)
    return 0


def _load(args: argparse.Namespace) -> "tuple[Translator, Decoding]":
    from aevnmt_tf import translator as translators

    overrides = hparams.overrides(args)
    for name in ("src_max_len_infer", "tgt_max_len_infer"):
        if getattr(args, name) is not None:
            overrides[name] = getattr(args, name)
    runs = args.model if len(args.model) > 1 else args.model[0]
    loaded = translators.load(runs, checkpoint=args.checkpoint, **overrides)
    changes = rules.given(args, ("n_best", "force_length", *rules.FLAGS))
    decoding = translators.Decoding.of(loaded.hp, given=overrides, **changes)
    loaded.check(decoding)
    if loaded.hp.language_model:
        raise UserError("this model (language_model true) reads no source: score text with it.")
    decoder = loaded.graph.model.decoder
    if args.attention is not None and decoder is not None and not decoder.has_attention:
        raise UserError(
            '--attention: this model has attention "", so there is nothing to draw.'
        )
    return loaded, decoding


def _text(result: "TranslatedLine") -> str:
    return "\t".join(t.text.translate(line_streams.LINE_BREAKS) for t in result.translations)


def _jsonl(number: int, line: str, result: "TranslatedLine") -> str:
    best, *_ = result.translations
    row = {"line": number, "source": line, **_described(best)}
    if len(result.translations) > 1:
        row["n_best"] = [_described(t) for t in result.translations]
    row["source_pieces"] = result.source_pieces
    row["target_pieces"] = best.target_pieces
    attention: Any = [] if best.attention is None else best.attention
    row["attention"] = [[round(float(a), 4) for a in weights] for weights in attention]
    if best.z is not None:
        row["z"] = _rounded(best.z)
    return json.dumps(row, ensure_ascii=False)


def _described(translation: "Translation") -> dict[str, Any]:
    return {
        "translation": translation.text,
        "score": translation.score,
        "log_prob": translation.log_prob,
    }


def _rounded(z: Any) -> list[Any]:
    """Return z as JSON has it; of an ensemble one for each model."""
    if isinstance(z, tuple):
        return [None if each is None else _rounded(each) for each in z]
    return [round(float(value), 5) for value in z]


def main(argv: list[str] | None = None) -> int:
    """Run `aevnmt translate`."""
    return command.main(run, parser=parser(), argv=argv)


if __name__ == "__main__":
    sys.exit(main())
