"""Models that are evaluated: loaded one at a time, and what they translate."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    """Return what a run, or an ensemble RUN1,RUN2, is called: the names of its directories."""
    return "+".join(Path(os.path.abspath(one)).name for one in path.split(","))


def load(
    path: str,
    *,
    checkpoint: str | None = None,
    decoding: Mapping[str, Any] | None = None,
) -> "tuple[Translator, Decoding]":
    """Return the translator of a run and how it searches.

    Args:
        path: the out_dir of a training run; RUN1,RUN2: an ensemble.
        checkpoint: "best", "last" or "average"; None: as run_directory.find_weights.
        decoding: changes by name: settings such as beam_width and infer_batch_size, and fields
            of translator.Decoding such as search and z.
    """
    from aevnmt_tf import translator

    settings, changes = _settings_and_changes(decoding)
    runs = tuple(path.split(","))
    loaded = translator.load(runs if len(runs) > 1 else path, checkpoint=checkpoint, **settings)
    rule = _rule(loaded.hp, changes, settings)
    loaded.check(rule)
    return loaded, rule


def settings_of(
    path: str,
    *,
    checkpoint: str | None = None,
    decoding: Mapping[str, Any] | None = None,
) -> hparams.Hparams:
    """Return the settings of a run, of an ensemble the first one's, and load nothing.

    Raises the UserErrors of `load` about the runs, their weights and how they would search.
    """
    settings, changes = _settings_and_changes(decoding)
    found = []
    for one in path.split(","):
        found.append(hparams.load(run_directory.settings_file(one), **settings))
        run_directory.find_weights(one, checkpoint=checkpoint)
    _rule(found[0], changes, settings)
    return found[0]


def _settings_and_changes(
    decoding: Mapping[str, Any] | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `decoding` as settings of the run and as fields of translator.Decoding."""
    changes = {"num_translations_per_input": 1, **(decoding or {})}
    settings = {key: changes.pop(key) for key in list(changes) if key in hparams.SETTINGS}
    return settings, changes


def _rule(
    hp: hparams.Hparams, changes: Mapping[str, Any], settings: Mapping[str, Any]
) -> "Decoding":
    """Return how a run with these settings, some of which were given for it, searches."""
    from aevnmt_tf import translator

    fields = {one.name for one in dataclasses.fields(translator.Decoding)}
    for key in changes:
        if key not in fields:
            raise UserError(f"{key} is no setting of decoding.")
    return translator.Decoding.of(hp, given=settings, **{**changes, "n_best": 1})


def about_run(
    path: str,
    translator: "Translator",
    rule: "Decoding",
    *,
    checkpoint: str | None,
    seed: int,
) -> dict[str, Any]:
    """Return what a result says of a run: where it is, its weights, how it was searched."""
    runs = path.split(",")
    weights = [run_directory.find_weights(one, checkpoint=checkpoint) for one in runs]
    names = [f"{folder.parent.name}/{folder.name}" for folder in weights]
    return {
        "model": runs if len(runs) > 1 else path,
        "weights": names if len(runs) > 1 else names[0],
        "model_type": translator.hp.model_type,
        "decoding": dataclasses.asdict(rule),
        "seed": seed,
    }


def translate_set(
    system: System,
    one: EvaluationSet,
    translator: "Translator",
    rule: "Decoding",
    *,
    seed: int,
    report: Report = None,
) -> None:
    """Translate a set and put the lines into the system."""
    results = translator.stream(one.sources or [], decoding=rule, seed=seed)
    lines: list[str] = []
    for result in track(results, f"translating {one.name}", total=len(one), report=report):
        lines.append(result.translations[0].text.translate(line_streams.LINE_BREAKS))
        if result.was_cut and report is not None:
            longest = translator.hp.src_max_len_infer
            report(f"{one.name}, line {len(lines)} is cut to its first {longest} subwords")
    system.translations[one.name] = lines


class Models:
    """The models of a request by name, loaded one at a time: the last one is kept.

    Attributes:
        paths: by name, checked as far as that goes without loading.
        hp: the settings of the first one; None without models.
        first_run: its directory.
        language: of the translations, where it is known.
    """

    def __init__(self, request: EvaluationRequest, paths: dict[str, str]) -> None:
        self.paths, self.language = paths, request.language
        self.hp: hparams.Hparams | None = None
        self.first_run = next((path.split(",")[0] for path in paths.values()), None)
        self._request = request
        self._kept: tuple[str, tuple[Translator, Decoding]] | None = None
        self._options: dict[str, Any] = {
            "checkpoint": request.checkpoint,
            "decoding": request.decoding,
        }
        for name, path in paths.items():
            hp = settings_of(path, **self._options)
            self.hp, self.language = self.hp or hp, self.language or hp.tgt
            pair, first = (f"{one.src} to {one.tgt}" for one in (hp, self.hp))
            if pair != first:
                raise UserError(f"{name} translates {pair}, but the first model {first}.")

    def __call__(self, name: str) -> "tuple[Translator, Decoding]":
        """Return the translator and the decision rule of a model."""
        path = self.paths[name]
        if self._kept is None or self._kept[0] != path:
            self._kept = None  # the memory of the one before
            self._kept = (path, load(path, **self._options))
        return self._kept[1]

    def check_loaded(self, sets: Sequence[EvaluationSet]) -> None:
        """Raise a UserError about what only models that are loaded can tell."""
        if self._request.latent:
            from aevnmt_tf.evaluation import latent_use

            latent_use.check_lines(sum(map(len, sets)))
            for name in self.paths:
                latent_use.check(*self(name))
        # Not all models can follow every rule, and members of an ensemble must fit together.
        has_rule = not {"search", "z", "num_z"}.isdisjoint(self._request.decoding)
        for name, path in reversed(self.paths.items()):  # the first, which is kept, comes last
            if has_rule or "," in path:
                self(name)

    def translate(
        self,
        system: System,
        sets: Sequence[EvaluationSet],
        files: dict[str, str],
        report: Report,
    ) -> None:
        """Translate all sets with a model; `files` keep what comes of it."""
        path, seed = self.paths[system.name], self._request.seed
        translator, rule = self(system.name)
        system.about = about_run(
            path, translator, rule, checkpoint=self._request.checkpoint, seed=seed
        )
        for one in sets:
            translate_set(system, one, translator, rule, seed=seed, report=report)
            if files:
                system.files[one.name] = files[one.name]
                line_streams.write_lines(files[one.name], system.translations[one.name])
