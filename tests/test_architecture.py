"""Imports point one way, and each module is tested: a walk over the package."""

import ast
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "aevnmt_tf"

VERBS = set(
    "get_data prepare train translate evaluate score sample probe".split()
    + "export serve experiment".split()
)

WORK = {"training", "evaluation", "probing", "plots", "experiments", "serving"}

# From the bottom up. A part may import what lies below it, unless EXCEPT says so. Parts of
# one layer do not import each other; those of WORK may, one way.
LAYERS = [
    {"cli"},
    {"storage"},
    {"hparams", "search"},
    {"text", "nets"},
    {"data", "model"},
    {"translator"},
    WORK,
    VERBS,
    {"__main__"},
]
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}

# What a part may not import although it lies below.
EXCEPT = {
    "nets": {"hparams"},  # sizes come as keyword arguments
    "model": {"text"},  # it sees ids only
}
# Modules that these parts alone use.
ONLY_FOR = {"cli.command": VERBS | {"__main__", "cli"}, "cli.flags": VERBS | {"cli"}}
# `import aevnmt_tf` gives a few names and must stay light.
FACADE = {"cli", "hparams", "translator"}
FACADE_NAMES = {"__version__", "load"}


def part_of(module: str) -> str:
    """Return the part of the package that a module belongs to: aevnmt_tf.text.moses -> text."""
    return (module.split(".") + ["__init__"])[1]


def imported(path: pathlib.Path, package: pathlib.Path) -> list[tuple[int, str]]:
    """(line, module) for every import in a file, those inside functions included."""
    here = [package.name, *path.relative_to(package).with_suffix("").parts]
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                is_module = alias.name not in FACADE_NAMES and (
                    module == package.name or module == f"{package.name}.cli"
                )
                found.append((node.lineno, f"{module}.{alias.name}" if is_module else module))
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            found += [(node.lineno, a.value) for a in node.args if isinstance(a, ast.Constant)]
    return found


def objection(part: str, module: str) -> str | None:
    """What is wrong with `part` importing `module`, if anything."""
    target, name = part_of(module), ".".join(module.split(".")[1:3])
    if target == part or target == "__init__":
        return None
    if target not in HEIGHT:
        return f"{target} has no place in the layers"
    if part == "__init__":
        return None if target in FACADE else "import aevnmt_tf must stay light"
    if target in EXCEPT.get(part, ()):
        return f"{part} must not know {target}"
    if part not in ONLY_FOR.get(name, {part}):
        return f"{name} is for commands only"
    if part in VERBS and target in VERBS:
        return "no verb imports a verb"
    if HEIGHT[target] == HEIGHT[part]:
        return None if part in WORK else f"{part} and {target} are neighbours"
    return None if HEIGHT[target] < HEIGHT[part] else f"{target} lies above {part}"


def violations(package: pathlib.Path) -> list[str]:
    """Every import that points the wrong way, as `file:line: reason`."""
    found = []
    edges: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).with_suffix("")
        part = part_of(".".join([package.name, *name.parts]))
        if part != "__init__" and part not in HEIGHT:
            found.append(f"{name}.py: {part} has no place in the layers")
            continue
        for line, module in imported(path, package):
            root = module.split(".")[0]
            if root in ("tools", "tests"):
                found.append(f"{name}.py:{line}: the package never imports {root}")
            if root != package.name:
                continue
            target = part_of(module)
            reason = objection(part, module)
            if reason:
                found.append(f"{name}.py:{line}: {reason}")
            else:
                edges.setdefault(part, set()).add(target)
    for part, targets in edges.items():
        for target in targets:
            if part < target and part in edges.get(target, ()):
                found.append(f"{part} and {target} import each other")
    return found


def test_imports_point_one_way():
    assert violations(PACKAGE) == []


