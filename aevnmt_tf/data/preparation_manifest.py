"""The record of a prepared folder: what was read, dropped and made."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data.corpora import PARALLEL, Corpus, files_of, prefixes
from aevnmt_tf.data.pair_counts import counts_table
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.text import tokenizer_files

MANIFEST = "manifest.json"
Manifest = dict[str, Any]  # as JSON holds it
# A change of these makes other text.
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
        lang = next(iter(corpus.lines))
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


def table(manifest: Manifest) -> str:
    """Return the counts as a table, one corpus a line, and warnings."""
    return counts_table({name: c["counts"] for name, c in manifest["corpora"].items()})


def read(folder: str | Path) -> Manifest | None:
    """Return the manifest of a folder; None where there is none, or another program's."""
    try:
        manifest = json.loads((Path(folder) / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    known = isinstance(manifest, dict) and {"settings", "corpora", "models"} <= set(manifest)
    return manifest if known else None


def is_current(manifest: Manifest | None, hp: Hparams) -> bool:
    """Return whether the settings would make the same folder again."""
    if manifest is None or manifest["settings"] != json.loads(json.dumps(_decisive(hp))):
        return False
    if hp.vocab_prefix is not None:
        for lang in (hp.src, hp.tgt):
            found = tokenizer_files.find(
                hp.vocab_prefix, lang, subword_option=hp.subword_option
            )
            if found is None or digest(found) not in manifest["models"].values():
                return False
    inputs = {str(path): digest(path) for paths in files_of(hp).values() for path in paths}
    made_of: dict[str, str] = {}
    for corpus in manifest["corpora"].values():
        made_of.update(corpus["inputs"])
    return made_of == inputs


def is_raw(hp: Hparams) -> bool:
    """Return whether the corpora that the settings name are yet to be prepared."""
    named = [p for kind in PARALLEL for p in prefixes(getattr(hp, f"{kind}_prefix"))]
    done = [prefix for prefix in named if _is_prepared(prefix)]
    if done and len(done) < len(named):
        raw = next(prefix for prefix in named if prefix not in done)
        raise UserError(
            f"{done[0]} is prepared text but {raw} is not: prepare all corpora together."
        )
    return not done


def readable_prefixes(hp: Hparams, value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return prefixes of the text that a run translates: for `moses` that is raw text.

    The raw text is kept beside corpora that the Moses pipeline has prepared. A run with another
    text_pipeline reads the prepared corpora as they are.
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


def digest(path: str | Path) -> str:
    """Return the SHA-256 of a file."""
    value = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            value.update(block)
    return value.hexdigest()


def _is_prepared(prefix: str) -> bool:
    manifest = read(Path(prefix).parent)
    return manifest is not None and Path(prefix).name in manifest["corpora"]


def _decisive(hp: Hparams) -> dict[str, Any]:
    # Only where it is set: folders that are older than the setting stay good.
    tag = {} if hp.synthetic_tag is None else {"synthetic_tag": hp.synthetic_tag}
    return {name: getattr(hp, name) for name in _DECISIVE.split()} | tag
