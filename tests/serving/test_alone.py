"""An exported model needs TensorFlow and the operations of tensorflow-text, and no more."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text

from aevnmt_tf.serving import op_check

pytestmark = pytest.mark.slow  # each is a process that imports TensorFlow

LINES = ["one two three", "", "red house and Zürich", "日本 😀", "five"]

# A process that has TensorFlow and tensorflow-text but not this package.
LOADER = """
import json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "aevnmt_tf":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
found = model.signatures["serving_default"](source=tf.constant(json.loads(sys.argv[2])))
one = tf.constant(["one"])
scores = model.signatures["score"](source=one, target=one)
print(json.dumps({
    "translation": [text.decode() for text in found["translation"].numpy()],
    "score": found["score"].numpy().tolist(),
    "elbo": scores["elbo"].numpy().tolist(),
    "modules": [name for name in sys.modules if name.startswith("aevnmt")],
}))
"""

# saved_model_cli, with the operations of tensorflow-text.
CLI = """
import tensorflow_text
from tensorflow.python.tools import saved_model_cli
saved_model_cli.main()
"""


@pytest.fixture(scope="module")
def expected(offline):
    translations = [t[0] for t in offline.n_best(LINES, n_best=1)]
    return [t.text for t in translations], [t.score for t in translations]


def run_python(source, *words):
    """Isolated: no folder of ours on the path."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", source, *map(str, words)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done


def test_a_process_without_this_package(folder, expected, offline):
    done = run_python(LOADER, folder, json.dumps(LINES))
    found = json.loads(done.stdout)
    assert found["translation"] == expected[0] and found["modules"] == []
    np.testing.assert_allclose(found["score"], expected[1], atol=1e-4)
    elbo = offline.score(["one"], ["one"], samples=3)["elbo"]
    np.testing.assert_allclose(found["elbo"], elbo, atol=1e-4)
    assert "custom gradients" not in done.stderr


def test_saved_model_cli_shows_and_runs(folder, expected):
    done = run_python(CLI, "show", "--dir", folder, "--all")
    assert "signature_def['serving_default']" in done.stdout
    assert (
        "inputs['source'] tensor_info:\n        dtype: DT_STRING\n        shape: (-1)"
        in done.stdout
    )
    assert "N/A" not in done.stdout
    words = ["run", "--dir", folder, "--tag_set", "serve", "--signature_def", "serving_default"]
    done = run_python(CLI, *words, "--input_exprs", f"source={LINES[:1]}")
    assert str([expected[0][0].encode()]) in done.stdout


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_c_api(folder, expected, tmp_path):
    """What loads a model in TensorFlow Serving; there is no Python in the process."""
    wheel = Path(tf.sysconfig.get_lib())
    program = tmp_path / "translate"
    command = [
        *("cc", "-O1", "-Wall", "-Werror", "-D_GNU_SOURCE", f"-I{tf.sysconfig.get_include()}"),
        *(Path(__file__).with_name("translate.c"), "-o", program),
        *(f"-L{wheel}", "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"),
        *(f"-Wl,-rpath,{wheel}", "-Wl,--disable-new-dtags"),
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    operations = Path(tensorflow_text.__file__).parent / "python" / "ops"
    (graph,) = op_check.read(folder).meta_graphs
    signature = graph.signature_def["serving_default"]
    names = [
        signature.inputs["source"].name,
        signature.outputs["translation"].name,
        signature.outputs["score"].name,
    ]
    words = [program, folder, operations / "_sentencepiece_tokenizer.so", *names]
    done = subprocess.run(
        list(map(str, words)),
        input="".join(f"{line}\n" for line in LINES),
        capture_output=True,
        text=True,
        env={},
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t", 1) for line in done.stdout.splitlines()]
    assert [text for _, text in rows] == expected[0]
    np.testing.assert_allclose([float(score) for score, _ in rows], expected[1], atol=1e-4)
