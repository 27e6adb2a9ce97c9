"""The command: labelled sentences in, how well z tells them apart out."""

import gzip
import json
import random
import sys

import numpy as np
import pytest
from matplotlib import image as images
from sacrebleu import sentence_chrf

from aevnmt_tf import probe, translator
from aevnmt_tf.analysis import chains, features, probe_data, probe_plots, probe_request
from aevnmt_tf.errors import UserError
from tests.tiny_translator import LINES, make

WORDS = {"first": "abcd", "second": "efgh"}
QUICK = ["--chains", "2", "--num_warmup", "20", "--num_draws", "20"]


@pytest.fixture(scope="module")
def models():
    """Translators by the name that they are loaded with, traced once."""
    found = {name: make(name, src="en", tgt="de") for name in ("source_only", "cond", "joint")}
    found |= {name: make(name, src="en", tgt="de") for name in ("KLr", "l2")}
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

    def sample(log_prob, shape, *, options, track=iter):
        size = [options.num_draws, options.chains, *shape]
        values = np.random.default_rng(options.seed).normal(size=size)
        return chains.Draws(
            values, 1.0, acceptance=0.8, leapfrogs=1, divergences=0, seconds=0.5
        )

    monkeypatch.setattr(chains, "sample", sample)


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
    assert "80 sentences, 64 to learn from and 16 held out (A 40, B 40)" in messages
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


def test_the_length_is_in_subwords(models, data):
    request = probe_request.Request([f"x={data}/first"], target="length")
    t = models["source_only"]
    found = request.sentences(t.hp)
    expected = [len(text.split()) for text in found.texts]
    assert request.task(t, found).values.tolist() == expected


def test_the_quality_of_translations(models, data):
    t = models["source_only"]
    request = probe_request.Request(
        [f"x={data}/first"], target="chrf", search="greedy", held_out=0.5
    )
    found = request.sentences(t.hp)
    task = request.task(t, found)
    references = (data / "first.de").read_text().splitlines()
    translations = t.translate(found.texts, search="greedy")
    pairs = zip(translations, references, strict=True)
    expected = [sentence_chrf(ours, [theirs]).score for ours, theirs in pairs]
    np.testing.assert_allclose(task.values, expected)
    assert task.name == "chrf" and len(set(task.values)) > 5


def test_the_quality_of_back_translations(models, tmp_path):
    """Features of the back-translation, scored against the sentence that a person wrote."""
    gold = [f"{letter} b c d" for letter in "abcdefgh"]
    made = ["a b c d", *(f"{letter} b" for letter in "bcdefgh")]
    write(tmp_path / "dev.en", [*gold, "", "c c"])
    write(tmp_path / "dev.translation.en", [*made, "a", ""])
    t = models["source_only"]
    request = probe_request.Request(
        [f"dev={tmp_path}/dev"], target="chrf", quality_of="back_translations", held_out=0.5
    )
    found = request.sentences(t.hp)
    assert found.texts == [*made, "a"] and found.left_out == 1
    values = request.task(t, found).values
    pairs = zip([*made, "a"], [*gold, ""], strict=True)
    np.testing.assert_allclose(values, [sentence_chrf(a, [b]).score for a, b in pairs])
    assert values[0] == pytest.approx(100)
    (tmp_path / "dev.translation.en").unlink()
    with pytest.raises(UserError, match="no back-translations .*aevnmt translate"):
        request.sentences(t.hp)


def test_meteor_through_its_program(models, data, tmp_path):
    """A stand-in for Java that prints what METEOR prints."""
    java = tmp_path / "java"
    java.write_text(
        "#!/bin/sh\n"
        'i=0; while read -r line; do i=$((i+1)); echo "Segment $i score:  0.$i"; done < "$4"\n'
        'echo "Final score: 0.5"\n'
    )
    java.chmod(0o755)
    jar = write(tmp_path / "meteor-1.5.jar", [])
    write(tmp_path / "d.translation.en", ["a b", "c", "d d", "e"])
    write(tmp_path / "d.en", ["a", "c", "d", "e"])
    options = {"target": "meteor", "quality_of": "back_translations", "held_out": 0.5}
    request = probe_request.Request(
        [f"{tmp_path}/d"], meteor_jar=str(jar), java=str(java), **options
    )
    t = models["source_only"]
    task = request.task(t, request.sentences(t.hp))
    np.testing.assert_allclose(task.values, [10, 20, 30, 40])
    with pytest.raises(UserError, match="--meteor_jar"):
        probe_request.Request([f"{tmp_path}/d"], **options).sentences(t.hp)


