"""The command: labelled sentences in, how well z tells them apart out."""

import gzip
import json
import random
import sys

import numpy as np
import pytest
from matplotlib import image as images

from aevnmt_tf import probe, translator
from aevnmt_tf.plots import probe_plot
from aevnmt_tf.probing import hmc_chains
from tests.tiny_translator import make

WORDS = {"first": "abcd", "second": "efgh"}
QUICK = ["--chains", "2", "--num_warmup", "20", "--num_draws", "20"]


@pytest.fixture(scope="module")
def models():
    """Translators by the name that they are loaded with, traced once."""
    found = {name: make(name, src="en", tgt="de") for name in ("source_only", "cond", "joint")}
    found["other"] = make("cond", src="fr", tgt="de", train_prefix="corpus")
    return found


def sentences(letters, *, count, seed):
    dice = random.Random(seed)
    return [" ".join(dice.choices(letters, k=dice.randint(2, 7))) for _ in range(count)]


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two sets of different words, in first.en and second.en.gz, with targets."""
    folder = tmp_path_factory.mktemp("data")
    for seed, (name, letters) in enumerate(WORDS.items()):
        write(folder / f"{name}.en", sentences(letters, count=40, seed=seed))
        write(folder / f"{name}.de", sentences(letters, count=40, seed=seed + 9))
    plain = folder / "second.en"
    (folder / "second.en.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    return folder


@pytest.fixture
def sets(data):
    return ["--data", f"A={data}/first", "--data", f"B={data}/second"]


@pytest.fixture
def laplace(monkeypatch):
    """The sampler, replaced by what it starts from: draws from N(0, I)."""

    def sample(log_prob, shape, *, options):
        size = [options.num_draws, options.chains, *shape]
        values = np.random.default_rng(options.seed).normal(size=size)
        return hmc_chains.Draws(values, step_size=1.0, acceptance=0.8, seconds=0.5)

    monkeypatch.setattr(hmc_chains, "sample", sample)


@pytest.fixture
def command(models, monkeypatch, capsys):
    """Run the command in this process: code, output, messages."""
    kept = translator.load

    def load(path, *, checkpoint=None, **overrides):
        return models[str(path)] if str(path) in models else kept(path)

    monkeypatch.setattr(translator, "load", load)

    def call(*words, model="source_only"):
        code = probe.main(["--model", model, *QUICK, *map(str, words)])
        output, messages = capsys.readouterr()
        return code, output, messages

    return call


def test_json_has_everything(command, sets, models, tmp_path):
    """A real run, with all outputs at once."""
    plot, folder = tmp_path / "probe.png", tmp_path / "projector"
    code, output, messages = command(
        *(*sets, "--json", "--plot", plot, "--projector", folder),
        *("--features", "mean", "--baseline_model", "cond"),
    )
    assert code == 0
    found = json.loads(output)
    assert (found["sentences"], found["train"], found["held_out"]) == (80, 64, 16)
    assert found["classes"] == ["A", "B"] and found["z"] == "q(z|x)" and found["seed"] == 1
    assert found["counts"] == {name: {"train": 32, "held_out": 8} for name in "AB"}
    names = ["z mean", "encoder average (cond)", "random", "majority class"]
    assert [result["features"] for result in found["results"]] == names
    sizes = [result["dimensions"] for result in found["results"]]
    assert sizes == [4, 12, 4, None]
    truth = found["held_out_sentences"]["target"]
    for result in found["results"]:
        right = np.mean([a == b for a, b in zip(result["predicted"], truth, strict=True)])
        assert result["accuracy"]["averaged"] == right
        assert np.sum(result["confusion"]) == 16
        assert np.trace(result["confusion"]) == 16 * right
        np.testing.assert_allclose(np.sum(result["probability"], axis=1), 1.0)
        if result["dimensions"]:
            assert 0.9 < result["r_hat"] < 3 and 0 <= result["ess"] <= 1000
    assert found["results"][0]["accuracy"]["mean"] > 0.75  # the words are different
    assert found["results"][-1]["accuracy"]["mean"] == 0.5
    assert "80 sentences, 64 for training and 16 held out (A 40, B 40)" in messages
    assert "z mean, 4 dimensions: R-hat" in messages
    assert images.imread(plot).std() > 0.01
    rows = (folder / "z_mean_metadata.tsv").read_text().splitlines()
    assert rows[0].split("\t") == ["label", "set", "line", "part", "text"]
    assert len(rows) == 81 and sum("held out" in row for row in rows) == 16
    vectors = np.loadtxt(folder / "z_mean.tsv", delimiter="\t")
    texts = [row.split("\t")[-1] for row in rows[1:]]
    np.testing.assert_allclose(vectors, models["source_only"].embed(texts)[0], atol=1e-4)


def test_a_table_in_plain_lines(command, sets, laplace):
    code, output, _ = command(*sets, "--features", "mean")
    head, *rows = output.splitlines()
    assert code == 0
    assert head.split()[:4] == ["features", "dim", "accuracy", "95"]
    assert [row.split("  ")[0] for row in rows] == ["z mean", "random", "majority class"]
    assert rows[0].split()[-1] == "0.5" and rows[2].split()[3] == "0.500"
    assert "\x1b" not in output
    assert output == command(*sets, "--features", "mean")[1]
    assert output != command(*sets, "--features", "mean", "--seed", 2)[1]


def test_a_drawn_table_on_a_terminal(command, sets, laplace, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    code, output, _ = command(*sets, "--features", "sample")
    assert code == 0
    assert "z sample" in output and "majority class" in output and "0.500" in output


def test_labels_of_a_file(command, data, tmp_path, laplace):
    """Three classes, from one file of sentences and one of labels."""
    labels = ["x", " y ", "z", "y"] * 10
    path = write(tmp_path / "labels", labels)
    code, output, messages = command(
        "--data", data / "first", "--labels", path, "--json", "--features", "mean"
    )
    found = json.loads(output)
    assert code == 0 and found["classes"] == ["x", "y", "z"]
    lines = found["held_out_sentences"]["line"]
    assert found["held_out_sentences"]["target"] == [labels[n - 1].strip() for n in lines]
    assert set(found["held_out_sentences"]["set"]) == {"first"}
    assert found["counts"]["y"] == {"train": 16, "held_out": 4}
    assert np.shape(found["results"][0]["probability"]) == (8, 3)


def test_a_number_of_a_file(command, data, tmp_path, laplace):
    """The number of times that a word is there."""
    lines = (data / "first.en").read_text().splitlines()
    path = write(tmp_path / "count.txt", [f"{line.count('a')}.5" for line in lines])
    plot = tmp_path / "plot.svg"
    code, output, _ = command(
        "--data",
        data / "first",
        "--target",
        path,
        "--json",
        "--features",
        "mean",
        "--plot",
        plot,
    )
    found = json.loads(output)
    assert code == 0 and found["target"] == "count.txt" and found["classes"] is None
    rows = found["held_out_sentences"]["line"]
    truth = np.array(found["held_out_sentences"]["target"])
    assert truth.tolist() == [lines[n - 1].count("a") + 0.5 for n in rows]
    z, noise, mean = found["results"]
    for result in found["results"]:
        error = np.array(result["predicted"]) - truth
        r2 = 1 - np.sum(error**2) / np.sum((truth - truth.mean()) ** 2)
        assert result["r2"]["averaged"] == pytest.approx(r2)
        assert (np.array(result["predicted_low"]) < np.array(result["predicted_high"])).all()
    assert mean["features"] == "mean" and mean["r2"]["mean"] <= 0
    assert plot.read_text().lstrip().startswith("<?xml")


def test_a_plot_of_odd_names(tmp_path, command, data, laplace):
    plot = tmp_path / "p.png"
    code, _, _ = command(
        *("--data", f"$a_{{={data}/first", "--data", f"日本={data}/second", "--plot", plot)
    )
    assert code == 0 and images.imread(plot).ndim == 3
    assert probe_plot.COLOURS[True] != probe_plot.COLOURS[False]


@pytest.mark.parametrize(
    "words, named",
    [
        ("--data A={data}/first", "label A"),
        ("--data {data}/none", "{data}/none.en"),
        ("--data =", "NAME=PREFIX"),
        ("--data A={tmp}/empty --data B={data}/first", "empty.en"),
        ("--data A={tmp}/blank --data B={data}/first", "blank.en"),
        ("--data {data}/first --labels {tmp}/three", "three has 3 lines"),
        ("--data {data}/first --labels {tmp}/missing", "missing, line 2"),
        ("--data {data}/first --target {tmp}/words", "words, line 1"),
        ("--data {data}/first --target {tmp}/three", "three has 3 lines"),
        ("--data {data}/first --labels {tmp}/three --target length", "--labels"),
        (
            "--data {data}/first --data {data}/second --labels {tmp}/three",
            "1 --labels do not",
        ),
        ("--data {data}/first --data {data}/second --target {tmp}/three", "one --data"),
        ("--data {data}/first --target lenght", "--target lenght"),
        ("--data {data}/second --target chrf --search beams", "--search"),
        ("--data {data}/first --target meteor", "--meteor_jar"),
        ("--data A={data}/first --search greedy", "--search"),
        ("--data {data}/first --target length --quality_of translations", "--quality_of"),
        (
            "--data {data}/first --target chrf --search greedy --quality_of back_translations",
            "--search",
        ),
        ("--data {data}/first --target chrf --meteor_jar x", "--meteor_jar"),
        ("--data A={data}/first --plot {tmp}/no/p.png", "--plot"),
        ("--data A={data}/first --plot p.txt", "p.txt"),
        ("--data A={data}/first --projector {tmp}/three", "three"),
        ("--data A={data}/first --held_out 1", "--held_out"),
        ("--data A={data}/first --num_draws 3", "--num_draws"),
        ("--data A={data}/first --chains 1", "--chains"),
        ("--data A={data}/first --baseline_model other", "other reads fr"),
        ("--data A={data}/first --model cond", "cond"),
        ("--data A={data}/first --model joint", "joint"),
        ("--data A={data}/first --model {tmp}", "{tmp}"),
        ("--label x --data A={data}/first", "--labels"),
    ],
)
def test_mistakes_are_one_sentence(command, data, tmp_path, words, named):
    write(tmp_path / "empty.en", [])
    write(tmp_path / "blank.en", ["", "  ", "\t"])
    write(tmp_path / "three", ["1", "2", "3"])
    write(tmp_path / "missing", ["x", "", *"y" * 38])
    write(tmp_path / "words", ["x"] * 40)
    places = {"tmp": tmp_path, "data": data}
    code, output, messages = command(*(word.format(**places) for word in words.split()))
    assert (code, output) == (2, "")
    assert named.format(**places) in messages and messages.count("\n") == 1
