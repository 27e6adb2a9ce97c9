"""What translate and score do with the lines of a corpus, in this process or in workers.

A job is a small, picklable description of what was asked for. Its output comes in the order of
the lines, and each line of output depends only on its line of input and its number.
"""

import abc
import dataclasses
import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from aevnmt_tf import hparams
from aevnmt_tf.cli import machine
from aevnmt_tf.cli.errors import UserError
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
    """What was asked of a model; the fields are those of the subclasses."""

    @abc.abstractmethod
    def batch_size(self) -> int:
        """Return the number of lines per batch, without loading the model."""

    @abc.abstractmethod
    def model_files(self) -> list[Path]:
        """Return the files that tell this model from others."""

    @abc.abstractmethod
    def load(self) -> Any:
        """Load the model; raise a UserError if it cannot do the job."""

    @abc.abstractmethod
    def begin(self, model: Any, write: Say, say: Say) -> None:
        """Write the header of the output, or say a warning, if there is one."""

    @abc.abstractmethod
    def results(self, model: Any, items: Any, **reading: Any) -> Iterator[Any]:
        """Return the results for items; `reading` as in Translator.stream."""

    @abc.abstractmethod
    def row(self, number: int, item: Any, result: Any) -> Row:
        """Return the output for an item, whose number counts from 1."""

    @abc.abstractmethod
    def summary(self, model: Any = None) -> Summary:
        """Return an empty summary; without the model, one to merge others into."""

    def write(
        self,
        model: Any,
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
            model: What `load` has returned.
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
            self.begin(model, write, say)
        summary, waiting = self.summary(model), deque[Any]()  # for their results

        def read() -> Iterator[Any]:
            for item in items:
                waiting.append(item)
                yield item

        results = self.results(model, read(), start=start, is_ready=is_ready)
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
class RunJob(CorpusJob):
    """What was asked of a run, or of an ensemble of several runs."""

    runs: list[str]
    checkpoint: str | None = None
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)  # of settings

    def batch_size(self) -> int:
        """Return the infer_batch_size of the first run."""
        settings = run_directory.settings_file(self.runs[0])
        return hparams.load(settings, **self.overrides).infer_batch_size

    def model_files(self) -> list[Path]:
        """Return the manifests of the weights."""
        weights = [run_directory.find_weights(r, checkpoint=self.checkpoint) for r in self.runs]
        return [folder / run_directory.MANIFEST for folder in weights]

    def load(self) -> "Translator":
        """Load the model; raise a UserError if it cannot do the job."""
        from aevnmt_tf import translator as translators

        runs: Any = self.runs if len(self.runs) > 1 else self.runs[0]
        return translators.load(runs, checkpoint=self.checkpoint, **self.overrides)


@dataclasses.dataclass(frozen=True)
class TranslateJob(RunJob):
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

    def begin(self, model: "Translator", write: Say, say: Say) -> None:
        """Say a warning about the decision rule, if there is one."""
        if warning := self._decoding(model).warning(model.hp):
            say(warning)

    def summary(self, model: "Translator | None" = None) -> UnknownWords:
        """Return an empty summary."""
        return UnknownWords("" if model is None else model.encoder.source_form)

    def results(self, model: "Translator", items: Any, **reading: Any) -> Iterator[Any]:
        """Return the translations of lines, as TranslatedLine."""
        decoding, details = self._decoding(model), self.details or self.format == "jsonl"
        return model.stream(
            items, decoding=decoding, seed=self.seed, details=details, **reading
        )

    def row(self, number: int, item: str, result: "TranslatedLine") -> Row:
        """Return the output for a line."""
        is_jsonl, notes = self.format == "jsonl", []
        texts = [translation.text for translation in result.translations]
        if result.was_cut:
            notes.append(f"line {number} is cut to its first {result.num_words} subwords")
        return Row(
            text=_jsonl(number, item, result) if is_jsonl else plain_text(texts),
            numbers={"words": result.num_words, "unknown": result.num_unknown},
            notes=notes,
        )

    def _decoding(self, translator: "Translator") -> Decoding:
        return Decoding.of(translator.hp, given=self.overrides, **self.changes)


@dataclasses.dataclass(frozen=True)
class ScoreJob(RunJob):
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

    def begin(self, model: "Translator", write: Say, say: Say) -> None:
        """Write the names of the columns of a TSV file."""
        if self.format == "tsv":
            write("\t".join([*model.scorer.names, "source_tokens", "target_tokens"]))

    def summary(self, model: "Translator | None" = None) -> CorpusScores:
        """Return an empty summary."""
        return CorpusScores(samples=self.samples)

    def results(self, model: "Translator", items: Any, **reading: Any) -> Iterator[Any]:
        """Return the scores of pairs, as PairScore."""
        options = {"samples": self.samples, "seed": self.seed}
        return model.scorer.stream(items, **options, **reading)

    def row(self, number: int, item: tuple[str, str], result: "PairScore") -> Row:
        """Return the output for a pair."""
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
        return Row(score_text(self.format, number, item, values), values, notes)


def plain_text(translations: Iterable[str]) -> str:
    """Return the translations of a line as one line, separated by tabs."""
    return "\t".join(text.translate(line_streams.LINE_BREAKS) for text in translations)


def score_text(
    form: str, number: int, pair: tuple[str, str], values: Mapping[str, float]
) -> str:
    """Return the scores of a pair as a line of "tsv" or "jsonl"."""
    if form == "tsv":
        return "\t".join(map(_cell, values.values()))
    # JSON has no infinity.
    finite = {k: v if math.isfinite(v) else None for k, v in values.items()}
    head = {"line": number, "source": pair[0], "target": pair[1]}
    return json.dumps({**head, **finite}, ensure_ascii=False)


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
