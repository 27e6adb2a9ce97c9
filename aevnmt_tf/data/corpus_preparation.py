"""Raw parallel text -> cleaned corpora, subword models and vocabularies.

A prepared folder:

    manifest.json            what was read, dropped and written; written last
    hparams.json             the settings to train with
    train.LANG dev.LANG ...  the corpora, as the tokenizers read them
    raw/dev.LANG ...         dev and test before tokenisation (moses), to score translations
    text/                    tokenizers and pipelines, as in a run's text/
    ids/                     the training corpora as ids, see pair_store
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data import corpora as corpus_files
from aevnmt_tf.data import preparation_manifest as manifests
from aevnmt_tf.data import text_folder
from aevnmt_tf.data.corpora import PARALLEL, Corpus, find_corpora, find_mono, prefixes
from aevnmt_tf.data.demo_corpus import write_demo
from aevnmt_tf.data.preparation_manifest import Manifest
from aevnmt_tf.data.text_folder import Pipelines
from aevnmt_tf.data.training_data import store_corpora
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage import atomic_writes, disk_errors, locks
from aevnmt_tf.storage.text_files import FileLines
from aevnmt_tf.text import Tokenizer, moses
from aevnmt_tf.text.learning import learn_tokenizers, split_words
from aevnmt_tf.text.tokenizer import PREFIX

# DEVIATION: the authors' code cuts long sentences; the paper removes those over 50 tokens.
MAX_WORDS = 50
HPARAMS = "hparams.json"
IDS = "ids"
WORK = ".work"

Report = Callable[[str], object]


@dataclass(frozen=True)
class Prepared:
    """The text of a run.

    Attributes:
      x_tokenizer: The tokenizer of the source.
      y_tokenizer: The tokenizer of the target; the same object if the vocabulary is shared.
      hp: The settings, whose prefixes name files that the tokenizers read.
      x_moses: Turns raw source text into input of x_tokenizer; None unless text_pipeline is
        moses.
      y_moses: The same for the target. Its inverse turns translations into raw text.
      raw: The prefixes of "dev" and "test" as raw text, to score translations.
      ids: The folder of stores. Runs on the same prepared folder share it.
    """

    x_tokenizer: Tokenizer
    y_tokenizer: Tokenizer
    hp: Hparams
    x_moses: moses.MosesPipeline | None
    y_moses: moses.MosesPipeline | None
    raw: Mapping[str, tuple[str, ...]]
    ids: Path


def prepare(
    hp: Hparams,
    out: str | Path,
    *,
    report: Report = print,
    mono: Mapping[str, Sequence[str]] | None = None,
) -> Manifest:
    """Prepare the corpora that the settings name in a folder and return its manifest.

    Subword models come from vocab_prefix if it is set. Otherwise they are learnt from the
    training corpora, the target side of synthetic text, and monolingual text.

    Args:
      hp: The settings. Their prefixes name raw text, or words or subwords if subword_option
        says so and text_pipeline is not moses.
      out: The folder.
      report: Called with messages for the user.
      mono: Files of monolingual text by language.
    """
    out = Path(out)
    single = [c for lang, names in (mono or {}).items() for c in find_mono(lang, names)]
    corpus_files.check_outputs(hp, out, [*find_corpora(hp), *single])
    with locks.folder_held(out, busy=None):
        hp = _with_demo(hp, out / "demo")
        corpora = corpus_files.read(hp, [*find_corpora(hp), *single])
        return _prepare(hp, corpora, out, report=report)


def _prepare(hp: Hparams, corpora: list[Corpus], out: Path, *, report: Report) -> Manifest:
    tokenizers, pipelines = text_folder.given_models(hp)
    # Without these files, an incomplete folder is recognised as such.
    with disk_errors.explained(f"write {out}"):
        for name in (manifests.MANIFEST, HPARAMS):
            (out / name).unlink(missing_ok=True)
    work = out / WORK  # for intermediate text
    if hp.text_pipeline == "moses":
        for corpus in corpora:
            if corpus.kind in ("dev", "test"):
                corpus.save(out / "raw")
        pipelines, corpora = _truecase(hp, pipelines, corpora, work=work)
    limits: dict[str, Any] = dict(count_words=_word_counter(hp), max_words=MAX_WORDS)
    cleaned = [corpus_files.clean(corpus, work / "Cleaning", **limits) for corpus in corpora]
    corpora, counts = [corpus for corpus, _ in cleaned], [numbers for _, numbers in cleaned]
    for corpus in corpora:
        if corpus.kind == "train" and not len(corpus):
            raise UserError(
                f"{corpus.source} has no sentence pairs left after cleaning: check the files."
            )
    if hp.text_pipeline == "moses":
        pipelines, corpora = _segment(hp, pipelines, corpora, work=work, report=report)
    if tokenizers is None:
        tokenizers = _learn(hp, corpora, report=report)
    for corpus in corpora:
        corpus.save(out, work=work)
    shutil.rmtree(work, ignore_errors=True)
    text_folder.save(hp, out / "text", tokenizers=tokenizers, pipelines=pipelines)
    named = _naming(hp, out, {corpus.name: corpus.kind for corpus in corpora})
    store_corpora(
        named,
        x_tokenizer=tokenizers[hp.src],
        y_tokenizer=tokenizers[hp.tgt],
        folder=out / IDS,
        report=report,
    )
    named.save(out / HPARAMS)
    manifest = manifests.describe(
        hp,
        corpora,
        counts,
        vocab_sizes={lang: tokenizer.vocab_size for lang, tokenizer in tokenizers.items()},
        max_words=MAX_WORDS,
        models=[path for path in (out / "text").iterdir() if path.is_file()],
    )
    atomic_writes.write_json(out / manifests.MANIFEST, manifest)
    return manifest


def ensure_prepared(hp: Hparams, folder: str | Path, *, report: Report = print) -> Prepared:
    """Return the tokenizers and the training text of a run; make what is missing.

    The tokenizers come from the folder, from vocab_prefix or, if there are none, are learnt
    from the training text. If text_pipeline is moses and the corpora are raw text, they are
    prepared in the directory of the run.

    Args:
      hp: The settings.
      folder: The text/ folder of the run.
      report: Called with messages for the user.
    """
    folder = Path(folder)
    # Check the files before the slow part. Training does not need the test set.
    find_corpora(hp, kinds=("train", "dev", "synthetic", "mono"))
    corpus_files.read(hp, find_corpora(hp, kinds=("dev",)))
    with locks.folder_held(folder, busy=None):  # the workers of a run may start together
        hp = _with_demo(hp, folder.parent / "demo")
        vocab_prefix = hp.vocab_prefix
        complete = text_folder.is_complete(hp, folder)
        if complete:
            hp = hp.replace(vocab_prefix=str(folder / PREFIX))
        if hp.text_pipeline == "moses" and manifests.is_raw(hp):
            hp = _prepare_in_run(hp, folder.parent / "prepared", report=report)
        if not complete:
            tokenizers, pipelines = text_folder.given_models(hp)
            if tokenizers is None:
                found = find_corpora(hp, kinds=("train", "synthetic", "mono"))
                corpora = corpus_files.read(hp, found)
                report(f"Learning subword models from {', '.join(prefixes(hp.train_prefix))}.")
                tokenizers = _learn(hp, corpora, report=report)
            text_folder.save(hp, folder, tokenizers=tokenizers, pipelines=pipelines)
    tokenizers = text_folder.load_tokenizers(hp, folder / PREFIX)
    pipelines = text_folder.load_pipelines(hp, folder)
    raw = {kind: getattr(hp, f"{kind}_prefix") for kind in ("dev", "test")}
    return Prepared(
        x_tokenizer=tokenizers[hp.src],
        y_tokenizer=tokenizers[hp.tgt],
        hp=hp.replace(vocab_prefix=vocab_prefix),
        x_moses=pipelines.get(hp.src),
        y_moses=pipelines.get(hp.tgt),
        raw={kind: manifests.readable_prefixes(hp, value) for kind, value in raw.items()},
        ids=_ids_folder(hp, folder),
    )


def _ids_folder(hp: Hparams, own: Path) -> Path:
    """Return the folder of stores next to prepared text, otherwise the run's own."""
    parent = Path(prefixes(hp.train_prefix)[0]).parent
    ids = parent / IDS
    if manifests.read(parent) is not None:
        if os.access(ids if ids.is_dir() else parent, os.W_OK):
            return ids
    return own / IDS


