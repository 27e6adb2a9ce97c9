"""tools/serve_client.py against a real server."""

import importlib
import json
import pathlib
import socket
import subprocess
import sys

import pytest
import tensorflow as tf

from tests.serving.conftest import running_server

TOOLS = pathlib.Path(__file__).parents[2] / "tools"
SOURCE = tf.TensorSpec([None], tf.string, name="source")
TARGET = tf.TensorSpec([None], tf.string, name="target")
SEED = tf.TensorSpec([None], tf.int32, name="seed")


class Model(tf.Module):
    """All signatures of an export but `embed`, with answers that one can compute by hand."""

    @tf.function(input_signature=[SOURCE])
    def serving_default(self, source):
        lengths = tf.strings.length(source, unit="UTF8_CHAR")
        return {"translation": tf.strings.upper(source, "utf-8"), "score": -f32(lengths)}

    @tf.function(input_signature=[SOURCE])
    def nbest(self, source):
        texts = tf.stack([source, source + "!", tf.fill(tf.shape(source), "")], 1)
        scores = tf.fill([tf.size(source), 1], 1.0) * [[-1.0, -2.0, tf.float32.min]]
        return {"translations": texts, "scores": scores}

    @tf.function(input_signature=[SOURCE, SEED])
    def sample(self, source, seed):
        draws = [tf.strings.as_string(seed), tf.strings.as_string(2 * seed)]
        return {"translations": tf.stack([source + "-" + draw for draw in draws], 1)}

    @tf.function(input_signature=[SOURCE, TARGET])
    def score(self, source, target):
        lengths = -f32(tf.strings.length(target))
        return {"log_py": lengths, "log_px": lengths / 2, "elbo": 1.5 * lengths}

    @tf.function(input_signature=[SOURCE])
    def attention(self, source):
        pieces = tf.strings.split(source).to_tensor()  # [B, Tx]
        size = tf.shape(pieces)
        weights = tf.eye(size[1], batch_shape=size[:1]) / 2
        return {
            "translation": source,
            "source_pieces": pieces,
            "target_pieces": pieces,
            "attention": weights,
        }


def f32(tensor):
    return tf.cast(tensor, tf.float32)


NAMES = ("serving_default", "nbest", "sample", "score", "attention")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    model = Model()
    signatures = {name: getattr(model, name) for name in NAMES}
    tf.saved_model.save(model, str(folder / "1"), signatures=signatures)
    with running_server(folder) as running:
        yield running.server


@pytest.fixture
def client(monkeypatch):
    """The module of the command."""
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("serve_client")


@pytest.fixture(params=["rest", "grpc"])
def ask(request, client, server, capsys):
    """Calls the client in this process; gives exit code, stdout and stderr."""
    where = {"rest": server.url, "grpc": f"127.0.0.1:{server.grpc_port}"}[request.param]

    def call(*words):
        code = client.main([f"--{request.param}", where, *words])
        return code, *capsys.readouterr()

    return call


def test_translates(ask):
    assert ask("a b", "zürich", "") == (0, "A B\nZÜRICH\n\n", "")


def test_json_has_everything(ask):
    code, out, _ = ask("--format", "json", "ü")
    assert code == 0
    assert json.loads(out) == {"source": "ü", "translation": "Ü", "score": -1.0}


def test_batches_keep_the_order(ask, tmp_path):
    lines = [f"line {i}" for i in range(7)]
    (tmp_path / "source.txt").write_text("\n".join(lines))  # no newline at the end
    code, out, _ = ask("--input", str(tmp_path / "source.txt"), "--batch_size", "3")
    assert (code, out.splitlines()) == (0, [line.upper() for line in lines])


def test_n_best_leaves_out_what_is_not_there(ask):
    assert ask("--signature", "nbest", "a", "b") == (0, "a\ta!\nb\tb!\n", "")
    row = json.loads(ask("--signature", "nbest", "--format", "json", "a")[1])
    assert row["translations"] == ["a", "a!", ""] and row["scores"][:2] == [-1, -2]


