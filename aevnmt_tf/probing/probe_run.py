"""One probe from beginning to end: sentences, task, features, results."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from aevnmt_tf import translator as translators
from aevnmt_tf.cli import progress
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import metrics
from aevnmt_tf.evaluation.external_metrics import Programs
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.probing import comparison, features, hmc_chains, probe_data, probe_task
from aevnmt_tf.probing.comparison import ProbeResult
from aevnmt_tf.probing.probe_data import ProbeSentences, ProbeSet
from aevnmt_tf.probing.probe_report import ProbeReport
from aevnmt_tf.probing.probe_request import ProbeRequest
from aevnmt_tf.probing.probe_task import ProbeTask
from aevnmt_tf.text import subwords
from aevnmt_tf.translator import Decoding, Translator

Report = Callable[[str], object]


def run(request: ProbeRequest, *, report: Report) -> ProbeReport:
    """Probe z and the baselines, and write the requested files; report the progress."""
    started = time.monotonic()
    translator = translators.load(request.model, checkpoint=request.checkpoint)
    features.check_has_z(translator, request.model)
    baseline = _load_baseline(request, translator) if request.baseline_model else None
    sentences = read_sentences(request, translator.hp)
    task = make_task(request, translator, sentences)
    _say_task(sentences, task, report)
    origin = features.z_origin(translator)
    report(f"z comes from {origin}")
    results, z = [], None
    for found in all_features(request, translator, baseline, sentences):
        z = z or found  # the first is z
        results.append(_learn(found, task, request, report))
    assert z is not None
    results.append(comparison.without_features(task, seed=request.seed))
    seconds = time.monotonic() - started
    outcome = ProbeReport(request, sentences, task, z, origin, results, seconds)
    outcome.write()
    return outcome


def _load_baseline(request: ProbeRequest, translator: Translator) -> Translator:
    baseline = translators.load(str(request.baseline_model), checkpoint=request.checkpoint)
    if baseline.hp.src != translator.hp.src:
        raise UserError(
            f"{request.baseline_model} reads {baseline.hp.src} and {request.model} reads "
            f"{translator.hp.src}: give a baseline with the same source language."
        )
    return baseline


def _say_task(sentences: ProbeSentences, task: ProbeTask, report: Report) -> None:
    words = f"{len(sentences)} sentences, {len(task.train)} for training and "
    words += f"{len(task.test)} held out"
    counts = task.counts()
    if counts is not None:
        parts = (f"{name} {sum(n.values())}" for name, n in counts.items())
        words += f" ({', '.join(parts)})"
    if sentences.left_out:
        words += f"; {sentences.left_out} empty lines skipped"
    report(words)


def _learn(
    found: features.Features, task: ProbeTask, request: ProbeRequest, report: Report
) -> ProbeResult:
    options = hmc_chains.SamplerOptions(
        request.chains,
        request.num_warmup,
        request.num_draws,
        request.seed,
        track=lambda segments: progress.track(segments, f"sampling, {found.name}"),
    )
    result = comparison.learn(found, task, options=options, prior_scale=request.prior_scale)
    if result.posterior is not None:
        seconds = f"{result.posterior.draws.seconds:.1f} s"
        r_hat = f"R-hat {result.posterior.diagnostics.r_hat:.3f}"
        report(f"{found.name}, {result.dimensions} dimensions: {r_hat}, {seconds}")
    for warning in result.warnings:
        report(f"warning: {warning}")
    return result


def read_sentences(request: ProbeRequest, hp: Hparams) -> ProbeSentences:
    """Read the sentences in the source language, and their labels, numbers or references."""
    sets = [ProbeSet.parse(word) for word in request.data]
    beside: list[dict[str, str]] = [{} for _ in sets]
    if request.labels:
        beside = [{"label": path} for path in request.labels]
    elif request.target_is_file:
        beside = [{"number": str(request.target)}]
    elif request.is_quality:
        _programs(request, hp).check([str(request.target)])
        lang = hp.src if request.is_back else hp.tgt
        beside = [{"reference": f"{one.prefix}.{lang}"} for one in sets]
        if request.is_back:
            sets = [one.back_translated(hp.src) for one in sets]
    return probe_data.read(
        sets, lang=hp.src, beside=beside, max_lines=request.max_lines, seed=request.seed
    )


def _programs(request: ProbeRequest, hp: Hparams) -> Programs:
    language = hp.src if request.is_back else hp.tgt
    java = request.java or "java"
    return Programs(meteor_jar=request.meteor_jar, java=java, language=language)


def make_task(
    request: ProbeRequest, translator: Translator, sentences: ProbeSentences
) -> ProbeTask:
    """Return the task that the request asks for."""
    texts, target = sentences.texts, request.target
    split = {"share": request.held_out, "seed": request.seed, "origins": sentences.origins}
    if target is None:
        labels = sentences.columns.get("label", sentences.sets)
        return probe_task.class_task(texts, labels, **split)
    if target == "length":
        numbers = features.lengths(translator, texts)
    elif request.is_quality:
        numbers = quality(request, translator, sentences)
    else:
        target, numbers = os.path.basename(target), sentences.columns["number"]
    return probe_task.number_task(texts, numbers, name=target, **split)


def quality(
    request: ProbeRequest, translator: Translator, sentences: ProbeSentences
) -> list[float]:
    """Return the score of each translation, or of each sentence if it is one itself."""
    texts = sentences.texts
    if not request.is_back:
        changes: dict[str, Any] = {} if request.search is None else {"search": request.search}
        decoding = Decoding.of(translator.hp, n_best=1, **changes)
        results = translator.stream(texts, decoding=decoding, seed=request.seed)
        tracked = progress.track(results, "translating", total=len(texts))
        texts = [result.translations[0].text for result in tracked]
    references = sentences.columns["reference"]
    # Files may be in subwords, translations are not.
    option = translator.hp.subword_option
    texts, references = (subwords.join(side, option) for side in (texts, references))
    if request.target == "meteor":
        return _programs(request, translator.hp).score("meteor", texts, references).sentences
    return metrics.sentence_scores(texts, references, name=str(request.target))


def all_features(
    request: ProbeRequest,
    translator: Translator,
    baseline: Translator | None,
    sentences: ProbeSentences,
) -> Iterator[features.Features]:
    """Yield the kinds of features: z, encoder states of a baseline, random numbers."""
    texts, seed = sentences.texts, request.seed
    yield from features.z_features(translator, texts, kind=request.features, seed=seed)
    if baseline is not None:
        name = f"encoder average ({baseline.hp.model_type})"
        values = features.encoder_average(baseline, texts)
        yield features.Features(name, values, is_baseline=True)
    noise = np.random.default_rng([seed, 7]).normal(size=[len(texts), translator.hp.z_dim])
    yield features.Features("random", noise, is_baseline=True)
