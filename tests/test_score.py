"""The command: pairs in, their scores out in order, or a sentence to stderr."""

import gzip
import io
import json
import math
import os
import sys

import numpy as np
import pytest
import tensorflow as tf

import aevnmt_tf
from aevnmt_tf import score, search, translator
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.model import importance
from aevnmt_tf.storage import pair_streams
from aevnmt_tf.translator import corpus_jobs, line_encoder
from tests.tiny_translator import LINES, make, save_run

TARGETS = ["b", "c d e", "a a", "", "e f g h a", "zz", "h g f", "a", "d"]
COLUMNS = "elbo log_px log_py kl iw_log_pxy iw_log_px iw_log_py ess".split()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    return save_run(folder, beam_width=0, src_max_len_infer=12, infer_batch_size=6)


@pytest.fixture(scope="module")
def loaded(run):
    """The run's translator, which scores one or a few draws of z at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importance, "MOST_TOKENS", 150)
        yield aevnmt_tf.load(run)


@pytest.fixture(scope="module")
def others():
    """Systems without z, traced once."""
    return {system: make(system, beam_width=0) for system in ("cond", "joint")}


@pytest.fixture
def command(run, loaded, others, monkeypatch, capsysbinary):
    """Run the command in this process: code, output, messages."""
    kept = translator.load

    def load(path, *, checkpoint=None, **overrides):
        if str(path) in others:
            return others[str(path)]
        # The same weights without tracing the graph again.
        if str(path) == str(run) and checkpoint is None and not overrides:
            return loaded
        return kept(path, checkpoint=checkpoint, **overrides)

    monkeypatch.setattr(translator, "load", load)

    def call(*words, stdin=b"", model=run):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        # Later flags beat earlier ones; one sample is quick.
        flags = ["--model", str(model), "--samples", "1"]
        code = score.main([*flags, *map(str, words)])
        output, messages = capsysbinary.readouterr()
        return code, output.decode(), messages.decode()

    return call


def lines_of(*lines):
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.fixture
def files(tmp_path):
    """Flags for the two files."""
    (tmp_path / "x").write_bytes(lines_of(*LINES))
    (tmp_path / "y").write_bytes(lines_of(*TARGETS))
    return "--src", tmp_path / "x", "--tgt", tmp_path / "y"


def table(output):
    header, *rows = [line.split("\t") for line in output.splitlines()]
    values = np.array([[float(cell) for cell in row] for row in rows])
    return {name: values[:, i] for i, name in enumerate(header)} if rows else header


def test_tsv(command, loaded, files):
    code, output, messages = command(*files, "--samples", 3, "--seed", 5)
    found = table(output)
    assert code == 0
    assert list(found)[:8] == COLUMNS
    assert list(found)[8:] == ["log_py_at_mean", "source_tokens", "target_tokens"]
    expected = loaded.score(LINES, TARGETS, samples=3, seed=5)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=2e-5)
    assert found["source_tokens"].tolist() == [len(line.split()) + 1 for line in LINES]
    assert found["target_tokens"].tolist() == [len(line.split()) + 1 for line in TARGETS]
    np.testing.assert_allclose(
        found["elbo"], found["log_px"] + found["log_py"] - found["kl"], atol=5e-5
    )
    assert (found["ess"] >= 1 - 1e-4).all() and (found["ess"] <= 3 + 1e-4).all()
    assert output != command(*files, "--samples", 3, "--seed", 6)[1]


def test_totals_and_perplexities(command, files):
    _, output, messages = command(*files, "--samples", 2)
    found = table(output)
    first, header, *rows = messages.splitlines()
    x, y = found["source_tokens"].sum(), found["target_tokens"].sum()
    assert first == (
        f"aevnmt score: 9 pairs, {x:.0f} source and {y:.0f} target subwords (</s> counts)"
    )
    assert header.split() == ["total", "a", "pair", "perplexity"]
    shown = {row.split()[0]: [float(cell) for cell in row.split()[1:]] for row in rows}
    assert set(shown) == {*COLUMNS, "log_py_at_mean"}
    tokens = dict(elbo=x + y, iw_log_pxy=x + y, log_px=x, iw_log_px=x)
    for name in set(shown) - {"kl", "ess"}:
        total = found[name].sum()
        perplexity = math.exp(-total / tokens.get(name, y))
        np.testing.assert_allclose(shown[name], [total, total / 9, perplexity], rtol=2e-3)
    np.testing.assert_allclose(shown["kl"], [found["kl"].sum(), found["kl"].mean()], rtol=1e-3)
    np.testing.assert_allclose(shown["ess"], [found["ess"].mean()], rtol=1e-3)


def test_scores_are_those_of_translate(command, loaded, tmp_path):
    found = loaded.n_best(LINES, search="sample", n_best=20, temperature=3.0)
    kept = [
        (source, t)
        for source, translations in zip(LINES, found, strict=True)
        for t in translations
        # An empty line is not translated; the text must tell all ids, and the end be one.
        if source.strip() and "<unk>" not in t.text
        if t.length == len(t.text.split()) + 1 < 2 * len(source.split()) + 10
    ]
    assert len(kept) > 2 and any(t.text for _, t in kept)
    (tmp_path / "x").write_bytes(lines_of(*(source for source, _ in kept)))
    stdin = lines_of(*(t.text for _, t in kept))
    flags = ("--src", tmp_path / "x", "--tgt", "-")
    code, output, _ = command(*flags, stdin=stdin)
    assert code == 0
    expected = [t.log_prob for _, t in kept]
    np.testing.assert_allclose(table(output)["log_py_at_mean"], expected, rtol=1e-4)


def test_jsonl_in_files(command, loaded, tmp_path):
    for name, lines in (("x.gz", LINES), ("y.gz", TARGETS)):
        (tmp_path / name).write_bytes(gzip.compress(lines_of(*lines)))
    words = ("--src", tmp_path / "x.gz", "--tgt", tmp_path / "y.gz", "--format", "jsonl")
    code, output, _ = command(*words, "--samples", 2, "--output", tmp_path / "out.gz")
    assert code == 0 and output == ""
    rows = [json.loads(line) for line in gzip.open(tmp_path / "out.gz")]
    assert [(r["line"], r["source"], r["target"]) for r in rows] == [
        (n, s, t) for n, (s, t) in enumerate(zip(LINES, TARGETS, strict=True), 1)
    ]
    expected = loaded.score(LINES, TARGETS, samples=2)
    np.testing.assert_allclose([r["elbo"] for r in rows], expected["elbo"], rtol=1e-6)
    assert rows[0]["source_tokens"] == 4


def test_a_number_that_json_does_not_have():
    values = {"elbo": -math.inf, "kl": 1.0}
    row = json.loads(corpus_jobs.score_text("jsonl", 1, ("a", "b"), values))
    assert row == {"line": 1, "source": "a", "target": "b", "elbo": None, "kl": 1.0}


@pytest.mark.parametrize(
    "system, names", [("cond", ["log_py"]), ("joint", ["elbo", "log_px", "log_py"])]
)
def test_systems_without_z_give_what_they_have(command, others, files, system, names):
    code, output, messages = command(*files, model=system)
    found = table(output)
    assert code == 0 and list(found) == [*names, "source_tokens", "target_tokens"]
    expected = others[system].score(LINES, TARGETS)
    np.testing.assert_allclose(found["log_py"], expected["log_py"], atol=2e-5)
    assert [row.split()[0] for row in messages.splitlines()[2:]] == names


def test_nothing_to_score(command, tmp_path):
    (tmp_path / "x").write_bytes(b"")
    code, output, messages = command("--src", tmp_path / "x", "--tgt", "-")
    assert code == 0 and table(output)[:8] == COLUMNS
    assert messages.startswith("aevnmt score: 0 pairs") and messages.count("\n") == 1


# The translator's part.


def test_draws_do_not_depend_on_how_many_are_made_at_a_time(loaded):
    """Against all draws in one pass of the model."""
    got = loaded.score(LINES, TARGETS, samples=5)
    (x, x_len, _), (y, y_len, _) = (
        encode(line_encoder.strings(lines))
        for encode, lines in (
            (loaded.graph.encode, LINES),
            (loaded.graph.encode_target, TARGETS),
        )
    )
    batch = {"x": x, "x_len": x_len, "y": y, "y_len": y_len}
    seeds = line_encoder.line_seeds(1, np.arange(len(LINES)))
    draws = [search.normals(seeds, stream=-3 - s, count=4) for s in range(5)]
    _, log_w_xy, log_w_x = importance.weigh(loaded.model, batch, tf.stack(draws))
    for name, log_w in (("iw_log_pxy", log_w_xy), ("iw_log_px", log_w_x)):
        expected = importance.importance_weighted(log_w)
        np.testing.assert_allclose(got[name], expected, rtol=1e-4)
    np.testing.assert_allclose(
        got["ess"], importance.effective_sample_size(log_w_xy), rtol=1e-3
    )


def test_a_pair_does_not_depend_on_the_others(loaded):
    together = loaded.score(LINES, TARGETS, samples=4)
    for row in (1, 8):
        pairs = [("", "")] * row + [(LINES[row], TARGETS[row])]  # its number is in its seed
        *_, last = loaded.scorer.stream(pairs, samples=4)
        for name, value in last.values.items():
            np.testing.assert_allclose(value, together[name][row], rtol=1e-4, atol=1e-5)


def test_more_samples_are_tighter(loaded):
    """Bounds rise with the number of draws, on average, and ELBO is the lowest."""
    few, many = (loaded.score(["a b c"] * 20, ["d e"] * 20, samples=s) for s in (1, 20))
    assert many["iw_log_pxy"].mean() > few["iw_log_pxy"].mean()
    assert many["iw_log_pxy"].mean() > many["elbo"].mean()
    np.testing.assert_allclose(few["ess"], 1, rtol=1e-5)


def test_scores_come_before_all_is_read(loaded):
    read = []

    def endless():
        while True:
            read.append(1)
            yield "a b", "c"

    scores = loaded.scorer.stream(endless(), samples=1)
    next(scores)
    assert len(read) == loaded.hp.infer_batch_size


def test_no_samples(loaded):
    with pytest.raises(aevnmt_tf.cli.errors.UserError, match="samples must be 1 or more"):
        loaded.score(["a"], ["b"], samples=0)


# Mistakes.


def test_long_sentences_are_cut_and_named(command, tmp_path):
    (tmp_path / "x").write_bytes(lines_of("a b", "a " * 19, "c"))
    (tmp_path / "y").write_bytes(lines_of("a b", "b", "c " * 19))
    flags = ("--src", tmp_path / "x", "--tgt", tmp_path / "y")
    code, output, messages = command(*flags)
    assert code == 0 and table(output)["target_tokens"].tolist() == [3, 2, 13]
    assert messages.splitlines()[:2] == [
        "aevnmt score: line 2: the source is cut to its first 12 subwords",
        "aevnmt score: line 3: the target is cut to its first 12 subwords",
    ]


def test_the_longest_sentence_can_be_set(command, files, monkeypatch):
    asked = []

    def load(run, **options):
        asked.append(options)
        raise UserError("enough.")

    monkeypatch.setattr(translator, "load", load)
    command(*files, "--src_max_len_infer", 99, "--checkpoint", "last")
    assert asked == [{"checkpoint": "last", "src_max_len_infer": 99}]


@pytest.mark.parametrize(
    "x, y, counts", [(["a"], ["b", "c"], (1, 2)), (["a", "b", "c"], ["d"], (3, 1))]
)
def test_line_counts(command, tmp_path, x, y, counts):
    """Files are counted before; of a stream, the pairs are scored that there are."""
    src, tgt, out = (tmp_path / name for name in ("x", "y", "out"))
    src.write_bytes(lines_of(*x))
    tgt.write_bytes(lines_of(*y))
    out.write_text("precious\n")
    lines = "1 line" if counts[0] == 1 else f"{counts[0]} lines"
    code, output, messages = command("--src", src, "--tgt", tgt, "--output", out)
    assert code == 2 and out.read_text() == "precious\n"
    assert f"{src} has {lines} but {tgt} has {counts[1]}" in messages
    assert messages.count("\n") == 1
    code, output, messages = command("--src", src, "--tgt", "-", stdin=lines_of(*y))
    assert code == 2 and len(table(output)["elbo"]) == 1
    assert f"{src} has {lines} but stdin has {counts[1]}" in messages
    assert messages.count("\n") == 1


def test_bad_utf8_names_the_line(command, files, tmp_path):
    (tmp_path / "y").write_bytes(lines_of(*TARGETS[:3]) + b"\xff a\n" + lines_of(*TARGETS[4:]))
    code, output, messages = command(*files)
    assert code == 2 and len(table(output)["elbo"]) == 3
    assert f"{tmp_path / 'y'}, line 4: byte 0xff is not valid UTF-8" in messages
    assert messages.count("\n") == 1
    code, output, _ = command(*files, "--samples", 1, "--errors", "replace")
    assert code == 0 and len(table(output)["elbo"]) == 9


def test_odd_text(command, tmp_path):
    odd = ["\0", "a\0b", " ", "\t", "日本語", "a" * 100_000, "c\u2028d\x85e", "\ufeffb"]
    (tmp_path / "x").write_bytes(lines_of(*odd))
    stdin = lines_of(*odd[::-1])
    code, output, _ = command("--src", tmp_path / "x", "--tgt", "-", stdin=stdin)
    assert code == 0 and np.isfinite(table(output)["elbo"]).all()
    assert output.count("\n") == len(odd) + 1


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--src", "-", "--tgt", "-"], "only one of --src and --tgt can be stdin"),
        (["--src", "{tmp}/none", "--tgt", "{tmp}/y"], "cannot read {tmp}/none: No such file"),
        (["--src", "{tmp}/x", "--tgt", "{tmp}"], "cannot read {tmp}: Is a directory"),
        (
            ["--src", "{tmp}/x", "--tgt", "{tmp}/y", "--output", "{tmp}/y"],
            "is also an input",
        ),
        (["--src", "{tmp}/x", "--tgt", "{tmp}/y", "--output", "{tmp}/n/o"], "cannot write"),
        (["--src", "{tmp}/x", "--tgt", "{tmp}/y", "--samples", "0"], "--samples: must be 1"),
        (["--src", "{tmp}/x", "--tgt", "{tmp}/y", "--seed", "-1"], "--seed: must be"),
        (["--src", "{tmp}/x"], "--tgt"),
        (["--src", "{tmp}/x", "--tgt", "{tmp}/y", "--sample", "3"], "did you mean --samples"),
        (
            ["--src", "{tmp}/x", "--tgt", "{tmp}/y", "--model", "{tmp}"],
            "{tmp} is not a training run",
        ),
    ],
)
def test_mistakes_are_one_sentence(command, files, tmp_path, words, sentence):
    code, output, messages = command(*(word.format(tmp=tmp_path) for word in words))
    assert code == 2 and output == ""
    assert sentence.format(tmp=tmp_path) in messages and messages.count("\n") == 1
    assert (tmp_path / "y").read_bytes() == lines_of(*TARGETS)


def test_a_gzip_file_that_ends_early(command, tmp_path):
    whole = gzip.compress(os.urandom(400).hex().encode() + b"\na b\n" * 500)
    (tmp_path / "x.gz").write_bytes(whole[:450])
    flags = ("--src", tmp_path / "x.gz", "--tgt", "-")
    code, output, messages = command(*flags, stdin=b"a\n" * 501)
    assert code == 2 and "cannot read" in messages and "Traceback" not in messages
    assert output.endswith("\n")
    with pair_streams.PairStream("-", str(tmp_path / "x.gz")) as pairs:  # stdin ends first
        assert list(pairs) == [] and "cannot read" in pairs.problem


def test_an_interruption_leaves_whole_lines(command, loaded, files, tmp_path, monkeypatch):
    kept = loaded.scorer.stream

    def stream(pairs, **options):
        for number, one in enumerate(kept(pairs, **options)):
            if number == 3:
                raise KeyboardInterrupt
            yield one

    monkeypatch.setattr(loaded.scorer, "stream", stream)
    out = tmp_path / "out"
    code, _, messages = command(*files, "--output", out)
    assert code == 130 and "Traceback" not in messages
    rows = out.read_text().split("\n")
    assert len(rows) == 5 and rows[-1] == "" and len({row.count("\t") for row in rows[:4]}) == 1


def test_a_low_effective_sample_size_is_mentioned(command, files, monkeypatch):
    from aevnmt_tf.translator import corpus_summaries

    monkeypatch.setattr(corpus_summaries, "low_ess", lambda samples: samples + 1.0)
    _, _, messages = command(*files, "--samples", 3)
    assert "9 of 9 pairs have an effective sample size (ess) below 4" in messages
    monkeypatch.setattr(corpus_summaries, "low_ess", lambda samples: 0.5)
    assert "effective sample size" not in command(*files, "--samples", 3)[2]