def test_each_line_has_a_seed(ask):
    words = ["--signature", "sample", "--seed", "7", "--batch_size", "2"]
    assert ask(*words, "a", "b", "c") == (0, "a-7\ta-14\nb-8\tb-16\nc-9\tc-18\n", "")


def test_scores(ask):
    words = ["--signature", "score", "--batch_size", "1"]
    expected = "elbo\tlog_px\tlog_py\n-4.5\t-1.5\t-3\n-6\t-2\t-4\n"
    assert ask(*words, "a\tabc", "b\tabcd") == (0, expected, "")
    code, out, err = ask(*words, "a\tabc", "b")
    assert code == 2 and "line 2 is not SOURCE, tab, TARGET" in err


def test_attention_without_padding(ask):
    code, out, _ = ask("--signature", "attention", "a b", "c")
    assert code == 0
    assert out.split("\n\n") == ["\ta\tb\na\t0.500\t0.000\nb\t0.000\t0.500", "\tc\nc\t0.500\n"]


def test_unknown_model_and_signature(ask):
    code, out, err = ask("--model_name", "other", "a")
    assert (code, out) == (2, "") and 'no model "other"' in err and err.count("\n") == 1
    code, out, err = ask("--signature", "embed", "a")
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert "has no signature embed; it has attention, nbest, sample, score" in err
    code, _, err = ask("--version", "9", "a")
    assert code == 2 and 'no model "aevnmt" of version 9' in err


def test_what_the_server_refuses(ask):
    code, _, err = ask("x" * 30_000)
    assert code == 2 and "refused the request" in err and "30000" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--rest", "ftp://x"], "must be a URL"),
        (["--grpc", "8500"], "must be HOST:PORT"),
        (["--seed", "-1"], "must be from 0"),
        (["--timeout", "0"], "above 0"),
        (["--batch_size", "0"], "1 or more"),
        (["--retries", "-1"], "0 or more"),
        (["--signature", "other"], "invalid choice"),
        (["--input", "no/such/file"], "no/such/file cannot be read"),
        (["--input", "-", "a"], "not both"),
        (["--rest", "http://x", "--grpc", "x:1"], "not allowed with"),
        (["\udcff"], "not valid UTF-8"),
    ],
)
def test_mistakes_are_one_sentence(client, capsys, words, sentence):
    assert client.main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and sentence in err and err.count("\n") == 1


def test_invalid_utf8_in_a_file(ask, tmp_path):
    (tmp_path / "latin1").write_bytes("Zürich\n".encode("latin-1"))
    code, out, err = ask("--input", str(tmp_path / "latin1"))
    assert (code, out) == (2, "") and "not valid UTF-8" in err


@pytest.mark.parametrize("flag", ["--rest", "--grpc"])
def test_no_server(client, capsys, flag):
    with socket.socket() as taken:  # bound, but it does not listen
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert client.main([flag, address, "--timeout", "0.5", "a"]) == 2
    err = capsys.readouterr().err
    assert "there is no" in err and address in err and err.count("\n") == 1


# -S leaves out installed packages, as a Python without them would.
ALONE = """
import pathlib, runpy, sys
path, *sys.argv[1:] = sys.argv[1:]
sys.path.insert(0, str(pathlib.Path(path).parent))
try:
    runpy.run_path(path, run_name="__main__")
finally:
    assert not [name for name in sys.modules if name.startswith(("tensorflow.python", "numpy"))]
"""


@pytest.mark.parametrize("kind", ["rest", "grpc"])
def test_needs_little(server, kind):
    """REST: the standard library; gRPC: not all of TensorFlow, which would chat on stderr."""
    flags = ["-I", "-S"] if kind == "rest" else ["-I"]
    where = server.url if kind == "rest" else f"127.0.0.1:{server.grpc_port}"
    words = ["-c", ALONE, TOOLS / "serve_client.py", f"--{kind}", where]
    done = subprocess.run(
        [sys.executable, *flags, *map(str, words)],
        input="zürich\nb\r\n".encode(),
        capture_output=True,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert done.stdout.decode() == "ZÜRICH\nB\n"
