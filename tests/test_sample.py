"""The command: pairs made up by the model, one on each line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import aevnmt_tf
from aevnmt_tf import sample, translator
from aevnmt_tf.cli.errors import UserError
from tests.tiny_translator import make, save_run

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return save_run(tmp_path_factory.mktemp("runs") / "run", src_max_len=9)


@pytest.fixture(scope="module")
def loaded(run):
    return aevnmt_tf.load(run)


@pytest.fixture
def command(run, loaded, monkeypatch, capsys):
    """Run the command in this process: code, output, messages."""
    kept = translator.load

    def load(path, *, checkpoint=None):
        if path in ("cond", "joint"):
            return make(path, src_max_len=9)
        return loaded if path == str(run) and checkpoint is None else kept(path)

    monkeypatch.setattr(translator, "load", load)

    def call(*words, model=run):
        code = sample.main(["--model", str(model), *map(str, words)])
        return code, *capsys.readouterr()

    return call


def rows_of(output):
    return [tuple(line.split("\t")) for line in output.splitlines()]


def test_pairs(command, loaded):
    code, output, messages = command("--num", 7, "--seed", 3)
    assert code == 0 and messages == ""
    assert rows_of(output) == loaded.sample(7, seed=3)
    assert output == command("--num", 7, "--seed", 3)[1]
    assert output != command("--num", 7, "--seed", 4)[1]
    assert output.startswith(command("--num", 2, "--seed", 3)[1]), "one by one the same"


def test_jsonl_in_a_file(command, loaded, tmp_path):
    flags = ("--format", "jsonl", "--output", tmp_path / "out")
    code, output, _ = command("--num", 3, *flags)
    rows = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert code == 0 and output == ""
    pairs = enumerate(loaded.sample(3), 1)
    assert rows == [{"line": n, "source": x, "target": y} for n, (x, y) in pairs]


def test_how_words_are_drawn(command, loaded, monkeypatch):
    monkeypatch.setattr(loaded.sampler, "stream", lambda n, **kw: [(str(n), json.dumps(kw))])
    plain = {"seed": 1}
    assert rows_of(command("--num", 2)[1]) == [("2", json.dumps(plain))]
    words = "--num 3 --seed 4 --temperature 0.5 --top_k 6 --top_p 0.7".split()
    assert rows_of(command("--num", 2, "--seed", 0)[1]) == [
        ("2", json.dumps({**plain, "seed": 0}))
    ]
    changed = {"seed": 4, "temperature": 0.5, "top_k": 6, "top_p": 0.7}
    assert rows_of(command(*words)[1]) == [("3", json.dumps(changed))]


def test_interpolate(command, loaded):
    words = ("--interpolate", "a b c", "h")
    code, output, _ = command(*words, "--steps", 6)  # more than a batch
    assert code == 0 and rows_of(output) == loaded.interpolate("a b c", "h", steps=6)
    assert len(rows_of(command(*words)[1])) == 5


def test_line_breaks_inside_a_sentence(command, loaded, monkeypatch):
    monkeypatch.setattr(loaded.sampler, "stream", lambda *_, **__: [("a\nb", "c\td\re")])
    assert command("--num", 1)[1] == "a b\tc d e\n"


def test_an_interruption_leaves_whole_lines(command, loaded, tmp_path, monkeypatch):
    def stream(*_, **__):
        yield from [("a", "b"), ("c", "d")]
        raise KeyboardInterrupt

    monkeypatch.setattr(loaded.sampler, "stream", stream)
    code, _, messages = command("--num", 9, "--output", tmp_path / "out")
    assert code == 130 and messages == "aevnmt sample: interrupted\n"
    assert (tmp_path / "out").read_text() == "a\tb\nc\td\n"


@pytest.mark.parametrize(
    "words, sentence",
    [
        ([], "give either --num N or --interpolate A B"),
        (["--num", 2, "--interpolate", "a", "b"], "give either --num N or --interpolate"),
        (["--num", 2, "--steps", 3], "--steps needs --interpolate"),
        (["--num", 0], "--num: must be 1 or more"),
        (["--num", "two"], "--num: invalid int value: 'two'"),
        (["--num", 2, "--seed", 2**31], "--seed: must be"),
        (["--num", 2, "--temperature", 0], "--temperature: temperature must be"),
        (["--num", 2, "--temperature", "nan"], "--temperature: temperature must be"),
        (["--num", 2, "--top_p", 1.5], "--top_p: top_p must be"),
        (["--interpolate", "a", "b", "--steps", 1], "--steps: must be 2 or more"),
        (["--interpolate", "a", "b", "--seed", 1], "--seed has no effect"),
        (
            ["--interpolate", "a", "b", "--temperature", 1],
            "--temperature has no effect",
        ),
        (["--interpolate", "a", "b", "--top_k", 4], "--top_k has no effect"),
        (["--interpolate", "a", "b", "--top_p", 1], "--top_p has no effect"),
        (["--interpolate", "a"], "--interpolate"),
        (["--num", 2, "--model", "nowhere"], "nowhere is not a training run"),
        (["--num", 2, "--model", "cond"], "a cond model has no P(x)"),
        (["--interpolate", "a", "b", "--model", "joint"], "(model_type joint) has no z"),
        (["--interpolate", "a", "b", "--model", "cond"], "(model_type cond) has no z"),
        (["--num", 2, "--output", "/nowhere/out"], "cannot write /nowhere/out"),
    ],
)
def test_mistakes_are_one_sentence(command, tmp_path, words, sentence):
    out = tmp_path / "out"
    out.write_text("precious\n")
    code, output, messages = command("--output", out, *words)
    assert code == 2 and output == ""
    assert sentence in messages and messages.count("\n") == 1
    assert out.read_text() == "precious\n"


@pytest.mark.parametrize("flag", ["--num", "--steps", "--top_k"])
def test_numbers_that_are_too_large(flag):
    parse = sample.parser().parse_args
    parse(["--model", "run", flag, "2147483647"])
    with pytest.raises(
        UserError, match=f"{flag}: .*must be 2147483647 or less, not 2147483648"
    ):
        parse(["--model", "run", flag, "2147483648"])


# The verb over a made-up translator, which does not wait for TensorFlow.
ENDLESS = """
import sys
from aevnmt_tf import sample, translator
class Translator:
    class model:
        decoder = "there"
    class hp:
        label_smoothing = 0.0
    def stream(self, number, **options):
        return (("a b", "c d") for _ in range(number))
Translator.sampler = Translator()
translator.load = lambda *_, **__: Translator()
sys.exit(sample.main("--model R --num 100000000".split()))
"""


def test_a_reader_that_has_had_enough():
    """`| head -n 1` is quiet, and no traceback follows."""
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"a b\tc d\n"
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()