def _with_demo(hp: Hparams, folder: Path) -> Hparams:
    """Return the settings, with the demo corpus (in a folder) if they name no corpus."""
    if hp.train_prefix is not None:
        return hp
    written = write_demo(folder, num_pairs=hp.demo_pairs)
    return hp.replace(
        train_prefix=written["train"],
        dev_prefix=written["dev"],
        test_prefix=hp.test_prefix or written["test"],
    )


def _prepare_in_run(hp: Hparams, out: Path, *, report: Report) -> Hparams:
    """Return settings that name prepared corpora; prepare them if the text has changed."""
    hp = _without_missing_tests(hp)
    manifest = manifests.read(out)
    if manifest is None or not manifests.is_current(manifest, hp):
        report(f"Preparing the corpora with the Moses pipeline in {out}.")
        manifest = prepare(hp, out, report=report)
    return _naming(hp, out, {name: c["kind"] for name, c in manifest["corpora"].items()})


def _without_missing_tests(hp: Hparams) -> Hparams:
    """Return the settings without the test sets whose files cannot be read."""

    def is_there(prefix: str) -> bool:
        try:
            return bool(find_corpora(hp.replace(test_prefix=prefix), kinds=("test",)))
        except UserError:
            return False

    return hp.replace(test_prefix=[*filter(is_there, prefixes(hp.test_prefix))] or None)


