"""assets.extra/manifest.json: the origin of an exported model, its inputs and outputs."""

import json
import subprocess
from pathlib import Path

import aevnmt_tf
from aevnmt_tf import text
from aevnmt_tf.cli import machine, settings
from aevnmt_tf.serving.batching_file import Batching
from aevnmt_tf.storage import run_directory
from aevnmt_tf.translator import line_encoder

TEXT_FOLDER = Path("assets.extra") / "text"
PACKAGES = ("tensorflow", "tensorflow-text", "keras", "tensorflow-serving-api")
DEMO_EXAMPLE = "I like the cake."


def describe(translator, signatures, *, choices, batching, runs=(), example=None) -> dict:
    """Return the content of the file; `runs` are the descriptions of `describe_run`.

    By default, models of the demo corpus have an `example`: a source sentence for the web page.
    """
    hp = translator.hp
    forms = text_forms(translator)
    if example is None and hp.train_prefix is None and hp.src == "en":
        example = DEMO_EXAMPLE
    if example is not None:
        forms["source"]["example"] = example
    rules = ("translate", "nbest", "sample", "mbr")
    return {
        "about": f"{hp.model_type} translation model, {hp.src} to {hp.tgt}, of aevnmt_tf",
        "text": forms,
        "runs": list(runs),
        "versions": machine.versions(PACKAGES, own=aevnmt_tf.__version__),
        "git": git(),
        "signatures": {name: _signature(one) for name, one in signatures.items()},
        "decoding": {
            **{name: vars(getattr(choices, name)) for name in rules},
            "score_samples": choices.score_samples,
        },
        "batching": {
            one.name: getattr(batching, one.name) for one in settings.declared(Batching)
        },
        "hparams": hp.to_dict(),
    }


def _signature(signature):
    outputs = signature.outputs.items()
    return {
        "doc": signature.doc,
        "inputs": {spec.name: f"{spec.dtype.name} [B]" for spec in signature.inputs},
        "outputs": {name: f"{shape}: {doc}" for name, (shape, doc) in outputs},
    }


def describe_run(run, *, checkpoint=None) -> dict:
    """Return which weights of a run are exported, and their dev score."""
    run = Path(run)
    folder = run_directory.find_weights(run, checkpoint=checkpoint)
    step = run_directory.step_of(folder)
    score = _dev_bleu(run, folder, step)
    return {
        "name": run.resolve().name,
        "checkpoint": f"{folder.parent.name}/{folder.name}",
        "step": step,
        "crc32": run_directory.checksum(folder / run_directory.WEIGHTS),
        "dev": None if score is None else {"bleu": score, "signature": _bleu_signature(run)},
    }


def _dev_bleu(run, folder, step):
    """Return the dev score of these weights; None if there is none."""
    from aevnmt_tf.training import metrics_file

    if folder.parent.name == run_directory.AVERAGE:
        return run_directory.state(folder).get("dev_bleu")
    lines = metrics_file.MetricsFile(run / run_directory.METRICS).read()
    found = [line.get("dev_bleu") for line in lines if line["step"] == step]
    return next((score for score in reversed(found) if isinstance(score, int | float)), None)


def _bleu_signature(run):
    """Return the signature that the run recorded, or that of the installed sacreBLEU."""
    from aevnmt_tf.evaluation import metrics

    try:
        results = json.loads((run / run_directory.RESULTS).read_text(encoding="utf-8"))
        return results["signatures"]["bleu"]
    except (OSError, ValueError, KeyError, TypeError):
        return metrics.signatures(("bleu",))["bleu"]


def text_forms(translator) -> dict:
    """Return the kind of text that the model takes and returns."""
    hp = translator.hp
    is_moses = hp.text_pipeline == "moses"

    def form(lang, tokenizer, is_source):
        note = line_encoder.text_form(tokenizer, is_moses=is_moses, is_source=is_source)
        if not isinstance(tokenizer, text.VocabularyTokenizer):
            return {"lang": lang, "form": "raw", "note": note}
        if is_moses:
            note = f"{note} (the truecaser and the merges are in {TEXT_FOLDER})"
        return {"lang": lang, "form": "tokenised", "note": note}

    return {
        "source": form(hp.src, translator.x_tokenizer, True),
        "target": form(hp.tgt, translator.y_tokenizer, False),
    }


def git() -> dict | None:
    """Return the commit of this package and whether files differ; None without git."""
    folder = Path(aevnmt_tf.__file__).parent

    def ask(*words):
        command = ["git", "-C", str(folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout.strip()

    try:
        ask("ls-files", "--error-unmatch", "__init__.py")  # not in a repository around it
        return {
            "commit": ask("rev-parse", "HEAD"),
            "changed": bool(ask("status", "--porcelain", ".")),
        }
    except (OSError, subprocess.SubprocessError):
        return None
