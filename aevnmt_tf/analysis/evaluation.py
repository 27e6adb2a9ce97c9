"""Translations of test sets, and their scores by set and for all sets together.

    evaluate_run(run, test_sets, *, metrics=("bleu", "chrf", "ter"), checkpoint=None,
                 decoding=None, seed=1, output=None, name=None, programs=None, report=None)
        -> {"name", "model", "weights", "model_type", "decoding", "seed",
            "sets": {NAME: {"lines", "source", "reference", "translations",
                            "scores": {METRIC: {"score", "signature"}}}},
            "all": {"lines", "scores": {METRIC: {"score", "signature"}}}}

evaluate_run is what programs call; the command and experiments use it. Its result can be
written as JSON. Scores are not rounded. "all" is the concatenation of the sets, also of one.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aevnmt_tf import hparams, run_directory
from aevnmt_tf.analysis import evaluation_sets, external_metrics, metrics
from aevnmt_tf.analysis.evaluation_sets import ALL, EvaluationSet
from aevnmt_tf.analysis.progress import track
from aevnmt_tf.errors import UserError

KNOWN = (*metrics.NAMES, *external_metrics.NAMES)
DEFAULT = metrics.NAMES
LINE_BREAKS = str.maketrans("\n\r\t", "   ")  # a model that writes bytes may write these

Report = Callable[[str], object] | None


@dataclass
class System:
    """The translations of all sets by one system.

    Attributes:
        name: of the system.
        translations: lines by the name of the set.
        about: what the result says of the system.
        files: where the translations are kept, by the name of the set.
        result: the scores, as evaluate_run returns them; see `score`.
        statistics: what the scores were made of, by set and metric.
        sentences: scores of sentences by external programs, by set and metric.
    """

    name: str
    translations: dict[str, list[str]]
    about: dict = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    result: dict = field(default_factory=dict)
    statistics: dict = field(default_factory=dict)
    sentences: dict = field(default_factory=dict)


def evaluate_run(
    run,
    test_sets: Mapping[str, str] | list[EvaluationSet] | None = None,
    *,
    metrics=DEFAULT,
    checkpoint=None,
    decoding: Mapping | None = None,
    seed=1,
    output=None,
    name=None,
    programs: external_metrics.Programs | None = None,
    report: Report = None,
) -> dict:
    """Translate test sets with a run and score the translations.

    Args:
        run: the out_dir of a training run; a list of several: an ensemble.
        test_sets: prefixes by name, for files PREFIX.SRC and PREFIX.TGT with the run's
            languages; or EvaluationSets; None: the run's own test sets, or its dev sets.
        metrics: which of bleu, chrf, ter, meteor and beer.
        checkpoint: "best", "last" or "average"; None: as run_directory.find_weights.
        decoding: changes by name: settings such as beam_width and infer_batch_size, and fields
            of translator.Decoding such as search and z.
        seed: of whatever is drawn.
        output: a folder that keeps the translations, SET.txt for each set.
        name: of the system; None: that of the run's directory.
        programs: where METEOR and BEER are.
        report: called with sentences about the progress; None: quiet.
    """
    translator, rule = load(run, checkpoint=checkpoint, decoding=decoding)
    if test_sets is None:
        sets = evaluation_sets.of_run(translator.hp, run=_listed(run)[0])
    elif isinstance(test_sets, Mapping):
        languages = {"src": translator.hp.src, "tgt": translator.hp.tgt}
        sets = evaluation_sets.from_prefixes(test_sets, **languages)
    else:
        sets = list(test_sets)
    programs = programs or external_metrics.Programs()
    programs = dataclasses.replace(programs, language=programs.language or translator.hp.tgt)
    check_metrics(metrics, programs)
    system = System(name or run_name(run), {})
    system.about = about_run(run, translator, rule, checkpoint=checkpoint, seed=seed)
    paths = set_files(output, sets)
    for one in sets:
        translate_set(system, one, translator, rule, seed=seed, report=report)
        if output is not None:
            keep(system, one.name, paths[one.name])
    return score(system, sets, names=metrics, programs=programs, report=report)


def run_name(run):
    """Return what a run, or several, is called: the name of its directory."""
    return "+".join(Path(os.path.abspath(one)).name for one in _listed(run))


def _listed(run):
    """The runs of an ensemble, or the one run, as a list."""
    return list(run) if isinstance(run, list | tuple) else [run]


def load(run, *, checkpoint=None, decoding=None):
    """Return the translator of a run and how it searches; arguments as in evaluate_run."""
    from aevnmt_tf import translator

    settings, changes = _settings_and_changes(decoding)
    loaded = translator.load(run, checkpoint=checkpoint, **settings)
    rule = _rule(loaded.hp, changes, settings)
    loaded.check(rule)
    return loaded, rule


def settings_of(run, *, checkpoint=None, decoding=None):
    """Return the settings of a run, of an ensemble the first one's, and load nothing.

    Raises the UserErrors of `load` about the runs, their weights and how they would search.
    """
    settings, changes = _settings_and_changes(decoding)
    found = []
    for one in _listed(run):
        found.append(hparams.load(run_directory.settings_file(one), **settings))
        run_directory.find_weights(one, checkpoint=checkpoint)
    _rule(found[0], changes, settings)
    return found[0]


def _settings_and_changes(decoding):
    """`decoding` of evaluate_run as settings of the run and fields of translator.Decoding."""
    changes = {"num_translations_per_input": 1, **(decoding or {})}
    settings = {key: changes.pop(key) for key in list(changes) if key in hparams.SETTINGS}
    return settings, changes


def _rule(hp, changes, settings):
    """How a run with these settings, some of which were given for it, searches."""
    from aevnmt_tf import translator

    fields = {one.name for one in dataclasses.fields(translator.Decoding)}
    for key in changes:
        if key not in fields:
            raise UserError(f"{key} is no setting of decoding")
    return translator.Decoding.of(hp, given=settings, **{**changes, "n_best": 1})


def about_run(run, translator, rule, *, checkpoint, seed):
    """Return what a result says of a run: where it is, its weights, how it was searched."""
    runs = _listed(run)
    weights = [run_directory.find_weights(one, checkpoint=checkpoint) for one in runs]
    names = [f"{folder.parent.name}/{folder.name}" for folder in weights]
    return {
        "model": str(run) if len(runs) == 1 else [str(one) for one in runs],
        "weights": names[0] if len(runs) == 1 else names,
        "model_type": translator.hp.model_type,
        "decoding": dataclasses.asdict(rule),
        "seed": seed,
    }


def translate_set(system, one, translator, rule, *, seed, report=None):
    """Translate a set and put the lines into the system."""
    results = translator.stream(one.sources, decoding=rule, seed=seed)
    lines = []
    for result in track(results, f"translating {one.name}", total=len(one), report=report):
        lines.append(result.translations[0].text.translate(LINE_BREAKS))
        if result.was_cut and report is not None:
            longest = translator.hp.src_max_len_infer
            report(f"{one.name}, line {len(lines)} is cut to its first {longest} subwords")
    system.translations[one.name] = lines


def set_files(output, sets):
    """Return where the translations of each set go in the folder `output`, which is made."""
    if output is None:
        return {}
    try:
        Path(output).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}") from None
    return {one.name: str(Path(output) / f"{one.name}.txt") for one in sets}


def keep(system, set_name, path):
    """Write the translations of a set."""
    from aevnmt_tf.data import line_files

    with line_files.Output(path, source=line_files.STD) as file:
        for line in system.translations[set_name]:
            file.write(line)
    system.files[set_name] = path


def check_metrics(names, programs):
    """Raise a UserError where a metric is not known or cannot be computed."""
    metrics.check_names(names, known=KNOWN)
    programs.check(names)


def score(system, sets, *, names, programs, report=None) -> dict:
    """Score a system's translations and return its result, as evaluate_run does."""
    described = {}
    for one in sets:
        described[one.name] = {
            "lines": len(one),
            "source": one.source_file,
            "reference": one.reference_file,
            "translations": system.files.get(one.name),
            "scores": _score_set(system, one, names=names, programs=programs, report=report),
        }
    together = described[sets[0].name]["scores"]
    if len(sets) > 1:
        together = _score_all(system, sets, names=names, programs=programs, report=report)
    else:
        system.statistics[ALL] = system.statistics[sets[0].name]
    system.result = {
        "name": system.name,
        **system.about,
        "sets": described,
        "all": {"lines": sum(map(len, sets)), "scores": dict(together)},
    }
    return system.result


