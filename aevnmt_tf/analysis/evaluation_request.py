"""One evaluation from beginning to end: systems and sets to results; what the command does."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from aevnmt_tf.analysis import evaluation, evaluation_report, evaluation_sets, metrics
from aevnmt_tf.analysis.evaluation_sets import ALL
from aevnmt_tf.analysis.external_metrics import Programs
from aevnmt_tf.data import line_files
from aevnmt_tf.errors import UserError


@dataclass
class Request:
    """What is wanted.

    Attributes:
        systems: (is a model, name or None, path) for each; a model's path may be several runs
            with commas between them.
        sets: (name or None, prefix) of the test sets.
        src, ref: the files of the one set, in place of `sets`.
        metrics: names.
        checkpoint, decoding, seed: as in evaluation.evaluate_run.
        errors: "strict", or "replace" for bytes that are not UTF-8.
        output: where translations are kept: a file for one model and one set, else a folder.
        reports: other files that the caller will write.
        programs: the fields of external_metrics.Programs.
        significance: None, "bootstrap" or "ar".
        resamples: how many; None: sacreBLEU's own numbers.
        latent: whether to look at z, with so many `samples`.
    """

    systems: list
    sets: list = field(default_factory=list)
    src: str | None = None
    ref: str | None = None
    metrics: list = field(default_factory=lambda: list(evaluation.DEFAULT))
    checkpoint: str | None = None
    decoding: dict = field(default_factory=dict)
    seed: int = 1
    errors: str = "strict"
    output: str | None = None
    reports: list = field(default_factory=list)
    programs: dict = field(default_factory=dict)
    significance: str | None = None
    resamples: int | None = None
    latent: bool = False
    samples: int = 10


@dataclass
class Outcome:
    """What came of it; `result` can be written as JSON."""

    result: dict
    systems: list
    sets: list
    names: list

    def show(self, file=None):
        """Print tables."""
        results = self.result["systems"]
        evaluation_report.show_scores(results, names=self.names, file=file)
        if "significance" in self.result:
            evaluation_report.show_significance(self.result["significance"], file=file)
        if "latent" in self.result:
            evaluation_report.show_latent(self.result["latent"], file=file)

    def write_sentences(self, path):
        """Write the scores of each sentence as TSV."""
        lines = evaluation_report.sentence_table(self.systems, self.sets, names=self.names)
        with line_files.Output(path, source=line_files.STD) as file:
            for line in lines:
                file.write(line)

    def write_plot(self, path):
        """Write the picture of z as PNG."""
        from aevnmt_tf.analysis import latent_plot, plots

        try:
            plots.save(latent_plot.draw(self.result["latent"]), path)
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror or error}") from None


def run(request: Request, *, report=None) -> Outcome:
    """Translate what is to be translated, and score it all."""
    named = [
        (is_model, _name(is_model, name, path), path)
        for is_model, name, path in request.systems
    ]
    evaluation_sets.unique([name for _, name, _ in named], what="systems", how="NAME=PATH")
    metrics.check_names(request.metrics, known=evaluation.KNOWN)
    loaded = _Models(request)
    sets = _sets(request, loaded, [path for is_model, _, path in named if is_model], report)
    _protect(sets, [request.output, *request.reports])
    programs = Programs(**{**request.programs, "language": loaded.language})
    programs.check(request.metrics)
    systems = []
    for is_model, name, path in named:
        make = _translated if is_model else _read
        system = make(request, loaded, name, path, sets, report)
        evaluation.score(system, sets, names=request.metrics, programs=programs, report=report)
        systems.append(system)
    result = {"systems": [system.result for system in systems]}
    if request.significance:
        result["significance"] = _significance(request, systems, sets, report)
    if request.latent:
        result["latent"] = _latent(request, loaded, named[0][2], sets, report)
    return Outcome(result, systems, sets, list(request.metrics))


def _name(is_model, name, path):
    if name is None:
        name = evaluation.run_name(path.split(",")) if is_model else Path(path).name
    return evaluation_sets.checked_name(name)


class _Models:
    """The models of a request, loaded one at a time: the last one is kept."""

    def __init__(self, request):
        self._request, self._path, self._loaded, self._pair = request, None, None, None
        self.language = request.programs.get("language")

    def __call__(self, path):
        """Return the translator and the decision rule of a path."""
        if path != self._path:
            options = {
                "checkpoint": self._request.checkpoint,
                "decoding": self._request.decoding,
            }
            self._loaded = None  # the memory of the one before
            self._loaded = evaluation.load(_runs(path), **options)
            self._path = path
        return self._loaded

    def check_languages(self, name, hp):
        """Raise a UserError where a model translates other languages than those before it."""
        pair = f"{hp.src} to {hp.tgt}"
        self._pair = self._pair or pair
        if pair != self._pair:
            raise UserError(f"{name} translates {pair}, but the first model {self._pair}")


def _runs(path):
    runs = path.split(",")
    return runs if len(runs) > 1 else path


def _sets(request, loaded, models, report):
    """The sets to evaluate on; the target language becomes known on the way."""
    hp = None
    if models:
        translator, rule = loaded(models[0])
        hp = translator.hp
        loaded.language = loaded.language or hp.tgt
        if request.latent:
            from aevnmt_tf.analysis import latent

            latent.check(translator, rule)
    if request.ref:
        return [evaluation_sets.from_files(request.ref, src=request.src, errors=request.errors)]
    if request.sets:
        names = [name or Path(prefix).name for name, prefix in request.sets]
        evaluation_sets.unique(names, what="test sets", how="--test NAME=PREFIX")
        return evaluation_sets.from_prefixes(
            dict(zip(names, (prefix for _, prefix in request.sets), strict=True)),
            src=None if hp is None else hp.src,
            tgt=loaded.language if hp is None else hp.tgt,
            errors=request.errors,
        )
    own = models[0].split(",")[0]
    sets = evaluation_sets.of_run(hp, run=own, errors=request.errors)
    if report is not None:
        files = ", ".join(f"{one.source_file} and {one.reference_file}" for one in sets)
        report(f"evaluating on the run's own {files}")
    return sets


def _protect(sets, paths):
    """Raise a UserError where a path that is to be written is a file of a set."""
    files = [file for one in sets for file in (one.source_file, one.reference_file)]
    for path in paths:
        line_files.refuse_inputs(path, files)


def _translated(request, loaded, name, path, sets, report):
    """The system that is a model."""
    translator, rule = loaded(path)
    loaded.check_languages(name, translator.hp)
    system = evaluation.System(name, {})
    system.about = evaluation.about_run(
        _runs(path), translator, rule, checkpoint=request.checkpoint, seed=request.seed
    )
    files = _files(request, name, sets)
    _protect(sets, files.values())
    for one in sets:
        if one.sources is None:
            raise UserError(f"{name} has nothing to translate: give --src")
        evaluation.translate_set(
            system, one, translator, rule, seed=request.seed, report=report
        )
        if files:
            evaluation.keep(system, one.name, files[one.name])
    return system


def _files(request, name, sets):
    """Where the translations of a model go, by the name of the set."""
    if request.output is None:
        return {}
    models = [one for one in request.systems if one[0]]
    if len(models) == len(sets) == 1 and not Path(request.output).is_dir():
        folder = Path(request.output).absolute().parent
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise UserError(f"cannot write {request.output}: {folder} is no folder to write in")
        return {sets[0].name: request.output}
    return evaluation.set_files(Path(request.output) / name, sets)


def _read(request, loaded, name, path, sets, report):
    """The system that is a file of translations, or a folder of them."""
    system = evaluation.System(name, {}, about={"hypotheses": path})
    if len(sets) > 1 and not Path(path).is_dir():
        raise UserError(f"{path} is no folder: with several sets it must have SET.txt for each")
    for one in sets:
        file = path
        if Path(path).is_dir():
            file = evaluation_sets.find(str(Path(path) / f"{one.name}.txt"))
        lines = evaluation_sets.read_lines(file, errors=request.errors)
        evaluation_sets.check_counts(file, len(lines), one.reference_file, len(one))
        system.translations[one.name], system.files[one.name] = lines, str(file)
    return system


def _significance(request, systems, sets, report):
    from aevnmt_tf.analysis import significance

    names = [name for name in request.metrics if name in metrics.NAMES]
    if not names:
        raise UserError("--significance is for bleu, chrf and ter: add one to --metrics")
    tested = {}
    for set_name in [*(one.name for one in sets), *([ALL] if len(sets) > 1 else [])]:
        tested[set_name] = {}
        for name in names:
            if report is not None:
                report(f"testing {set_name} by {metrics.TITLES[name]}")
            tested[set_name][name] = significance.paired(
                [(system.name, system.statistics[set_name][name]) for system in systems],
                name=name,
                kind=request.significance,
                resamples=request.resamples,
            )
    return {"kind": request.significance, "baseline": systems[0].name, "sets": tested}


def _latent(request, loaded, path, sets, report):
    from aevnmt_tf.analysis import latent

    translator, rule = loaded(path)
    return latent.diagnose(
        translator,
        [line for one in sets for line in one.sources],
        [line for one in sets for line in one.references],
        decoding=rule,
        samples=request.samples,
        seed=request.seed,
        report=report,
    )
