"""What translate and score do with the lines of a corpus, in this process or in others.

A job is what was asked for: small, so that it can be sent to a worker. `load` makes it ready.
Rows come in the order of the lines, and a row depends on its line and its number alone.
"""

import abc
import dataclasses
import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from aevnmt_tf import hparams
from aevnmt_tf.cli import machine
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage import line_streams, run_directory
from aevnmt_tf.translator.corpus_scores import CorpusScores
from aevnmt_tf.translator.rules import Decoding
from aevnmt_tf.translator.unknown_words import UnknownWords

if TYPE_CHECKING:
    from aevnmt_tf.translator.line_translator import Translator
    from aevnmt_tf.translator.scorer import PairScore
    from aevnmt_tf.translator.translated_lines import TranslatedLine, Translation

Item = TypeVar("Item")
Summary = UnknownWords | CorpusScores


class Row(NamedTuple):
    """What became of a line, or of a pair of lines."""

    text: str  # a line of output
    numbers: dict[str, float]  # for the summary
    notes: list[str]  # for whoever watches
    ends_window: bool  # whether all that was read is done
    result: Any = None  # of translate: the TranslatedLine


class LoadedJob(Protocol):
    """A job with its model."""

    header: str | None  # the first line of output, before those of the rows
    warning: str

    def rows(
        self, items: Iterable[Any], *, start: int = 0, is_ready: Callable[[], bool] = ...
    ) -> Iterator[Row]:
        """Return the rows of items, the first of which is number `start` (from 0)."""

    def summary(self) -> Summary:
        """Return an empty summary of rows."""


@dataclasses.dataclass(frozen=True)
class CorpusJob(abc.ABC):
    """What was asked of a run, or of an ensemble of several."""

    runs: list[str]
    checkpoint: str | None = None
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)  # of settings

    def settings(self) -> Hparams:
        """Return the settings of the first run, without its model."""
        return hparams.load(run_directory.settings_file(self.runs[0]), **self.overrides)

    @abc.abstractmethod
    def load(self) -> LoadedJob:
        """Load the model."""

    def _translator(self) -> "Translator":
        from aevnmt_tf import translator as translators

        runs: Any = self.runs if len(self.runs) > 1 else self.runs[0]
        return translators.load(runs, checkpoint=self.checkpoint, **self.overrides)


@dataclasses.dataclass(frozen=True)
class TranslateJob(CorpusJob):
    """Lines to translate; options as in translate's flags of these names."""

    changes: dict[str, Any] = dataclasses.field(default_factory=dict)  # of the decision rule
    format: str = "text"
    seed: int = 1
    details: bool = False  # rows have pieces and attention

    def load(self) -> LoadedJob:
        """Load the model."""
        machine.tune_for_throughput()
        return LoadedTranslate(self, self._translator())


class LoadedTranslate:
    """Lines become translations."""

    header: str | None = None

    def __init__(self, job: TranslateJob, translator: "Translator") -> None:
        self.translator = translator
        self._job = job
        self._decoding = Decoding.of(translator.hp, given=job.overrides, **job.changes)
        translator.check(self._decoding)
        if translator.hp.language_model:
            raise UserError(
                "this model (language_model true) reads no source: score text with it."
            )
        decoder = translator.model.decoder
        if job.details and decoder is not None and not decoder.has_attention:
            raise UserError(
                '--attention: this model has attention "", so there is nothing to draw.'
            )
        self.warning = self._decoding.warning(translator.hp)

    def summary(self) -> UnknownWords:
        """Return an empty summary of rows."""
        return UnknownWords(self.translator.encoder.source_form)

    def rows(
        self,
        items: Iterable[str],
        *,
        start: int = 0,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> Iterator[Row]:
        """Return the rows of lines, the first of which is number `start` (from 0)."""
        lines = _Beside(items)
        is_jsonl = self._job.format == "jsonl"
        results = self.translator.stream(
            lines,
            decoding=self._decoding,
            seed=self._job.seed,
            details=is_jsonl or self._job.details,
            is_ready=is_ready,
            start=start,
        )
        longest = self.translator.hp.src_max_len_infer
        for number, result in enumerate(results, start + 1):
            line = lines.waiting.popleft()
            notes = [f"line {number} is cut to its first {longest} subwords"]
            yield Row(
                text=_jsonl(number, line, result) if is_jsonl else _text(result),
                numbers={"words": result.num_words, "unknown": result.num_unknown},
                notes=notes if result.was_cut else [],
                ends_window=not lines.waiting,
                result=result,
            )


@dataclasses.dataclass(frozen=True)
class ScoreJob(CorpusJob):
    """Pairs to score; options as in score's flags of these names."""

    format: str = "tsv"
    samples: int = 10
    seed: int = 1
    has_target: bool = True  # pairs, and not a sentence with itself

    def load(self) -> LoadedJob:
        """Load the model."""
        return LoadedScore(self, self._translator())


class LoadedScore:
    """Pairs become scores."""

    warning = ""

    def __init__(self, job: ScoreJob, translator: "Translator") -> None:
        needs_target = translator.model.decoder is not None
        # A language model scores the target, which may stand in for the source.
        if needs_target and not job.has_target and not translator.hp.language_model:
            raise UserError(
                "--tgt is missing: only a vae and a language model score sentences alone."
            )
        if job.has_target and not needs_target:
            raise UserError(
                f"{job.runs[0]} is a vae, which scores sentences alone: leave --tgt out."
            )
        self._job, self._scorer = job, translator.scorer
        self._names = self._scorer.names
        columns = [*self._names, "source_tokens", "target_tokens"]
        self.header = "\t".join(columns) if job.format == "tsv" else None

    def summary(self) -> CorpusScores:
        """Return an empty summary of rows."""
        return CorpusScores(self._names, samples=self._job.samples)

    def rows(
        self,
        items: Iterable[tuple[str, str]],
        *,
        start: int = 0,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> Iterator[Row]:
        """Return the rows of pairs, the first of which is number `start` (from 0)."""
        del is_ready  # pairs come from files
        pairs, job = _Beside(items), self._job
        scores = self._scorer.stream(pairs, samples=job.samples, seed=job.seed, start=start)
        for number, score in enumerate(scores, start + 1):
            source, target = pairs.waiting.popleft()
            values: dict[str, float] = {name: score.values[name] for name in self._names}
            for side in ("source_tokens", "target_tokens"):
                values[side] = getattr(score, side)
            head = {"line": number, "source": source, "target": target}
            cells = "\t".join(map(_cell, values.values()))
            yield Row(
                text=cells if job.format == "tsv" else _finite(head, values),
                numbers=values,
                notes=list(_cuts(number, score)),
                ends_window=not pairs.waiting,
            )


class _Beside(Iterable[Item]):
    """Items that wait until their results come."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = items
        self.waiting: deque[Item] = deque()

    def __iter__(self) -> Iterator[Item]:
        for item in self._items:
            self.waiting.append(item)
            yield item


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


def _cuts(number: int, score: "PairScore") -> Iterator[str]:
    for side, was_cut in (("source", score.source_was_cut), ("target", score.target_was_cut)):
        if was_cut:
            length = getattr(score, f"{side}_tokens") - 1
            yield f"line {number}: the {side} is cut to its first {length} subwords"


def _cell(value: float) -> str:
    return f"{value:.5f}" if isinstance(value, float) else str(value)


def _finite(head: dict[str, Any], row: dict[str, float]) -> str:
    # JSON has no infinity.
    finite = {k: v if math.isfinite(v) else None for k, v in row.items()}
    return json.dumps({**head, **finite}, ensure_ascii=False)