def _score_set(system, one, *, names, programs, report):
    """The scores of one set by name."""
    lines, scores = system.translations[one.name], {}
    counted = system.statistics.setdefault(one.name, {})
    alone = system.sentences.setdefault(one.name, {})
    for name in names:
        doing = f"scoring {one.name} by {metrics.TITLES[name]}"
        if name in external_metrics.NAMES:
            _say(report, doing)
            found = programs.score(name, lines, one.references)
            alone[name] = found.sentences
            scores[name] = _described(found.score, found.signature)
        else:
            tracked = track(lines, doing, total=len(lines), report=report)
            counted[name] = metrics.statistics(tracked, one.references, name=name)
            scores[name] = _described(*metrics.from_statistics(counted[name], name=name))
    return scores


def _score_all(system, sets, *, names, programs, report):
    """The scores of the concatenation of the sets by name."""
    scores, counted = {}, system.statistics.setdefault(ALL, {})
    for name in names:
        if name in external_metrics.NAMES:
            _say(report, f"scoring all sets by {metrics.TITLES[name]}")
            lines = [line for one in sets for line in system.translations[one.name]]
            references = [line for one in sets for line in one.references]
            found = programs.score(name, lines, references)
            scores[name] = _described(found.score, found.signature)
        else:
            counted[name] = [row for one in sets for row in system.statistics[one.name][name]]
            scores[name] = _described(*metrics.from_statistics(counted[name], name=name))
    return scores


def _say(report, sentence):
    if report is not None:
        report(sentence)


def _described(value, signature):
    return {"score": float(value), "signature": signature}
