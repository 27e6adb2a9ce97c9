"""The text/ folder of a run: the tokenizers of both languages and their Moses pipelines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage import atomic_writes, disk_errors
from aevnmt_tf.text import Tokenizer, load_prefix, moses, tokenizer_files
from aevnmt_tf.text.tokenizer import PREFIX

STAMP = "text.json"
_STAMPED = ("text_pipeline", "subword_option", "share_vocab", "src", "tgt", "synthetic_tag")

Pipelines = Mapping[str, moses.MosesPipeline]


def save(
    hp: Hparams, folder: Path, *, tokenizers: Mapping[str, Tokenizer], pipelines: Pipelines
) -> None:
    """Write all files of the folder; the stamp, written last, marks it as complete."""
    with disk_errors.explained(f"write {folder}"):
        (folder / STAMP).unlink(missing_ok=True)
    written: list[Path] = []
    for lang, tokenizer in tokenizers.items():
        written += tokenizer.save(folder, tokenizer_files.SHARED if hp.share_vocab else lang)
    for pipeline in pipelines.values():
        written += pipeline.save(folder)
    # Files that other settings have left here could be taken for the new ones.
    with disk_errors.explained(f"write {folder}"):
        for path in [*folder.glob(f"{PREFIX}.*"), *folder.glob("moses.*")]:
            if path not in written:
                path.unlink()
    stamp = {name: getattr(hp, name) for name in _STAMPED}
    atomic_writes.write_json(folder / STAMP, stamp)


def is_complete(hp: Hparams, folder: Path) -> bool:
    """Return whether the folder is complete; raise an error if other settings made it."""
    try:
        stored = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    for name in _STAMPED:
        value = getattr(hp, name)
        if stored.get(name) != value:
            raise UserError(
                f"{folder} was made with {name} {json.dumps(stored.get(name))}, not "
                f"{json.dumps(value)}: choose another out_dir or restore the setting."
            )
    return True


def load_tokenizers(
    hp: Hparams, prefix: str | Path, *, subword_option: str | None = None
) -> dict[str, Tokenizer]:
    """Return the tokenizers PREFIX.LANG by language; see text.load_prefix."""
    options = dict(subword_option=subword_option, sos=hp.sos, eos=hp.eos)
    # As in TF-NMT, a shared vocabulary is the one of the source.
    source = load_prefix(prefix, hp.src, **options)
    target = source if hp.share_vocab else load_prefix(prefix, hp.tgt, **options)
    return {hp.src: source, hp.tgt: target}


def given_models(hp: Hparams) -> tuple[dict[str, Tokenizer] | None, Pipelines]:
    """Return the tokenizers that vocab_prefix names, and the pipelines next to them."""
    if hp.vocab_prefix is None:
        return None, {}
    tokenizers = load_tokenizers(hp, hp.vocab_prefix, subword_option=hp.subword_option)
    return tokenizers, load_pipelines(hp, Path(hp.vocab_prefix).parent)


def load_pipelines(hp: Hparams, folder: str | Path) -> Pipelines:
    """Return the pipelines in a folder by language; none without moses."""
    if hp.text_pipeline != "moses":
        return {}
    found = {}
    for lang in (hp.src, hp.tgt):
        pipeline = moses.load(folder, lang)
        if pipeline is None:
            raise UserError(
                f"text_pipeline moses needs moses.{lang}.truecaser in {folder}, next to the "
                "vocabularies: make them together with `aevnmt prepare`. For text that is "
                'already tokenised, set text_pipeline to "sentencepiece" and subword_option to '
                '"bpe" or "".'
            )
        found[lang] = pipeline
    return found
