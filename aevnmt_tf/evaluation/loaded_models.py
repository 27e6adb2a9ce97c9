"""The models of an evaluation: loaded one at a time, and what they translate."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.cli.progress import track
from aevnmt_tf.evaluation.evaluation_request import EvaluationRequest
from aevnmt_tf.evaluation.evaluation_sets import EvaluationSet
from aevnmt_tf.evaluation.translated_sets import Report, System
from aevnmt_tf.storage import line_streams, run_directory

if TYPE_CHECKING:
    from aevnmt_tf.translator import Decoding, Translator


def run_name(path: str) -> str:
    """Return the default name of a run or an ensemble: the names of its directories."""
    return "+".join(Path(os.path.abspath(run)).name for run in path.split(","))


class Models:
    """The models of a request, by name; only the one used last stays in memory.

    Attributes:
        paths: The run of each model, or RUN1,RUN2 for an ensemble.
        hp: Settings of the first model; None without models.
        first_run: Directory of the first model; None without models.
        language: Target language, if it is known.
    """

    def __init__(self, request: EvaluationRequest, paths: dict[str, str]) -> None:
        self.paths, self.language = paths, request.language
        self.hp: hparams.Hparams | None = None
        self.first_run = next((path.split(",")[0] for path in paths.values()), None)
        self._request = request
        self._loaded: tuple[str, tuple[Translator, Decoding]] | None = None
        # Flags for decoding either change settings of the run or fields of its Decoding.
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
        """Return the settings of the first run of a path; check all runs without loading."""
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

    def _rule(self, hp: hparams.Hparams) -> "Decoding":
        from aevnmt_tf import translator

        return translator.Decoding.of(
            hp, given=self._settings, **{**self._options, "n_best": 1}
        )

    def __call__(self, name: str) -> "tuple[Translator, Decoding]":
        """Return the translator and the decision rule of a model."""
        from aevnmt_tf import translator

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
        """Raise a UserError for problems that show only once a model is loaded."""
        if self._request.latent:
            from aevnmt_tf.evaluation import latent_use

            latent_use.check_lines(sum(map(len, sets)))
            for name in self.paths:
                latent_use.check(*self(name))
        # Some models cannot follow some rules, and the members of an ensemble may not match.
        has_rule = not {"search", "z", "num_z"}.isdisjoint(self._request.decoding)
        for name, path in reversed(self.paths.items()):  # the first comes last and stays loaded
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
        translator, rule = self(system.name)
        runs, checkpoint = self.paths[system.name].split(","), self._request.checkpoint
        weights = [run_directory.find_weights(run, checkpoint=checkpoint) for run in runs]
        names = [f"{folder.parent.name}/{folder.name}" for folder in weights]
        system.about = {
            "model": runs if len(runs) > 1 else runs[0],
            "weights": names if len(runs) > 1 else names[0],
            "model_type": translator.hp.model_type,
            "decoding": dataclasses.asdict(rule),
            "seed": self._request.seed,
        }

    def _translations(self, name: str, one: EvaluationSet, report: Report) -> list[str]:
        translator, rule = self(name)
        results = translator.stream(one.sources or [], decoding=rule, seed=self._request.seed)
        lines: list[str] = []
        for result in track(results, f"translating {one.name}", total=len(one), report=report):
            lines.append(result.translations[0].text.translate(line_streams.LINE_BREAKS))
            if result.was_cut and report is not None:
                longest = translator.hp.src_max_len_infer
                report(f"{one.name}, line {len(lines)} is cut to its first {longest} subwords")
        return lines
