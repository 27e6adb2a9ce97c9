"""One evaluation from beginning to end: what `aevnmt evaluate` does."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import (
    evaluated_systems,
    evaluation_report,
    evaluation_sets,
    latent_use,
    metrics,
    significance,
)
from aevnmt_tf.evaluation.evaluated_systems import Models, Report, System, SystemScoring
from aevnmt_tf.evaluation.evaluation_request import EvaluationRequest
from aevnmt_tf.evaluation.evaluation_sets import ALL, EvaluationSet, Subwords
from aevnmt_tf.storage import disk_errors, line_streams
from aevnmt_tf.storage.text_files import find_file

Files = dict[str, dict[str, str]]  # by system and set


def run(request: EvaluationRequest, *, report: Report) -> dict[str, Any]:
    """Translate, score, write the requested files, and return the result for JSON.

    All systems and files are checked before the first sentence is translated. `report` is
    called with progress messages.
    """
    request.check()
    named = [(system[0], _name(*system), system[2]) for system in request.systems]
    names = [name for _, name, _ in named]
    evaluation_sets.check_unique(names, what="systems", how="NAME=PATH")
    models = Models(request, {name: path for is_model, name, path in named if is_model})
    joiner = Subwords(models.hp, models.first_run, report=report)
    sets = [joiner.undone(one) for one in _sets(request, models)]
    scoring = SystemScoring(
        request.metrics,
        metrics.Protocol(request.options, models.language),
        replace(request.programs, language=models.language),
    )
    scoring.check()
    systems = [
        System(name) if is_model else _read(request, name, path, sets, joiner)
        for is_model, name, path in named
    ]
    models.check_loaded(sets)
    files = _files(request, list(models.paths), sets, systems)
    if not (request.ref or request.sets):
        own = ", ".join(f"{one.source_file} and {one.reference_file}" for one in sets)
        report(f"evaluating on the run's own files: {own}")
    for system in systems:
        if system.name in models.paths:
            models.translate(system, sets, files.get(system.name, {}), report)
        scoring(system, sets, report=report)
    result: dict[str, Any] = {"systems": [system.result for system in systems]}
    if request.significance:
        result["significance"] = _significance(request, systems, sets, scoring, report)
    if request.latent:
        result["latent"] = _latent(request, models, sets, report)
    if request.sentences:
        rows = evaluation_report.sentence_table(systems, sets, scoring=scoring)
        line_streams.write_lines(request.sentences, rows)
    if request.plot:
        from aevnmt_tf.plots import figures, latent_plot

        figures.save(latent_plot.draw(result["latent"]), request.plot)
    return result


def _name(is_model: bool, name: str | None, path: str) -> str:
    if name is None:
        name = evaluated_systems.run_name(path) if is_model else Path(path).name
    return evaluation_sets.checked_name(name)


def _sets(request: EvaluationRequest, models: Models) -> list[EvaluationSet]:
    """Return the test sets that the flags name, or else the run's own."""
    errors = request.errors
    if request.ref:
        return [evaluation_sets.from_files(request.ref, src=request.src, errors=errors)]
    named = [(name or Path(prefix).name, prefix) for name, prefix in request.sets]
    evaluation_sets.check_unique(
        [name for name, _ in named], what="test sets", how="--test NAME=PREFIX"
    )
    if models.hp is None:
        return [
            evaluation_sets.from_prefix(
                prefix, src=None, tgt=str(models.language), name=name, errors=errors
            )
            for name, prefix in named
        ]
    if named:
        return evaluation_sets.for_run(models.hp, named, errors=errors)
    return evaluation_sets.of_run(models.hp, run=str(models.first_run), errors=errors)


def _read(
    request: EvaluationRequest,
    name: str,
    path: str,
    sets: Sequence[EvaluationSet],
    joiner: Subwords,
) -> System:
    """Return a system whose translations are in a file, or in a folder with a file per set."""
    system, is_folder = System(name, about={"hypotheses": path}), Path(path).is_dir()
    if len(sets) > 1 and not is_folder:
        raise UserError(
            f"{path} is not a folder: for several test sets, give a folder with a SET.txt each."
        )
    for one in sets:
        file = str(find_file(Path(path) / f"{one.name}.txt")) if is_folder else path
        lines = evaluation_sets.read_lines(file, errors=request.errors)
        evaluation_sets.check_counts(file, len(lines), one.reference_file, len(one))
        system.translations[one.name] = joiner.joined(lines, file)
        system.files[one.name] = file
    return system


def _files(
    request: EvaluationRequest,
    names: Sequence[str],
    sets: Sequence[EvaluationSet],
    systems: Sequence[System],
) -> Files:
    """Return the files for the translations, by model and set; check all output files."""
    inputs = [file for one in sets for file in (one.source_file, one.reference_file)]
    inputs += [file for system in systems for file in system.files.values()]
    for path in filter(None, (request.sentences, request.plot)):
        _check_writable(path, inputs)
    if request.output is None:
        return {}
    folder = Path(request.output)
    is_folder = folder.is_dir() or request.output.endswith("/")
    if len(names) == len(sets) == 1 and not is_folder:
        files = {names[0]: {sets[0].name: request.output}}
    else:
        files = {
            name: {one.name: str(folder / name / f"{one.name}.txt") for one in sets}
            for name in names
        }
        for name in names:
            with disk_errors.explained(f"write {folder / name}"):
                (folder / name).mkdir(parents=True, exist_ok=True)
    for path in (path for each in files.values() for path in each.values()):
        _check_writable(path, inputs)
    return files


def _check_writable(path: str, inputs: Sequence[str | None]) -> None:
    line_streams.refuse_inputs(path, inputs)
    folder = Path(path).absolute().parent
    is_folder = os.path.isdir(path) or path.endswith("/")
    if is_folder or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise UserError(f"cannot write {path}: it is a folder or read-only.")
    if not os.path.exists(path) and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise UserError(f"cannot write {path}: {folder} does not exist or is read-only.")


def _significance(
    request: EvaluationRequest,
    systems: Sequence[System],
    sets: Sequence[EvaluationSet],
    scoring: SystemScoring,
    report: Report,
) -> dict[str, Any]:
    tested: dict[str, Any] = {}
    for set_name in [*(one.name for one in sets), *([ALL] if len(sets) > 1 else [])]:
        tested[set_name] = {}
        for name in scoring.sacrebleu_names:
            report(f"testing {metrics.TITLES[name]} on {set_name}")
            tested[set_name][name] = significance.paired(
                [(system.name, system.statistics[set_name][name]) for system in systems],
                name=name,
                kind=str(request.significance),
                resamples=request.resamples,
                protocol=scoring.protocol,
            )
    return {"kind": request.significance, "baseline": systems[0].name, "sets": tested}


def _latent(
    request: EvaluationRequest, models: Models, sets: Sequence[EvaluationSet], report: Report
) -> dict[str, Any]:
    (name,) = models.paths
    translator, rule = models(name)
    sources, targets, references = (
        [line for one in sets for line in getattr(one, side)]
        for side in ("sources", "targets", "references")
    )
    return latent_use.diagnose(
        translator,
        sources,
        targets,
        references=references,
        decoding=rule,
        samples=request.samples or 10,
        seed=request.seed,
        report=report,
    )
