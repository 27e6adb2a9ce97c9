"""Load a run, or several runs as an ensemble, as a translator."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams, text
from aevnmt_tf import model as models
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import run_directory
from aevnmt_tf.translator.decode_path import Graph
from aevnmt_tf.translator.ensemble import Ensemble
from aevnmt_tf.translator.line_translator import Translator

Run = str | os.PathLike[str]


def load(
    run: Run | list[Run] | tuple[Run, ...], *, checkpoint: str | None = None, **overrides: Any
) -> Translator:
    """Return the translator of a run; arguments as in `aevnmt_tf.load`."""
    if isinstance(run, list | tuple):
        members = [load(one, checkpoint=checkpoint, **overrides) for one in run]
        return members[0] if len(members) == 1 else ensemble(members, names=run)
    hp = hparams.load(run_directory.settings_file(run), **overrides)
    weights = run_directory.find_weights(run, checkpoint=checkpoint)
    folder = Path(run) / run_directory.TEXT
    marks = {"sos": hp.sos, "eos": hp.eos}
    x_tokenizer = text.load(folder, hp.src, **marks)
    y_tokenizer = x_tokenizer if hp.share_vocab else text.load(folder, hp.tgt, **marks)
    model = models.build(hp, x_tokenizer.vocab_size, y_tokenizer.vocab_size)
    run_directory.load_weights(model, weights)
    pipelines = {}
    if hp.text_pipeline == "moses":
        from aevnmt_tf.data import text_folder  # slow to import

        found = text_folder.load_pipelines(hp, folder)
        pipelines = {"x_moses": found[hp.src], "y_moses": found[hp.tgt]}
    return Translator(Graph(model, x_tokenizer, y_tokenizer, hp), is_final=True, **pipelines)


def ensemble(
    members: Sequence[Translator], *, names: Sequence[Run] | None = None
) -> Translator:
    """Return an ensemble of translators with identical vocabularies; errors use `names`."""
    first, *others = members
    names = names or [f"model {number}" for number in range(1, len(members) + 1)]
    known = _text_files(first)
    for name, other in zip(names[1:], others, strict=True):
        if _text_files(other) != known:
            raise UserError(
                f"{name} and {names[0]} cannot form an ensemble: their languages or "
                "vocabularies differ."
            )
    return Translator(
        Ensemble([member.graph for member in members]),
        x_moses=first.encoder.x_moses,
        y_moses=first.encoder.y_moses,
        is_final=all(member.is_final for member in members),
    )


def _text_files(translator: Translator) -> list[dict[str, bytes]]:
    """Return the contents of the tokenizer files of both sides, by name."""
    hp, sides = translator.hp, []
    encoder = translator.encoder
    for lang, tokenizer, pipeline in (
        (hp.src, translator.x_tokenizer, encoder.x_moses),
        (hp.tgt, translator.y_tokenizer, encoder.y_moses),
    ):
        with tempfile.TemporaryDirectory() as folder:
            written = list(tokenizer.save(folder, lang))
            written += [] if pipeline is None else pipeline.save(folder)
            sides.append({path.name: path.read_bytes() for path in written})
    return sides
