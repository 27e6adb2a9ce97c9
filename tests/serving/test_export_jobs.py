"""translate and score with an export: the numbers of its run, on one process and on shards."""

import json

import numpy as np
import pytest

from aevnmt_tf import score, translate
from tests import tiny_export


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tiny_export.shared(tmp_path_factory)


@pytest.fixture
def source(tmp_path):
    lines = [line.replace("\u2028", " ") for line in tiny_export.sentences(90)]
    assert "" in lines
    path = tmp_path / "source"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def run(verb, *words):
    return verb.main(list(map(str, words)))


def translated(model, source, output, *words):
    flags = ("--model", model, "--input", source, "--output", output)
    assert run(translate, *flags, *words) == 0
    return output.read_text()


@pytest.mark.parametrize("flags", [(), ("--n_best", 3), ("--n_best", 2)])
def test_the_export_translates_as_its_run(shared, source, tmp_path, flags):
    whole = translated(shared.export_dir, source, tmp_path / "export", *flags)
    assert whole == translated(shared.run, source, tmp_path / "run", *flags)
    version = translated(shared.export_dir / "1", source, tmp_path / "version", *flags)
    assert version == whole


def test_jsonl_has_the_scores_of_the_run(shared, source, tmp_path):
    flags = ("--format", "jsonl", "--n_best", 3)
    found, expected = (
        [
            json.loads(line)
            for line in translated(model, source, tmp_path / name, *flags).split("\n")[:-1]
        ]
        for name, model in (("export", shared.export_dir), ("run", shared.run))
    )
    assert len(found) == 90
    for mine, run_s in zip(found, expected, strict=True):
        assert {key: mine[key] for key in ("line", "source", "translation")} == {
            key: run_s[key] for key in ("line", "source", "translation")
        }
        mine, run_s = (
            [t["score"] for t in each.get("n_best", [each])] for each in (mine, run_s)
        )
        np.testing.assert_allclose(mine, run_s, rtol=1e-4, atol=1e-5)


def test_shards_of_an_export_are_the_whole(shared, source, tmp_path, capsys):
    parts = "".join(
        translated(shared.export_dir, source, tmp_path / f"part{n}", "--shard", f"{n}/3")
        for n in (1, 2, 3)
    )
    assert parts == translated(shared.export_dir, source, tmp_path / "whole")
    capsys.readouterr()
    translated(shared.export_dir, source, tmp_path / "part2", "--shard", "2/3")
    assert "finished already" in capsys.readouterr().err


def test_scores_are_those_of_the_signature(shared, source, tmp_path, capsys):
    target = tmp_path / "target"
    target.write_text("".join(reversed(source.read_text().splitlines(keepends=True))))
    flags = ("--src", source, "--tgt", target, "--output", tmp_path / "scores")
    assert run(score, "--model", shared.export_dir, *flags) == 0
    names, *rows = (line.split("\t") for line in (tmp_path / "scores").read_text().splitlines())
    totals = capsys.readouterr().err
    assert "90 pairs" in totals and "subwords" not in totals
    x, y = (path.read_text().split("\n")[:-1] for path in (source, target))
    import tensorflow as tf

    model = tf.saved_model.load(str(shared.export_dir / "1"))
    expected = tiny_export.ask(model, "score", source=x, target=y)
    assert sorted(names) == sorted(expected)
    for name, column in zip(names, np.array(rows, float).T, strict=True):
        np.testing.assert_allclose(column, expected[name], rtol=1e-4, atol=2e-4)


def test_jsonl_scores_name_the_pair(shared, source, tmp_path):
    flags = ("--src", source, "--tgt", source, "--format", "jsonl", "--output", tmp_path / "s")
    assert run(score, "--model", shared.export_dir, *flags) == 0
    rows = [json.loads(line) for line in (tmp_path / "s").read_text().splitlines()]
    assert [row["source"] for row in rows] == source.read_text().split("\n")[:-1]
    assert all(row["elbo"] < 0 for row in rows)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--search greedy", "--search"),
        ("--seed 0", "--seed"),
        ("--checkpoint best", "--checkpoint"),
        ("--beam_width 0", "--beam_width"),
        ("--src_max_len_infer 5", "--src_max_len_infer"),
        ("--attention a.png", "--attention"),
        ("--n_best 4", "--n_best 3"),
        ("--model other", "ensemble"),
    ],
)
def test_what_an_export_fixes_is_refused(shared, source, tmp_path, capsys, flags, named):
    words = ("--model", shared.export_dir, "--input", source, "--output", tmp_path / "y")
    assert run(translate, *words, *flags.split()) == 2
    error = capsys.readouterr().err
    assert named in error and "Traceback" not in error
    assert not (tmp_path / "y").exists()


@pytest.mark.parametrize("flags", ["--samples 3", "--seed 1", "--src_max_len_infer 5"])
def test_what_a_scoring_export_fixes_is_refused(shared, source, capsys, flags):
    words = ("--model", shared.export_dir, "--src", source, "--tgt", source)
    assert run(score, *words, *flags.split()) == 2
    assert flags.split()[0] in capsys.readouterr().err


def test_an_export_needs_pairs_a_manifest_and_the_signature(shared, source, tmp_path, capsys):
    assert run(score, "--model", shared.export_dir, "--src", source) == 2
    assert "--tgt" in capsys.readouterr().err
    version = tmp_path / "exports" / "1"
    version.mkdir(parents=True)
    (version / "saved_model.pb").write_bytes(b"")
    flags = ("--src", source, "--tgt", source)
    assert run(score, "--model", version, *flags) == 2
    assert "manifest.json" in capsys.readouterr().err
    (version / "assets.extra").mkdir()
    (version / "assets.extra" / "manifest.json").write_text('{"signatures": {"nbest": {}}}')
    assert run(score, "--model", version, *flags) == 2
    assert "no signature score" in capsys.readouterr().err
