"""What translate and score do with the lines of a corpus, in this process or in workers.

A job is a small, picklable description of what was asked for. Its output comes in the order of
the lines, and each line of output depends only on its line of input and its number.
"""

import abc
import dataclasses
import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from aevnmt_tf import hparams
from aevnmt_tf.cli import machine
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage import line_streams, run_directory
from aevnmt_tf.translator.corpus_summaries import CorpusScores, UnknownWords
from aevnmt_tf.translator.rules import Decoding

if TYPE_CHECKING:
    from aevnmt_tf.translator.line_translator import Translator
    from aevnmt_tf.translator.scorer import PairScore
    from aevnmt_tf.translator.translated_lines import TranslatedLine, Translation

Summary = UnknownWords | CorpusScores
Say = Callable[[str], object]


class Row(NamedTuple):
    """The output for a line, or for a pair of lines."""

    text: str
    numbers: dict[str, float]  # for the summary
    notes: list[str]  # messages for the user


@dataclasses.dataclass(frozen=True)
class CorpusJob(abc.ABC):
    """What was asked of a run, or of an ensemble of several runs."""

    runs: list[str]
    checkpoint: str | None = None
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)  # of settings

    def settings(self) -> Hparams:
        """Return the settings of the first run, without loading its model."""
        return hparams.load(run_directory.settings_file(self.runs[0]), **self.overrides)

    def load(self) -> "Translator":
        """Load the model; raise a UserError if it cannot do the job."""
        from aevnmt_tf import translator as translators

        runs: Any = self.runs if len(self.runs) > 1 else self.runs[0]
        return translators.load(runs, checkpoint=self.checkpoint, **self.overrides)

    @abc.abstractmethod
    def begin(self, translator: "Translator", write: Say, say: Say) -> None:
        """Write the header of the output, or say a warning, if there is one."""

    @abc.abstractmethod
    def results(self, translator: "Translator", items: Any, **reading: Any) -> Iterator[Any]:
        """Return the results for items; `reading` as in Translator.stream."""

    @abc.abstractmethod
    def row(self, number: int, item: Any, result: Any) -> Row:
        """Return the output for an item, whose number counts from 1."""

    @abc.abstractmethod
    def summary(self, translator: "Translator | None" = None) -> Summary:
        """Return an empty summary; without the translator, one to merge others into."""

    def write(
        self,
        translator: "Translator",
        items: Iterable[Any],
        write: Say,
        *,
        say: Say,
        start: int = 0,
        is_first: bool = True,
        is_ready: Callable[[], bool] = lambda: True,
        seen: Callable[[int, Any], object] = lambda number, result: None,
        flush: Callable[[], object] = lambda: None,
    ) -> Summary:
        """Write the rows of items and return their summary.

        Args:
            translator: The loaded model.
            items: Lines or pairs.
            write: Called with each line of output.
            say: Called with each message.
            start: The number of the first item, from 0.
            is_first: Whether this is the first part of the output, which has the header.
            is_ready: Whether another item can be read without waiting.
            seen: Called with the number of each row, from 1, and its result.
            flush: Called when all items read so far are done.
        """
        if is_first:
            self.begin(translator, write, say)
        summary, waiting = self.summary(translator), deque[Any]()  # for their results

        def read() -> Iterator[Any]:
            for item in items:
                waiting.append(item)
                yield item

        results = self.results(translator, read(), start=start, is_ready=is_ready)
        for number, result in enumerate(results, start + 1):
            row = self.row(number, waiting.popleft(), result)
            for note in row.notes:
                say(note)
            write(row.text)
            summary.add(row.numbers)
            seen(number, result)
            if not waiting:
                flush()
        flush()
        return summary


