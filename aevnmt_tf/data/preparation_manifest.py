"""The manifest of a prepared folder: what was read, dropped and written."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data.corpora import PARALLEL, Corpus, find_corpora, prefixes
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage.run_directory import digest
from aevnmt_tf.text import tokenizer_files

MANIFEST = "manifest.json"
Manifest = dict[str, Any]  # as JSON holds it
# Settings that determine the prepared text.
_DECISIVE = "text_pipeline subword_option vocab_size share_vocab src tgt sos eos max_train"
_LIBRARIES = {"moses": ("sacremoses", "subword-nmt"), "sentencepiece": ("sentencepiece",)}


def describe(
    hp: Hparams,
    corpora: Sequence[Corpus],
    counts: Sequence[Mapping[str, int]],
    *,
    vocab_sizes: Mapping[str, int],
    max_words: int,
    models: Iterable[Path],
) -> Manifest:
    """Return the manifest of a prepared folder."""
    described = {}
    for corpus, numbers in zip(corpora, counts, strict=True):
        lang = next(iter(corpus.endings))
        described[f"{corpus.name}.{lang}" if corpus.kind == "mono" else corpus.name] = {
            "kind": corpus.kind,
            "from": corpus.source,
            "counts": dict(numbers),
            "inputs": {str(path): digest(path) for path in corpus.inputs},
        }
    return {
        "settings": _decisive(hp),
        "max_words": max_words,
        "corpora": described,
        "vocab_sizes": dict(vocab_sizes),
        "models": {path.name: digest(path) for path in sorted(models)},
        "libraries": {
            name: importlib.metadata.version(name) for name in _LIBRARIES[hp.text_pipeline]
        },
    }


def read(folder: str | Path) -> Manifest | None:
    """Return the manifest of a folder; None if there is none, or if it is not ours."""
    try:
        manifest = json.loads((Path(folder) / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    known = isinstance(manifest, dict) and {"settings", "corpora", "models"} <= set(manifest)
    return manifest if known else None


def is_current(manifest: Manifest, hp: Hparams) -> bool:
    """Return whether the settings would produce the same folder again."""
    if manifest["settings"] != json.loads(json.dumps(_decisive(hp))):
        return False
    if hp.vocab_prefix is not None:
        for lang in (hp.src, hp.tgt):
            found = tokenizer_files.find(
                hp.vocab_prefix, lang, subword_option=hp.subword_option
            )
            if found is None or digest(found) not in manifest["models"].values():
                return False
    inputs = {str(path): digest(path) for corpus in find_corpora(hp) for path in corpus.inputs}
    made_of: dict[str, str] = {}
    for described in manifest["corpora"].values():
        made_of.update(described["inputs"])
    return made_of == inputs


def is_raw(hp: Hparams) -> bool:
    """Return whether the corpora that the settings name still have to be prepared."""
    named = [p for kind in PARALLEL for p in prefixes(getattr(hp, f"{kind}_prefix"))]
    done = [prefix for prefix in named if _is_prepared(prefix)]
    if done and len(done) < len(named):
        raw = next(prefix for prefix in named if prefix not in done)
        raise UserError(
            f"{done[0]} is prepared text, but {raw} is not: prepare all corpora together."
        )
    return not done


def readable_prefixes(hp: Hparams, value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the prefixes of the text that a run translates.

    With text_pipeline moses, this is the raw text next to the prepared corpora. Otherwise, it
    is the corpora themselves.
    """
    if hp.text_pipeline != "moses":
        return prefixes(value)
    found = []
    for prefix in prefixes(value):
        folder, name = Path(prefix).parent, Path(prefix).name
        manifest = read(folder)
        tokenised = (
            manifest is not None
            and name in manifest["corpora"]
            and manifest["settings"]["text_pipeline"] == "moses"
        )
        found.append(str(folder / "raw" / name) if tokenised else prefix)
    return tuple(found)


def _is_prepared(prefix: str) -> bool:
    manifest = read(Path(prefix).parent)
    return manifest is not None and Path(prefix).name in manifest["corpora"]


def _decisive(hp: Hparams) -> dict[str, Any]:
    # Only if it is set, so that folders older than this setting remain valid.
    tag = {} if hp.synthetic_tag is None else {"synthetic_tag": hp.synthetic_tag}
    return {name: getattr(hp, name) for name in _DECISIVE.split()} | tag