def plant(folder, **files):
    """A made-up package; `text___files` stands for text/files.py."""
    package = folder / "aevnmt_tf"
    for name, source in {"__init__": "", **files}.items():
        path = package.joinpath(*name.split("___")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return package


GOOD = {
    "cli___errors": "import sys",
    "storage___lines": "from aevnmt_tf.cli.errors import UserError",
    "hparams___declarations": "from aevnmt_tf.hparams import own\nimport aevnmt_tf.storage",
    "search": "import tensorflow as tf",
    "nets___cells": "from aevnmt_tf.nets import matrix_products\nfrom . import matrix_products",
    "text___moses": "from aevnmt_tf.cli.errors import UserError\nfrom aevnmt_tf import hparams",
    "data___pairs": "from aevnmt_tf import text\nfrom ..text.moses import load",
    "model": "from aevnmt_tf import nets, __version__",
    "translator": "from aevnmt_tf import data, model, search, text",
    "training___loop": "from aevnmt_tf import evaluation, translator",
    "train": "def run():\n    from aevnmt_tf.cli import command\n    import aevnmt_tf.training",
    "__main__": "import importlib\nimportlib.import_module('aevnmt_tf.train')",
    "__init__": "def load():\n    from aevnmt_tf import translator",
}


def test_the_rules_allow_the_design(tmp_path):
    assert violations(plant(tmp_path, **GOOD)) == []


@pytest.mark.parametrize(
    "file, source, reason",
    [
        ("cli___errors", "from aevnmt_tf import hparams", "hparams lies above cli"),
        ("storage___lines", "import aevnmt_tf.text.moses", "text lies above storage"),
        ("hparams___conflicts", "from aevnmt_tf import text", "text lies above hparams"),
        ("search", "from aevnmt_tf.model import Aevnmt", "model lies above search"),
        ("search", "from aevnmt_tf import hparams", "search and hparams are neighbours"),
        ("nets___cells", "from aevnmt_tf import hparams", "nets must not know hparams"),
        ("nets___cells", "from ..hparams import load", "nets must not know hparams"),
        ("nets___cells", "from .. import text", "nets and text are neighbours"),
        ("text___moses", "from aevnmt_tf import data", "data lies above text"),
        ("text___moses", "from aevnmt_tf.cli import command", "command is for commands only"),
        ("data___pairs", "import aevnmt_tf.cli.flags", "flags is for commands only"),
        ("model", "from aevnmt_tf.text import UNK", "model must not know text"),
        ("model", "from aevnmt_tf import translator", "translator lies above model"),
        ("translator", "import aevnmt_tf.training.loop", "training lies above translator"),
        ("training___loop", "from aevnmt_tf import train", "train lies above training"),
        ("train", "from aevnmt_tf.prepare import run", "no verb imports a verb"),
        ("train", "def f():\n  from . import translate", "no verb imports a verb"),
        ("train", "import aevnmt_tf.__main__", "__main__ lies above train"),
        ("train", "import tools.get_data", "the package never imports tools"),
        ("__init__", "from aevnmt_tf import training", "import aevnmt_tf must stay light"),
        (
            "text___moses",
            "import importlib\nimportlib.import_module('aevnmt_tf.data')",
            "data lies",
        ),
        ("utils", "import os", "utils has no place in the layers"),
        ("train", "from aevnmt_tf import utils", "utils has no place in the layers"),
        ("evaluation___x", "from aevnmt_tf import training", "import each other"),
    ],
)
def test_each_rule_catches_a_planted_violation(tmp_path, file, source, reason):
    found = violations(plant(tmp_path, **{**GOOD, file: source}))
    assert any(reason in line for line in found), found
    assert len(found) == 1


def test_a_name_means_one_thing():
    """No two modules and no two classes share a name."""
    names = []
    for path in PACKAGE.rglob("*.py"):
        names += [] if path.stem.startswith("__") else [f"module {path.stem}"]
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                names.append(f"class {node.name}")
    assert sorted({name for name in names if names.count(name) > 1}) == []


# Modules that have no test file of their name: the files that test them, and why those.
ELSEWHERE = {
    "model/test_reference.py": (
        "a NumPy twin computes all nets of a model together",
        "nets/cells nets/embedding nets/encoder nets/latent_networks nets/recurrent_stack "
        "nets/source_lm nets/decoder/attention nets/decoder/base_decoder "
        "nets/decoder/tf_nmt_decoder model/dropout",
    ),
    "model/test_tf_nmt_forms.py": (
        "a NumPy twin computes all of TF-NMT's nets together",
        "nets/tf_nmt/gnmt_decoder nets/tf_nmt/lstm_cells nets/tf_nmt/plain_decoder "
        "nets/tf_nmt/tf_nmt_encoder",
    ),
    "test_evaluate.py": (
        "they are the parts of one command",
        "evaluation/evaluation_report evaluation/evaluation_request evaluation/evaluation_run",
    ),
    "test_probe.py": (
        "they show what the command finds",
        "probing/probe_report plots/probe_plot",
    ),
    "test_translate.py": (
        "the command runs them",
        "translator/corpus_jobs translator/corpus_parts",
    ),
    "slow/test_ray.py": ("needs processes", "translator/ray_engine"),
    "test_score.py": ("the command reads pairs", "storage/pair_streams"),
    "test_train.py": (
        "the command from beginning to end",
        "training/training_run training/model_card",
    ),
    "test_get_data.py": ("the command gets them", "data/downloads data/published_corpora"),
    "test_prepare.py": (
        "the command writes and reads the folder",
        "data/corpora data/preparation_manifest data/text_folder",
    ),
    "plots/test_attention_plot.py": ("all plots draw with it", "plots/figures"),
    "slow/test_latent_use.py": ("the picture of what was found", "plots/latent_plot"),
    "cli/test_command.py": ("every command has both", "cli/errors cli/flags cli/quiet"),
    "experiments/test_experiment_plan.py": ("the keys of a plan file", "experiments/plan_keys"),
    "experiments/test_scheduler.py": ("it starts processes", "experiments/processes"),
    "experiments/test_score_tables.py": ("the tables on pages", "experiments/result_pages"),
    "text/test_saved_model.py": ("both tokenizers", "text/tokenizer text/tokenizer_files"),
    "training/test_tensorboard.py": ("every report has them", "training/report_keys"),
    "serving/test_export.py": ("the command writes them", "export serving/export_record"),
    "serving/test_signatures.py": ("every signature is exported", "serving/saved_model"),
    "serving/test_batching.py": (
        "they make batches",
        "serving/batching_file serving/request_parts",
    ),
    "serving/test_grpc_service.py": (
        "messages of gRPC",
        "serving/protos",
    ),
    "serving/test_rest_server.py": (
        "a server that runs",
        "serving/predictions serving/server serving/servable serving/server_options "
        "serving/status",
    ),
    "serving/test_versions.py": ("a version is warm before it answers", "serving/warmup"),
}


def test_every_module_has_a_test_file_or_a_reason():
    tests = pathlib.Path(__file__).parent
    own, others = set(), {name for _, names in ELSEWHERE.values() for name in names.split()}
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).with_suffix("")
        if path.stem not in ("__init__", "__main__"):
            own.add(name.as_posix())
    mirrored = {n for n in own if (tests / n).with_name(f"test_{n.split('/')[-1]}.py").exists()}
    untested = sorted(own - mirrored - others)
    assert not untested, (
        f"give them tests/ROOM/test_MODULE.py, or a line in ELSEWHERE: {untested}"
    )
    assert others <= own - mirrored, f"not needed: {sorted(others - own | others & mirrored)}"
    assert [name for name in ELSEWHERE if not (tests / name).is_file()] == []


HEAVY = "('tensorflow', 'keras', 'tf_keras', 'tensorflow_probability', 'tensorflow_text')"


def run_python(source):
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    "module",
    [
        "aevnmt_tf",
        *(f"aevnmt_tf.{n}" for n in "hparams cli.errors cli.command cli.flags".split()),
    ],
)
def test_light_modules_do_not_import_tensorflow(module):
    source = f"import sys, {module}\nprint([m for m in {HEAVY} if m in sys.modules])"
    result = run_python(source)
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_help_of_every_verb_does_not_import_tensorflow():
    existing = sorted(verb for verb in VERBS if (PACKAGE / f"{verb}.py").exists())
    source = f"""
import importlib, sys
for verb in {existing}:
    try:
        importlib.import_module("aevnmt_tf." + verb).main(["--help"])
    except SystemExit as end:
        assert not end.code, verb
    loaded = [m for m in {HEAVY} if m in sys.modules]
    assert not loaded, f"{{verb}} --help imports {{loaded}}"
"""
    result = run_python(source)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("usage:") == len(existing)