@dataclasses.dataclass(frozen=True)
class TranslateJob(CorpusJob):
    """Lines to translate; fields as the flags of translate."""

    changes: dict[str, Any] = dataclasses.field(default_factory=dict)  # of the decision rule
    format: str = "text"
    seed: int = 1
    details: bool = False  # whether results have subwords and attention

    def load(self) -> "Translator":
        """Load the model; raise a UserError if it cannot do the job."""
        machine.tune_for_throughput()
        translator = super().load()
        translator.check(self._decoding(translator))
        if translator.hp.language_model:
            raise UserError(
                "this model (language_model true) reads no source: score text with it."
            )
        decoder = translator.model.decoder
        if self.details and decoder is not None and not decoder.has_attention:
            raise UserError(
                '--attention: this model has attention "", so there is nothing to draw.'
            )
        return translator

    def begin(self, translator: "Translator", write: Say, say: Say) -> None:
        """Say a warning about the decision rule, if there is one."""
        if warning := self._decoding(translator).warning(translator.hp):
            say(warning)

    def summary(self, translator: "Translator | None" = None) -> UnknownWords:
        """Return an empty summary."""
        return UnknownWords("" if translator is None else translator.encoder.source_form)

    def results(self, translator: "Translator", items: Any, **reading: Any) -> Iterator[Any]:
        """Return the translations of lines, as TranslatedLine."""
        decoding, details = self._decoding(translator), self.details or self.format == "jsonl"
        return translator.stream(
            items, decoding=decoding, seed=self.seed, details=details, **reading
        )

    def row(self, number: int, item: str, result: "TranslatedLine") -> Row:
        """Return the output for a line."""
        is_jsonl, notes = self.format == "jsonl", []
        if result.was_cut:
            notes.append(f"line {number} is cut to its first {result.num_words} subwords")
        return Row(
            text=_jsonl(number, item, result) if is_jsonl else _text(result),
            numbers={"words": result.num_words, "unknown": result.num_unknown},
            notes=notes,
        )

    def _decoding(self, translator: "Translator") -> Decoding:
        return Decoding.of(translator.hp, given=self.overrides, **self.changes)


@dataclasses.dataclass(frozen=True)
class ScoreJob(CorpusJob):
    """Pairs to score; fields as the flags of score."""

    format: str = "tsv"
    samples: int = 10
    seed: int = 1
    has_target: bool = True  # if not, each sentence is paired with itself

    def load(self) -> "Translator":
        """Load the model; raise a UserError if it needs a target, or has no use for it."""
        translator = super().load()
        needs_target = translator.model.decoder is not None
        # A language model scores the target, which may stand in for the source.
        if needs_target and not self.has_target and not translator.hp.language_model:
            raise UserError(
                "--tgt is missing: only a vae or a language model scores single sentences."
            )
        if self.has_target and not needs_target:
            raise UserError(
                f"{self.runs[0]} is a vae, which scores single sentences: leave --tgt out."
            )
        return translator

    def begin(self, translator: "Translator", write: Say, say: Say) -> None:
        """Write the names of the columns of a TSV file."""
        if self.format == "tsv":
            write("\t".join([*translator.scorer.names, "source_tokens", "target_tokens"]))

    def summary(self, translator: "Translator | None" = None) -> CorpusScores:
        """Return an empty summary."""
        return CorpusScores(samples=self.samples)

    def results(self, translator: "Translator", items: Any, **reading: Any) -> Iterator[Any]:
        """Return the scores of pairs, as PairScore."""
        options = {"samples": self.samples, "seed": self.seed}
        return translator.scorer.stream(items, **options, **reading)

    def row(self, number: int, item: tuple[str, str], result: "PairScore") -> Row:
        """Return the output for a pair."""
        source, target = item
        values: dict[str, float] = {
            **result.values,
            "source_tokens": result.source_tokens,
            "target_tokens": result.target_tokens,
        }
        notes = [
            f"line {number}: the {side} is cut to its first {tokens - 1} subwords"
            for side, was_cut, tokens in (
                ("source", result.source_was_cut, result.source_tokens),
                ("target", result.target_was_cut, result.target_tokens),
            )
            if was_cut
        ]
        if self.format == "tsv":
            return Row("\t".join(map(_cell, values.values())), values, notes)
        head = {"line": number, "source": source, "target": target}
        return Row(_finite(head, values), values, notes)


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
    """Return z for JSON; for an ensemble, a list with one per model."""
    if isinstance(z, tuple):
        return [None if each is None else _rounded(each) for each in z]
    return [round(float(value), 5) for value in z]


def _cell(value: float) -> str:
    return f"{value:.5f}" if isinstance(value, float) else str(value)


def _finite(head: dict[str, Any], row: dict[str, float]) -> str:
    # JSON has no infinity.
    finite = {k: v if math.isfinite(v) else None for k, v in row.items()}
    return json.dumps({**head, **finite}, ensure_ascii=False)