def _naming(hp: Hparams, out: Path, kinds: Mapping[str, str]) -> Hparams:
    """Return settings for the corpora of a prepared folder, given the kind of each."""
    named: dict[str, str | list[str] | None] = {}
    for kind in PARALLEL:
        found = [str(out / name) for name in kinds if kinds[name] == kind]
        named[f"{kind}_prefix"] = found[0] if len(found) == 1 else found or None
    return hp.replace(vocab_prefix=str(out / "text" / PREFIX), **named)


def _truecase(
    hp: Hparams, pipelines: Pipelines, corpora: Sequence[Corpus], *, work: Path
) -> tuple[Pipelines, list[Corpus]]:
    """Return the truecasers, learnt unless they are given, and the truecased corpora."""
    langs = (hp.src, hp.tgt)
    known = pipelines or {lang: moses.learn_truecaser(lang, []) for lang in langs}
    tokenise = {lang: known[lang].tokenise for lang in langs}
    corpora = [corpus.map(tokenise, work / "Tokenising") for corpus in corpora]
    if not pipelines:
        known = {lang: moses.learn_truecaser(lang, _natural(corpora, lang)) for lang in langs}
    truecase = {lang: known[lang].truecase for lang in langs}
    return known, [corpus.map(truecase, work / "Truecasing") for corpus in corpora]


def _segment(
    hp: Hparams,
    pipelines: Pipelines,
    corpora: Sequence[Corpus],
    *,
    work: Path,
    report: Report,
) -> tuple[Pipelines, list[Corpus]]:
    """Return the pipelines with BPE merges, learnt unless they are given, and the subwords."""
    if hp.subword_option == "bpe" and hp.vocab_prefix is None:
        words = {lang: moses.count_words(_natural(corpora, lang)) for lang in pipelines}
        groups = [tuple(words)] if hp.share_vocab else [(lang,) for lang in words]
        pipelines = dict(pipelines)
        for group in groups:
            name = " and ".join(group)
            codes = moses.learn_codes(
                sum((words[lang] for lang in group), start=moses.count_words([])),
                num_merges=hp.vocab_size,
                name=f"the training text ({name})",
            )
            num_merges = codes.count("\n") - 1
            if num_merges < hp.vocab_size:
                report(
                    f"{name}: the text yields {num_merges:,} BPE merges, fewer than vocab_size "
                    f"{hp.vocab_size:,}, because no other pair of symbols occurs twice."
                )
            pipelines.update({lang: pipelines[lang].with_codes(codes) for lang in group})
    segment = {lang: pipeline.segment for lang, pipeline in pipelines.items()}
    return pipelines, [corpus.map(segment, work / "Segmenting") for corpus in corpora]


def _word_counter(hp: Hparams) -> Callable[[str], int]:
    """Return a function that counts the words of a line."""
    if hp.subword_option == "spm":
        # In raw text, any white space separates words.
        return lambda line: len(line.split())
    if hp.subword_option == "bpe" and hp.text_pipeline != "moses":
        # The text is in subwords; all but the last one of a word end in @@.
        return lambda line: sum(not word.endswith("@@") for word in split_words(line))
    return lambda line: len(split_words(line))


def _natural(corpora: Sequence[Corpus], lang: str) -> FileLines:
    return sum((c.lines[lang] for c in corpora if lang in c.natural), start=FileLines())


def _learn(hp: Hparams, corpora: Sequence[Corpus], *, report: Report) -> dict[str, Tokenizer]:
    return learn_tokenizers(
        {lang: _natural(corpora, lang) for lang in (hp.src, hp.tgt)},
        subword_option=hp.subword_option,
        vocab_size=hp.vocab_size,
        share_vocab=hp.share_vocab,
        symbols={hp.src: [hp.synthetic_tag]} if hp.synthetic_tag else None,
        sos=hp.sos,
        eos=hp.eos,
        report=report,
    )
