"""Export of a translator as a SavedModel that a stock TensorFlow Serving can run.

D/<version>/saved_model.pb, variables/             core and tensorflow-text ops only
D/<version>/MODEL_CARD.md                          data, scores and settings
D/<version>/batching_params.pbtxt                  how a server batches requests
D/<version>/assets.extra/tf_serving_warmup_requests
D/<version>/assets.extra/manifest.json             versions, settings, scores, kinds of text
D/<version>/assets.extra/text/                     for Moses models: truecaser and merges
"""

import dataclasses
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
from aevnmt_tf.storage import atomic_writes, run_directory
from aevnmt_tf.training import model_card

_USAGE = (
    "This folder is a SavedModel that takes text and returns text. Serve the folder around it\n"
    "with `aevnmt serve --export_dir FOLDER` or with TensorFlow Serving. The file\n"
    "`assets.extra/manifest.json` describes its signatures."
)


@dataclasses.dataclass(frozen=True)
class Exported:
    """A finished export."""

    folder: Path
    manifest: dict
    warning: str = ""


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
    """Export the model of a run, or an ensemble of several.

    `overrides` are settings to change, such as beam_width. `options` are those of
    signatures.Choices.of. For `checkpoint`, see translator.load; for the rest, see `export`.
    """
    export_folder.choose(export_dir, version)  # before the slow part
    runs = list(runs)
    loaded, described = _load(runs, checkpoint=checkpoint, overrides=overrides or {})
    if loaded.hp.model_type == "vae" or loaded.hp.language_model:
        setting = "language_model true" if loaded.hp.language_model else "model_type vae"
        raise UserError(f"{runs[0]} has {setting}, so it does not translate: cannot export it.")
    files = {Path(model_card.FILE): model_card.text(runs, usage=_USAGE).encode()}
    if loaded.hp.text_pipeline == "moses":
        for path in sorted((Path(runs[0]) / run_directory.TEXT).glob("moses.*")):
            files[export_record.TEXT_FOLDER / path.name] = path.read_bytes()
    return export(
        loaded,
        export_dir,
        version=version,
        choices=signatures.Choices.of(loaded, **options),
        batching=batching,
        runs=described,
        files=files,
        example=example,
    )


def _load(runs, *, checkpoint, overrides):
    """Return the translator of some runs, and what the manifest says about each run."""

    def describe():
        return [export_record.describe_run(run, checkpoint=checkpoint) for run in runs]

    are_runs = all((Path(run) / run_directory.HPARAMS).is_file() for run in runs)
    before = describe() if are_runs else []
    loaded = translator.load(runs, checkpoint=checkpoint, **overrides)
    for run, old, new in zip(runs, before, describe(), strict=True):
        if old["checkpoint"] != new["checkpoint"]:  # training is still in progress
            raise UserError(
                f"{run} saved a new checkpoint during the export: run the same command again."
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
    files=None,
    example=None,
) -> Exported:
    """Export a translator.

    Args:
        loaded: a translator.Translator.
        export_dir: the folder of all versions.
        version: its number; None: the next free number.
        choices: a signatures.Choices; None: from the settings.
        batching: a batching_file.Batching; None: the default.
        runs: what the manifest says about the runs.
        files: contents of additional files, by path.
        example: source sentence that the web page offers.
    """
    choices = choices or signatures.Choices.of(loaded)
    batching = batching or batching_file.Batching()
    made = signatures.make(loaded, choices)
    described = export_record.describe(
        loaded, made, choices=choices, batching=batching, runs=runs, example=example
    )
    traced = {name: signature.traced() for name, signature in made.items()}

    def write(folder):
        _save(loaded, traced, folder)
        warmup.write(folder, made, translator=loaded)
        batching_file.write(folder, batching)
        atomic_writes.write_json(folder / export_folder.MANIFEST, described)
        for path, content in (files or {}).items():
            atomic_writes.write(folder / path, content)

    folder = export_folder.publish(export_dir, version=version, write=write)
    return Exported(folder, described, choices.sample.warning(loaded.hp))


def _save(loaded, traced, folder):
    """Write a SavedModel and check that a server can run it."""
    module = tf.Module(name="aevnmt")
    # Only what the functions need: weights and tokenizers, not the layers around them.
    module.weights = [
        variable.value for member in loaded.graph.members for variable in member.model.variables
    ]
    module.tokenizers = [loaded.x_tokenizer, loaded.y_tokenizer]
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, str(folder), signatures=traced, options=options)
    _remove_gradient_names(folder)
    problems = op_check.problems(op_check.read(folder))
    if problems:
        raise UserError(f"the exported graph cannot be served: {'; '.join(problems[:5])}.")


def _remove_gradient_names(folder):
    """Remove the names of custom gradients, which are not saved.

    TensorFlow would warn about each of them whenever it loads the model.
    """
    model = op_check.read(folder)
    for graph in model.meta_graphs:
        for _, node in op_check.nodes(graph.graph_def):
            node.attr.pop("_gradient_op_type", None)
    (Path(folder) / export_folder.MODEL_FILE).write_bytes(model.SerializeToString())
    # It contains a checksum of the file.
    fingerprinting_utils.write_fingerprint(str(folder))