def test_sets_by_their_paths(tmp_path, monkeypatch):
    """A folder may be written in several ways, and have an = in its name."""
    monkeypatch.chdir(tmp_path)
    parse = probe_data.Set.parse
    assert parse("news=data/dev") == probe_data.Set("news", "data/dev")
    grid = "runs/dropout=0.3/seed1/dev"
    assert parse(grid) == probe_data.Set("dev", grid)
    assert parse(f"x={grid}") == probe_data.Set("x", grid)
    words = (
        "dev",
        "./dev.translation",
        f"{tmp_path}/dev.translation.en",
        f"{tmp_path}//dev.en",
    )
    assert len({parse(f"x={word}").origin("en") for word in words}) == 1


def test_gold_against_synthetic(models, tmp_path):
    write(tmp_path / "dev.en", ["a b", "c d", "e", "f"])
    write(tmp_path / "dev.translation.en", ["a b", "d", "", "f f"])
    t = models["source_only"]
    request = probe_request.Request(
        [f"gold={tmp_path}/dev", f"synthetic={tmp_path}/dev.translation"], held_out=0.3
    )
    found = request.sentences(t.hp)
    assert found.sets == ["gold"] * 4 + ["synthetic"] * 3
    assert found.lines == [1, 2, 3, 4, 1, 2, 4]
    task = request.task(t, found)
    assert task.held_out[0] == task.held_out[4]  # the same sentence


def test_a_sentence_and_its_back_translation_stay_on_one_side(models, tmp_path):
    write(tmp_path / "dev.en", [f"a {n}" for n in range(300)])
    write(tmp_path / "dev.translation.en", [f"b {n}" if n % 9 else "" for n in range(300)])
    t = models["source_only"]
    for gold, synthetic in (("dev", "dev.translation"), ("dev.en", "dev.translation.en")):
        data = [f"gold={tmp_path}/{gold}", f"synthetic={tmp_path}/{synthetic}"]
        request = probe_request.Request(data, held_out=0.25, max_lines=100)
        found = request.sentences(t.hp)
        lines = {name: set() for name in ("gold", "synthetic")}
        for name, line in zip(found.sets, found.lines, strict=True):
            lines[name].add(line)
        assert len(lines["gold"] & lines["synthetic"]) > 75  # the same lines are drawn
        task = request.task(t, found)
        sides = {}
        for line, is_out in zip(found.lines, task.held_out, strict=True):
            sides.setdefault(line, set()).add(bool(is_out))
        assert {len(side) for side in sides.values()} == {1}
        counts = np.bincount(task.test)
        assert counts.min() >= 20 and counts.sum() == pytest.approx(50, abs=1)


def test_long_files_are_sampled(models, tmp_path):
    write(tmp_path / "long.en", [f"{'a ' * (n % 7)} b {n}" for n in range(500)])
    hp = models["source_only"].hp
    found = probe_request.Request([f"{tmp_path}/long"], max_lines=30).sentences(hp)
    assert len(found) == 30 and found.lines == sorted(set(found.lines))
    assert max(found.lines) > 300  # not only the first
    assert [int(text.split()[-1]) for text in found.texts] == [n - 1 for n in found.lines]
    again = probe_request.Request([f"{tmp_path}/long"], max_lines=30).sentences(hp)
    assert again.lines == found.lines
    other = probe_request.Request([f"{tmp_path}/long"], max_lines=30, seed=2).sentences(hp)
    assert other.lines != found.lines
    assert len(probe_request.Request([f"{tmp_path}/long"]).sentences(hp)) == 500


def test_z_is_the_mean_and_a_draw_of_the_posterior(models):
    t = models["source_only"]
    lines = [line for line in LINES if line.strip()] * 100
    mean, draw = features.z_features(t, lines, kind="both", seed=3)
    loc, scale = t.embed(lines)
    np.testing.assert_array_equal(mean.values, loc)
    standardised = (draw.values - loc) / scale
    assert abs(standardised.mean()) < 0.1 and abs(standardised.std() - 1) < 0.1
    again = features.z_features(t, lines, kind="sample", seed=3)
    assert len(again) == 1
    np.testing.assert_array_equal(again[0].values, draw.values)
    assert (features.z_features(t, lines, kind="sample", seed=4)[0].values != draw.values).all()


@pytest.mark.parametrize(
    "system, origin, kinds",
    [
        ("source_only", "q(z|x)", ["z mean", "z sample"]),
        ("KLr", "r(z|x), which the model predicts with: its q(z|x, y)", ["z mean", "z sample"]),
        ("l2", "the point r(x), which the model predicts with", ["z mean"]),
    ],
)
def test_where_z_is_from_is_said(models, system, origin, kinds):
    t = models[system]
    assert features.z_origin(t).startswith(origin)
    found = features.z_features(t, ["a b", "c"], kind="both", seed=1)
    assert [one.name for one in found] == kinds
    assert len(features.z_features(t, ["a b"], kind="sample", seed=1)) == 1


