"""assets.extra/manifest.json: where an exported model comes from, what it takes and gives."""

import json
import subprocess
from pathlib import Path

import aevnmt_tf
from aevnmt_tf import text
from aevnmt_tf.cli import machine, settings
from aevnmt_tf.serving.batching_file import Batching
from aevnmt_tf.storage import run_directory
from aevnmt_tf.translator import line_encoder

FILE = Path("assets.extra") / "manifest.json"
TEXT_FOLDER = Path("assets.extra") / "text"
PACKAGES = ("tensorflow", "tensorflow-text", "keras", "tensorflow-serving-api")


def write(folder, described) -> Path:
    """Write the file into the folder of a SavedModel."""
    path = Path(folder) / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(described, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    return path


DEMO_EXAMPLE = "I like the cake."


def describe(translator, signatures, *, choices, batching, runs=(), example=None) -> dict:
    """Return all that the file says, as JSON has it.

    Args:
        translator: the translator that is exported.
        signatures: signatures.Signature by name.
        choices: signatures.Choices.
        batching: batching_file.Batching.
        runs: what `describe_run` says of each run.
        example: a source sentence for people to try; None: one of the demo corpus for a model
            of the demo corpus, else none.
    """
    hp = translator.hp
    forms = text_forms(translator)
    if example is None and hp.train_prefix is None and hp.src == "en":
        example = DEMO_EXAMPLE
    if example is not None:
        forms["source"]["example"] = example
    return {
        "about": f"{hp.model_type} translation model, {hp.src} to {hp.tgt}, of aevnmt_tf",
        "text": forms,
        "runs": list(runs),
        "versions": machine.versions(PACKAGES, own=aevnmt_tf.__version__),
        "git": git(),
        "signatures": {name: _signature(one) for name, one in signatures.items()},
        "decoding": {
            name: vars(getattr(choices, name))
            for name in ("translate", "nbest", "sample", "mbr")
        }
        | {"score_samples": choices.score_samples},
        "batching": {
            one.name: getattr(batching, one.name) for one in settings.declared(Batching)
        },
        "hparams": hp.to_dict(),
    }


def describe_run(run, *, checkpoint=None) -> dict:
    """Return which weights of a run are loaded, and how good they were on its development set.

    Args:
        run: its directory.
        checkpoint: as in translator.load.
    """
    from aevnmt_tf.evaluation import metrics

    run = Path(run)
    folder = run_directory.find_weights(run, checkpoint=checkpoint)
    step = run_directory.step_of(folder)
    dev = None
    score = _dev_bleu(run, folder, step)
    if score is not None:
        dev = {"bleu": score, "signature": _signature_of_bleu(run, metrics)}
    return {
        "name": run.resolve().name,
        "checkpoint": f"{folder.parent.name}/{folder.name}",
        "step": step,
        "crc32": run_directory.checksum(folder / run_directory.WEIGHTS),
        "dev": dev,
    }


def _dev_bleu(run, folder, step):
    """Return the dev score of these weights: their own record, else what training reported."""
    from aevnmt_tf.training import metrics_file

    if folder.parent.name == run_directory.AVERAGE:
        return run_directory.state(folder).get("dev_bleu")
    lines = metrics_file.MetricsFile(run / run_directory.METRICS).read()
    found = [line.get("dev_bleu") for line in lines if line["step"] == step]
    return next((score for score in reversed(found) if isinstance(score, int | float)), None)


def _signature_of_bleu(run, metrics):
    """Return what the run has written down, else what the installed sacreBLEU says."""
    try:
        results = json.loads((run / run_directory.RESULTS).read_text(encoding="utf-8"))
        return results["signatures"]["bleu"]
    except (OSError, ValueError, KeyError, TypeError):
        return metrics.signatures(("bleu",))["bleu"]


def text_forms(translator) -> dict:
    """Return what kind of text the source must be and the translation is."""
    hp = translator.hp
    is_moses = hp.text_pipeline == "moses"
    return {
        "source": {
            "lang": hp.src,
            **_form(translator.x_tokenizer, is_moses=is_moses, is_source=True),
        },
        "target": {
            "lang": hp.tgt,
            **_form(translator.y_tokenizer, is_moses=is_moses, is_source=False),
        },
    }


def _form(tokenizer, *, is_moses, is_source):
    note = line_encoder.text_form(tokenizer, is_moses=is_moses, is_source=is_source)
    if not isinstance(tokenizer, text.VocabularyTokenizer):
        return {"form": "raw", "note": note}
    if is_moses:
        note = f"{note} (the truecaser and the merges are in {TEXT_FOLDER})"
    return {"form": "tokenised", "note": note}


def git() -> dict | None:
    """Return the commit of this package's code and whether files differ.

    None where git knows none.
    """
    folder = Path(aevnmt_tf.__file__).parent

    def ask(*words):
        command = ["git", "-C", str(folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout.strip()

    try:
        ask("ls-files", "--error-unmatch", "__init__.py")  # not some repository around it
        return {
            "commit": ask("rev-parse", "HEAD"),
            "changed": bool(ask("status", "--porcelain", ".")),
        }
    except (OSError, subprocess.SubprocessError):
        return None


def _signature(signature):
    return {
        "doc": signature.doc,
        "inputs": {spec.name: f"{spec.dtype.name} [B]" for spec in signature.inputs},
        "outputs": {
            name: f"{shape}: {doc}" for name, (shape, doc) in signature.outputs.items()
        },
    }
