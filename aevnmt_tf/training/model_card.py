"""MODEL_CARD.md: what a trained model is, what it was trained on and how good it is.

The card depends on the files of a run alone, so `train` and `export` write the same one.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aevnmt_tf import hparams
from aevnmt_tf.cli import tables
from aevnmt_tf.hparams import Hparams
from aevnmt_tf.storage import run_directory

FILE = "MODEL_CARD.md"
COUNTS = "counts.json"
_PATHS = ("out_dir", "note", "license", "train_prefix", "dev_prefix", "test_prefix")


def text(runs: Sequence[str | os.PathLike[str]], *, usage: str) -> str:
    """Return the card of the model in a run, or of the ensemble of several.

    Args:
        runs: The out_dirs of training runs.
        usage: Markdown that says how to load the model.
    """
    settings = [hparams.load(run_directory.settings_file(run)) for run in runs]
    first = settings[0]
    kind = first.model_type if len(runs) == 1 else f"ensemble of {len(runs)}"
    head = (
        "---\n"
        f"license: {first.license or 'unknown'}\n"
        f"language: [{first.src}, {first.tgt}]\n"
        f"tags: [translation, {first.model_type}]\n"
        "library_name: aevnmt_tf\n"
        "---\n\n"
        f"# Translation model: {kind}, {first.src} to {first.tgt}"
    )
    parts = [head, "## How to load it\n\n" + usage]
    for run, hp in zip(runs, settings, strict=True):
        name = Path(run).resolve().name
        parts.append(f"## {'The model' if len(runs) == 1 else name}\n\n{hp.note or name}")
        parts += _sections(Path(run), hp)
    return "\n\n".join(parts) + "\n"


def usage_of_run(run: str | os.PathLike[str]) -> str:
    """Return how to load a run from the shell and from Python."""
    shell = f"```bash\naevnmt translate --model {run}\n```"
    return f'{shell}\n\n```python\nimport aevnmt_tf\n\nmodel = aevnmt_tf.load("{run}")\n```'


def _sections(run: Path, hp: Hparams) -> list[str]:
    results = run_directory.read_json(run / run_directory.RESULTS)
    counts = run_directory.read_json(run / COUNTS).get("corpora", [])
    return [
        "### Data\n\n" + _data(hp, counts),
        "### Scores on the development set\n\n" + _scores(results),
        "### Training\n\n" + _training(results),
        "### Settings that differ from the defaults\n\n" + _changed(hp),
    ]


def _data(hp: Hparams, counts: list[dict[str, Any]]) -> str:
    rows = [("training corpus", "sentence pairs read", "used")]
    for one in counts:
        name = "/".join(Path(one["name"]).parts[-2:])
        rows.append((name, f"{one['read']:,}", f"{one['kept']:,}"))
    if hp.train_prefix is None:
        about = "The demo corpus of aevnmt_tf, which a grammar generates."
        return f"{about}\n\n{_table(rows)}"
    sets = [name for name in ("dev_prefix", "test_prefix") if getattr(hp, name)]
    others = "\n".join(f"- `{name}`: {getattr(hp, name)}" for name in sets)
    return _table(rows) + (f"\n\n{others}" if others else "")


def _scores(results: dict[str, Any]) -> str:
    best = results.get("best")
    if not best:
        return "None: there was no development set, or training has not ended."
    signatures = results.get("signatures", {})
    rows = [("metric", "score", "sacreBLEU signature")]
    for name, signature in signatures.items():
        if f"dev_{name}" in best:
            rows.append((name, f"{best[f'dev_{name}']:.2f}", f"`{signature}`"))
    if "dev_kl" in best:
        rows.append(("KL(q, p) in nats", f"{best['dev_kl']:.2f}", ""))
    if "dev_information" in best:
        rows.append(("information in z, nats", f"{best['dev_information']:.2f}", ""))
    warnings = "".join(f"\n\n**Warning:** {line}" for line in results.get("warnings", []))
    note = "The development set chose the weights, so these scores are slightly optimistic."
    return f"{_table(rows)}\n\n{note}{warnings}"


def _training(results: dict[str, Any]) -> str:
    if "step" not in results:
        return "Training has not ended."
    machine, versions = results.get("machine", {}), results.get("versions", {})
    return _table(
        [
            ("", ""),
            ("updates", f"{results['step']:,} ({results.get('reason')})"),
            ("seed", str(results.get("seed"))),
            ("time", f"{results.get('wall_time_seconds', 0) / 60:.0f} minutes"),
            ("machine", f"{machine.get('cores')} cores, {machine.get('processor')}"),
            ("versions", ", ".join(f"{name} {value}" for name, value in versions.items())),
        ]
    )


def _changed(hp: Hparams) -> str:
    usual = hparams.load().to_dict()
    rows = [("setting", "value", "default")]
    for name, value in hp.to_dict().items():
        if value != usual[name] and name not in _PATHS:
            rows.append((f"`{name}`", str(value), str(usual[name])))
    return _table(rows)


def _table(rows: Sequence[Sequence[str]]) -> str:
    return tables.markdown(rows[0], rows[1:]).rstrip("\n")