@pytest.mark.parametrize("system", ["cond", "source_only"])
def test_the_encoder_average_is_over_real_positions(models, system):
    """Each line by itself, without padding: the plain mean."""
    t = models[system]
    lines = LINES[:4]
    found = features.encoder_average(t, lines)
    assert found.shape == (4, 2 * t.hp.num_units)
    for line, row in zip(lines, found, strict=True):
        x, x_len, _ = t.encode([line])
        z = t.model.z_for_prediction(x, x_len)
        states = t.model.encoder(t.model.emb_x(x), x_len, z).numpy()
        assert states.shape[1] == len(line.split()) + 1  # </s>
        np.testing.assert_allclose(row, states[0].mean(axis=0), atol=1e-5)


def test_a_plot_of_odd_names(tmp_path, command, data, laplace):
    plot = tmp_path / "p.png"
    code, _, _ = command(
        *("--data", f"$a_{{={data}/first", "--data", f"日本={data}/second", "--plot", plot)
    )
    assert code == 0 and images.imread(plot).ndim == 3
    assert probe_plots.COLOURS[True] != probe_plots.COLOURS[False]


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--data", "A={data}/first"], "all sentences have the label A"),
        (["--data", "{data}/none"], "there is no file {data}/none.en and no file"),
        (["--data", "="], "'=' is no set: give NAME=PREFIX"),
        (["--data", "A={tmp}/empty", "--data", "B={data}/first"], "empty.en has no sentence"),
        (["--data", "A={tmp}/blank", "--data", "B={data}/first"], "blank.en has no sentence"),
        (["--data", "{data}/first", "--labels", "{tmp}/three"], "three has 3 lines but"),
        (
            ["--data", "{data}/first", "--labels", "{tmp}/missing"],
            "missing, line 2: a label is",
        ),
        (
            ["--data", "{data}/first", "--target", "{tmp}/words"],
            "words, line 1: 'x' is not a n",
        ),
        (["--data", "{data}/first", "--target", "{tmp}/three"], "three has 3 lines but"),
        (
            ["--data", "{data}/first", "--labels", "{tmp}/three", "--target", "length"],
            "give one of the two",
        ),
        (
            ["--data", "{data}/first", "--data", "{data}/second", "--labels", "{tmp}/three"],
            "there are 1 --labels for 2 --data",
        ),
        (
            ["--data", "{data}/first", "--data", "{data}/second", "--target", "{tmp}/three"],
            "one --data",
        ),
        (["--data", "{data}/first", "--target", "lenght"], "--target lenght is no file: give"),
        (["--data", "{data}/second", "--target", "chrf", "--search", "beams"], "--search"),
        (["--data", "{data}/first", "--target", "meteor"], "give --meteor_jar"),
        (["--data", "A={data}/first", "--search", "greedy"], "--search is for --quality_of tr"),
        (
            ["--data", "{data}/first", "--target", "length", "--quality_of", "translations"],
            "--quality_of is for --target chrf or meteor",
        ),
        (
            [
                *("--data", "{data}/first", "--target", "chrf", "--search", "greedy"),
                *("--quality_of", "back_translations"),
            ],
            "--search is for --quality_of translations",
        ),
        (
            ["--data", "{data}/first", "--target", "chrf", "--meteor_jar", "x"],
            "--meteor_jar is for --target meteor",
        ),
        (["--data", "A={data}/first", "--plot", "{tmp}/no/p.png"], "no for --plot"),
        (["--data", "A={data}/first", "--plot", "p.txt"], "p.txt is no picture"),
        (["--data", "A={data}/first", "--projector", "{tmp}/three"], "three is no folder"),
        (["--data", "A={data}/first", "--held_out", "1"], "must be between 0 and 1"),
        (["--data", "A={data}/first", "--num_draws", "3"], "must be 10 or more"),
        (["--data", "A={data}/first", "--chains", "1"], "must be 2 or more"),
        (["--data", "A={data}/first", "--baseline_model", "other"], "other reads fr and"),
        (
            ["--data", "A={data}/first", "--model", "cond"],
            "cond is a cond model and has no z to probe: give an aevnmt run as --model",
        ),
        (["--data", "A={data}/first", "--model", "joint"], "joint is a joint model"),
        (["--data", "A={data}/first", "--model", "{tmp}"], "{tmp} is not a run"),
        (["--label", "x", "--data", "A={data}/first"], "did you mean --labels"),
    ],
)
def test_mistakes_are_one_sentence(command, data, tmp_path, words, sentence):
    write(tmp_path / "empty.en", [])
    write(tmp_path / "blank.en", ["", "  ", "\t"])
    write(tmp_path / "three", ["1", "2", "3"])
    write(tmp_path / "missing", ["x", "", *"y" * 38])
    write(tmp_path / "words", ["x"] * 40)
    places = {"tmp": tmp_path, "data": data}
    code, output, messages = command(*(word.format(**places) for word in words))
    assert (code, output) == (2, "")
    assert sentence.format(**places) in messages and messages.count("\n") == 1
