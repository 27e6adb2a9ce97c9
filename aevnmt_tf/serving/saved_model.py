"""A translator as a SavedModel that a stock TensorFlow Serving runs.

D/<version>/saved_model.pb, variables/             core ops and tensorflow-text's alone
D/<version>/MODEL_CARD.md                          data, scores and settings, for people
D/<version>/batching_params.pbtxt                  how requests are put together
D/<version>/assets.extra/tf_serving_warmup_requests
D/<version>/assets.extra/manifest.json             versions, settings, scores, forms of text
D/<version>/assets.extra/text/                     of Moses models: truecaser and merges
"""

import dataclasses
import shutil
from pathlib import Path

import tensorflow as tf
from tensorflow.python.saved_model import fingerprinting_utils

from aevnmt_tf import translator
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.serving import (
    batching_file,
    export_folder,
    export_record,
    op_check,
    signatures,
    warmup,
)
from aevnmt_tf.storage import run_directory
from aevnmt_tf.training import model_card

_USAGE = (
    "This folder is a SavedModel that takes text and returns text. Serve the folder around it\n"
    "with `aevnmt serve --export_dir FOLDER` or with TensorFlow Serving. The file\n"
    "`assets.extra/manifest.json` describes its signatures."
)


@dataclasses.dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    manifest: dict
    num_warmup_requests: int
    warning: str = ""  # about what is exported


def export_runs(
    runs,
    export_dir,
    *,
    checkpoint=None,
    version=None,
    batching=None,
    overrides=None,
    example=None,
    **options,
) -> Exported:
    """Export the model of a run, or the ensemble of several.

    Args:
        runs: out_dirs of training runs.
        export_dir: the folder of all versions.
        checkpoint: as in translator.load.
        version: its number; None: the next free one.
        batching: a batching_file.Batching; None: the default.
        overrides: settings to change, such as beam_width.
        example: a source sentence for the web page to offer.
        options: as in signatures.Choices.of.
    """
    export_folder.choose(export_dir, version)  # before the slow part
    runs = list(runs)
    loaded, described = _load(runs, checkpoint=checkpoint, overrides=overrides or {})
    if loaded.hp.model_type == "vae":
        raise UserError(f"{runs[0]} is a vae, which translates nothing: it cannot be exported.")
    if loaded.hp.language_model:
        raise UserError(
            f"{runs[0]} has language_model true and translates nothing: it cannot be exported."
        )
    choices = signatures.Choices.of(loaded, **options)
    is_moses = loaded.hp.text_pipeline == "moses"
    return export(
        loaded,
        export_dir,
        version=version,
        choices=choices,
        batching=batching,
        runs=described,
        text_folder=Path(runs[0]) / run_directory.TEXT if is_moses else None,
        card=model_card.text(runs, usage=_USAGE),
        example=example,
    )


def _load(runs, *, checkpoint, overrides):
    """Return the translator of some runs, and what the manifest says of each."""

    def describe():
        return [export_record.describe_run(run, checkpoint=checkpoint) for run in runs]

    are_runs = all((Path(run) / run_directory.HPARAMS).is_file() for run in runs)
    before = describe() if are_runs else []
    loaded = translator.load(runs, checkpoint=checkpoint, **overrides)
    for run, old, new in zip(runs, before, describe(), strict=True):
        if old["checkpoint"] != new["checkpoint"]:  # a training run that goes on
            raise UserError(
                f"{run} got new weights while they were loaded: run the same command again"
            )
    return loaded, before


def export(
    loaded,
    export_dir,
    *,
    version=None,
    choices=None,
    batching=None,
    runs=(),
    text_folder=None,
    card=None,
    example=None,
) -> Exported:
    """Export a translator.

    Args:
        loaded: a translator.Translator.
        export_dir: the folder of all versions.
        version: its number; None: the next free one.
        choices: a signatures.Choices; None: what the settings say.
        batching: a batching_file.Batching; None: the default.
        runs: what the manifest says of the runs.
        text_folder: where the files of the Moses pipeline are, None without one.
        card: the text of MODEL_CARD.md, None for no card.
        example: a source sentence for the web page to offer.
    """
    choices = choices or signatures.Choices.of(loaded)
    batching = batching or batching_file.Batching()
    made = signatures.make(loaded, choices)
    described = export_record.describe(
        loaded, made, choices=choices, batching=batching, runs=runs, example=example
    )
    traced = {name: signature.traced() for name, signature in made.items()}
    counts = []

    def write(folder):
        save(loaded, traced, folder)
        counts.append(warmup.write(folder, made, translator=loaded))
        batching_file.write(folder, batching)
        export_record.write(folder, described)
        if card is not None:
            (folder / model_card.FILE).write_text(card, encoding="utf-8")
        if text_folder is not None:
            (folder / export_record.TEXT_FOLDER).mkdir()
            for path in sorted(Path(text_folder).glob("moses.*")):
                shutil.copyfile(path, folder / export_record.TEXT_FOLDER / path.name)

    folder = export_folder.publish(export_dir, version=version, write=write)
    return Exported(folder, described, counts[0], choices.sample.warning(loaded.hp))


def save(loaded, traced, folder):
    """Write a SavedModel and make sure that a server can run it.

    Args:
        loaded: the translator.
        traced: concrete functions by the names of their signatures.
        folder: where to.
    """
    module = tf.Module(name="aevnmt")
    # Only what the functions need: weights and tokenizers, not the layers around them.
    module.weights = [
        variable.value for member in loaded.graph.members for variable in member.model.variables
    ]
    module.tokenizers = [loaded.x_tokenizer, loaded.y_tokenizer]
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, str(folder), signatures=traced, options=options)
    _forget_gradients(folder)
    problems = op_check.problems(op_check.read(folder))
    if problems:
        raise UserError(f"the exported graph cannot be served: {'; '.join(problems[:5])}")


def _forget_gradients(folder):
    """Take out the names of written-out gradients, which were not saved.

    TensorFlow would warn about each of them whenever the model is loaded.
    """
    model = op_check.read(folder)
    for graph in model.meta_graphs:
        for _, node in op_check.nodes(graph.graph_def):
            node.attr.pop("_gradient_op_type", None)
    (Path(folder) / op_check.MODEL_FILE).write_bytes(model.SerializeToString())
    # It has a checksum of the file.
    fingerprinting_utils.write_fingerprint(str(folder))
