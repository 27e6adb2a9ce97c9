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
    """Translate what is to be translated, and score it all.

    All that can be wrong with a system is looked for before the first one translates.
    """
    named = [
        (is_model, _name(is_model, name, path), path)
        for is_model, name, path in request.systems
    ]
    evaluation_sets.unique([name for _, name, _ in named], what="systems", how="NAME=PATH")
    _check_metrics(request)
    models = _Models(request, {name: path for is_model, name, path in named if is_model})
    sets = _sets(request, models)
    programs = Programs(**{**request.programs, "language": models.language})
    programs.check(request.metrics)
    systems = [
        evaluation.System(name, {}) if is_model else _read(request, name, path, sets)
        for is_model, name, path in named
    ]
    models.check_loaded(sets)
    files = _files(request, models.paths, sets, systems)
    if report is not None and not (request.ref or request.sets):
        own = ", ".join(f"{one.source_file} and {one.reference_file}" for one in sets)
        report(f"evaluating on the run's own {own}")
    for system in systems:
        if system.name in models.paths:
            _translate(request, models, system, sets, files[system.name], report)
        evaluation.score(system, sets, names=request.metrics, programs=programs, report=report)
    result = {"systems": [system.result for system in systems]}
    if request.significance:
        result["significance"] = _significance(request, systems, sets, report)
    if request.latent:
        result["latent"] = _latent(request, models(systems[0].name), sets, report)
    return Outcome(result, systems, sets, list(request.metrics))


def _check_metrics(request):
    metrics.check_names(request.metrics, known=evaluation.KNOWN)
    if request.significance and not set(request.metrics) & set(metrics.NAMES):
        raise UserError("--significance is for bleu, chrf and ter: add one to --metrics")


def _name(is_model, name, path):
    if name is None:
        name = evaluation.run_name(path.split(",")) if is_model else Path(path).name
    return evaluation_sets.checked_name(name)


class _Models:
    """The models of a request by name, loaded one at a time: the last one is kept.

    Attributes:
        paths: by name, checked as far as that goes without loading.
        hp: the settings of the first one; None without models.
        language: of the translations, where it is known.
    """

    def __init__(self, request, paths):
        self.paths, self.hp, self.language = paths, None, request.programs.get("language")
        self._request, self._path, self._loaded = request, None, None
        self._options = {"checkpoint": request.checkpoint, "decoding": request.decoding}
        for name, path in paths.items():
            hp = evaluation.settings_of(_runs(path), **self._options)
            self.hp, self.language = self.hp or hp, self.language or hp.tgt
            pair, first = (f"{one.src} to {one.tgt}" for one in (hp, self.hp))
            if pair != first:
                raise UserError(f"{name} translates {pair}, but the first model {first}")

    def __call__(self, name):
        """Return the translator and the decision rule of a model."""
        path = self.paths[name]
        if path != self._path:
            self._loaded = self._path = None  # the memory of the one before
            self._loaded = evaluation.load(_runs(path), **self._options)
            self._path = path
        return self._loaded

    def check_loaded(self, sets):
        """Raise a UserError about what only models that are loaded can tell."""
        if self._request.latent:
            from aevnmt_tf.analysis import latent

            latent.check_lines(sum(map(len, sets)))
            for name in self.paths:
                latent.check(*self(name))
        # Not all models can follow every rule, and members of an ensemble must fit together.
        has_rule = not {"search", "z", "num_z"}.isdisjoint(self._request.decoding)
        for name, path in reversed(self.paths.items()):  # the first, which is kept, comes last
            if has_rule or _runs(path) != path:
                self(name)


def _runs(path):
    runs = path.split(",")
    return runs if len(runs) > 1 else path


def _sets(request, models):
    """The sets to evaluate on."""
    hp, errors = models.hp, request.errors
    if request.ref:
        one = evaluation_sets.from_files(request.ref, src=request.src, errors=errors)
        if models.paths and one.sources is None:
            raise UserError(f"{next(iter(models.paths))} has nothing to translate: give --src")
        return [one]
    if request.sets:
        names = [name or Path(prefix).name for name, prefix in request.sets]
        evaluation_sets.unique(names, what="test sets", how="--test NAME=PREFIX")
        return evaluation_sets.from_prefixes(
            dict(zip(names, (prefix for _, prefix in request.sets), strict=True)),
            src=None if hp is None else hp.src,
            tgt=models.language if hp is None else hp.tgt,
            errors=errors,
        )
    own = next(iter(models.paths.values())).split(",")[0]
    return evaluation_sets.of_run(hp, run=own, errors=errors)


def _files(request, names, sets, systems):
    """Where the translations of models go, by model and set; UserErrors about all outputs."""
    inputs = [file for one in sets for file in (one.source_file, one.reference_file)]
    inputs += [file for system in systems for file in system.files.values()]
    for path in (request.output, *request.reports):
        line_files.refuse_inputs(path, inputs)
    for path in request.reports:
        _check_writable(path)
    if request.output is None:
        return {name: {} for name in names}
    is_folder = Path(request.output).is_dir() or request.output.endswith("/")
    if len(names) == len(sets) == 1 and not is_folder:
        files = {name: {sets[0].name: request.output} for name in names}
    else:
        folder = Path(request.output)
        files = {name: evaluation.set_files(folder / name, sets) for name in names}
    for path in (path for each in files.values() for path in each.values()):
        line_files.refuse_inputs(path, inputs)
        _check_writable(path)
    return files


def _check_writable(path):
    """Raise a UserError where a file cannot be written."""
    folder = Path(path).absolute().parent
    is_folder = os.path.isdir(path) or str(path).endswith("/")
    if is_folder or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise UserError(f"cannot write {path}: it is no file to write to")
    if not os.path.exists(path) and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise UserError(f"cannot write {path}: {folder} is no folder to write in")


def _translate(request, models, system, sets, files, report):
    """Translate all sets with a model; `files` keep what comes of it."""
    translator, rule = models(system.name)
    system.about = evaluation.about_run(
        _runs(models.paths[system.name]),
        translator,
        rule,
        checkpoint=request.checkpoint,
        seed=request.seed,
    )
    for one in sets:
        evaluation.translate_set(
            system, one, translator, rule, seed=request.seed, report=report
        )
        if files:
            evaluation.keep(system, one.name, files[one.name])


def _read(request, name, path, sets):
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


def _latent(request, loaded, sets, report):
    from aevnmt_tf.analysis import latent

    translator, rule = loaded
    return latent.diagnose(
        translator,
        [line for one in sets for line in one.sources],
        [line for one in sets for line in one.references],
        decoding=rule,
        samples=request.samples,
        seed=request.seed,
        report=report,
    )
