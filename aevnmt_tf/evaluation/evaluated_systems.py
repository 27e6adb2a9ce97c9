"""The systems of an evaluation: their translations of the test sets, and their scores.

The result of a system is a dict for JSON with unrounded scores. "all" is the concatenation of
the sets, even if there is only one:

    {"name", "model", "weights", "model_type", "decoding", "seed",
     "sets": {NAME: {"lines", "source", "reference", "translations",
                     "scores": {METRIC: {"score", "signature"}}}},
     "all": {"lines", "scores": {METRIC: {"score", "signature"}}}}
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams, translator
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import track
from aevnmt_tf.evaluation import external_metrics, latent_use, metrics
from aevnmt_tf.evaluation.evaluation_request import EvaluationRequest
from aevnmt_tf.evaluation.evaluation_sets import ALL, EvaluationSet
from aevnmt_tf.storage import line_streams, run_directory
from aevnmt_tf.translator import Decoding

Report = Callable[[str], object]
Scores = dict[str, dict[str, Any]]


@dataclass
class System:
    """A system, its translations and their scores.

    Attributes:
        name: Name of the system.
        translations: Translated lines, by set.
        about: Description of the system for the result.
        files: Files of the translations, by set.
        result: The result for JSON; `SystemScoring` fills it in, and what follows.
        statistics: sacreBLEU's statistics, by set and metric.
        sentences: Sentence scores of external programs, by set and metric.
    """

    name: str
    translations: dict[str, list[str]] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    statistics: dict[str, dict[str, metrics.Rows]] = field(default_factory=dict)
    sentences: dict[str, dict[str, list[float]]] = field(default_factory=dict)


def run_name(path: str) -> str:
    """Return the default name of a run or an ensemble: the names of its directories."""
    return "+".join(Path(os.path.abspath(run)).name for run in path.split(","))


class Models:
    """The models of an evaluation, by name; only the last one that was used is in memory.

    Attributes:
        paths: The run of each model, or RUN1,RUN2 for an ensemble.
        hp: Settings of the first model; None without models.
        first_run: Directory of the first model; None without models.
        language: Target language; None if it is unknown.
    """

    def __init__(self, request: EvaluationRequest, paths: dict[str, str]) -> None:
        self.paths, self.language = paths, request.language
        self.hp: hparams.Hparams | None = None
        self.first_run = next((path.split(",")[0] for path in paths.values()), None)
        self._request = request
        self._loaded: tuple[str, tuple[translator.Translator, Decoding]] | None = None
        # A flag for decoding either changes a setting of the run or a field of its Decoding.
        changes = {"num_translations_per_input": 1, **request.decoding}
        self._settings = {k: v for k, v in changes.items() if k in hparams.SETTINGS}
        self._options = {k: v for k, v in changes.items() if k not in hparams.SETTINGS}
        for name, path in paths.items():
            hp = self._checked_settings(path)
            self.hp, self.language = self.hp or hp, self.language or hp.tgt
            pair, first = (f"{one.src} to {one.tgt}" for one in (hp, self.hp))
            if pair != first:
                raise UserError(
                    f"{name} translates {pair} and the first model {first}: evaluate them "
                    "separately."
                )

    def _checked_settings(self, path: str) -> hparams.Hparams:
        """Return the settings of the first run of a path; check all its runs."""
        found = []
        for run in path.split(","):
            settings_file = run_directory.settings_file(run)
            found.append(hparams.load(settings_file, **self._settings))
            run_directory.find_weights(run, checkpoint=self._request.checkpoint)
            if found[-1].language_model:
                raise UserError(
                    f"{run} has language_model true and translates nothing: score text with "
                    "aevnmt score."
                )
        self._rule(found[0])
        return found[0]

    def _rule(self, hp: hparams.Hparams) -> Decoding:
        return Decoding.of(hp, given=self._settings, **{**self._options, "n_best": 1})

    def __call__(self, name: str) -> "tuple[translator.Translator, Decoding]":
        """Return the translator and the decision rule of a model."""
        path = self.paths[name]
        if self._loaded is None or self._loaded[0] != path:
            self._loaded = None  # frees the memory of the previous model
            runs = tuple(path.split(",")) if "," in path else path
            checkpoint = self._request.checkpoint
            loaded = translator.load(runs, checkpoint=checkpoint, **self._settings)
            rule = self._rule(loaded.hp)
            loaded.check(rule)
            self._loaded = (path, (loaded, rule))
        return self._loaded[1]

    def check_loaded(self, sets: Sequence[EvaluationSet]) -> None:
        """Raise a UserError for problems that become apparent only when models are loaded."""
        if self._request.latent:
            latent_use.check_lines(sum(map(len, sets)))
            for name in self.paths:
                latent_use.check(*self(name))
        # A model may not support a decision rule, and the members of an ensemble may not match.
        has_rule = not {"search", "z", "num_z"}.isdisjoint(self._request.decoding)
        for name, path in reversed(self.paths.items()):  # the first is used next
            if has_rule or "," in path:
                self(name)

    def translate(
        self,
        system: System,
        sets: Sequence[EvaluationSet],
        files: dict[str, str],
        report: Report,
    ) -> None:
        """Translate all sets with a model, and write the translations to `files` if given."""
        self._describe(system)
        for one in sets:
            system.translations[one.name] = self._translations(system.name, one, report)
            if files:
                system.files[one.name] = files[one.name]
                line_streams.write_lines(files[one.name], system.translations[one.name])

    def _describe(self, system: System) -> None:
        """Record the run, its weights and the decision rule in the system."""
        loaded, rule = self(system.name)
        runs, checkpoint = self.paths[system.name].split(","), self._request.checkpoint
        weights = [run_directory.find_weights(run, checkpoint=checkpoint) for run in runs]
        names = [f"{folder.parent.name}/{folder.name}" for folder in weights]
        system.about = {
            "model": runs if len(runs) > 1 else runs[0],
            "weights": names if len(runs) > 1 else names[0],
            "model_type": loaded.hp.model_type,
            "decoding": asdict(rule),
            "seed": self._request.seed,
        }

    def _translations(self, name: str, one: EvaluationSet, report: Report) -> list[str]:
        loaded, rule = self(name)
        results = loaded.stream(one.sources or [], decoding=rule, seed=self._request.seed)
        lines: list[str] = []
        for result in track(results, f"translating {one.name}", total=len(one), report=report):
            lines.append(result.translations[0].text.translate(line_streams.LINE_BREAKS))
            if result.was_cut:
                longest = loaded.hp.src_max_len_infer
                report(f"{one.name}, line {len(lines)} is cut to its first {longest} subwords")
        return lines


@dataclass(frozen=True)
class SystemScoring:
    """Scores systems with the metrics of these names, see external_metrics.KNOWN."""

    names: Sequence[str]
    protocol: metrics.Protocol
    programs: external_metrics.Programs

    @property
    def sacrebleu_names(self) -> list[str]:
        """The metrics that sacreBLEU computes."""
        return [name for name in self.names if name in metrics.NAMES]

    def check(self) -> None:
        """Raise a UserError if a metric cannot be computed."""
        self.protocol.check(self.sacrebleu_names)
        self.programs.check(self.names)

    def __call__(
        self, system: System, sets: Sequence[EvaluationSet], *, report: Report
    ) -> None:
        """Score a system's translations and store the result in it."""
        described = {
            one.name: {
                "lines": len(one),
                "source": one.source_file,
                "reference": one.reference_file,
                "translations": system.files.get(one.name),
                "scores": self._score(system, one, report=report),
            }
            for one in sets
        }
        together: Any = described[sets[0].name]["scores"]
        if len(sets) > 1:
            # The statistics of all sets are those of the single sets.
            system.translations[ALL] = [t for s in sets for t in system.translations[s.name]]
            system.statistics[ALL] = {
                name: [row for one in sets for row in system.statistics[one.name][name]]
                for name in self.sacrebleu_names
            }
            whole = EvaluationSet(ALL, [line for one in sets for line in one.references])
            together = self._score(system, whole, report=report)
        system.result = {
            "name": system.name,
            **system.about,
            "sets": described,
            "all": {"lines": sum(map(len, sets)), "scores": dict(together)},
        }

    def _score(self, system: System, one: EvaluationSet, *, report: Report) -> Scores:
        """Return the scores of one set, by metric."""
        lines, scores = system.translations[one.name], {}
        counted = system.statistics.setdefault(one.name, {})
        how: dict[str, Any] = {"protocol": self.protocol}
        for name in self.names:
            doing = f"computing {metrics.TITLES[name]} on {one.name}"
            if name in external_metrics.NAMES:
                report(doing)
                found = self.programs.score(name, lines, one.references)
                system.sentences.setdefault(one.name, {})[name] = found.sentences
                value, signature = found.score, found.signature
            else:
                if name not in counted:
                    tracked = track(lines, doing, total=len(lines), report=report)
                    counted[name] = metrics.statistics(
                        tracked, one.references, name=name, **how
                    )
                value, signature = metrics.from_statistics(counted[name], name=name, **how)
            scores[name] = {"score": float(value), "signature": signature}
        return scores
