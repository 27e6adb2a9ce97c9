"""Parts of a corpus, joined, are the whole."""

import argparse
import gzip
import json
import types

import pytest

from aevnmt_tf.cli import flags
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.translator import corpus_shards, line_batches
from aevnmt_tf.translator.corpus_jobs import ScoreJob, TranslateJob
from aevnmt_tf.translator.corpus_shards import CorpusInput, Shard
from tests.tiny_translator import LINES, save_run


@pytest.mark.parametrize("total", [0, 1, 7, 100, 3000])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_shards_are_whole_windows_and_leave_nothing_out(total, count):
    parts = [Shard(n, count).lines(total, batch_size=4) for n in range(1, count + 1)]
    assert parts[0][0] == 0 and parts[-1][1] == total
    assert all(last == first for (_, last), (first, _) in zip(parts, parts[1:], strict=False))
    borders = {*line_batches.window_starts(total, batch_size=4), total}
    assert {border for part in parts for border in part} <= borders
    if total == 3000:  # windows of 80 lines
        assert all(abs(last - first - total / count) <= 80 for first, last in parts)


@pytest.mark.parametrize("word", ["0/3", "4/3", "3", "a/3", "1/0", "-1/3", "1/3/4"])
def test_what_is_no_shard(word):
    with pytest.raises(argparse.ArgumentTypeError, match="must be I/N"):
        flags.shard(word)
    assert str(Shard(*flags.shard("2/3"))) == "2/3"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return save_run(tmp_path_factory.mktemp("shards") / "run", infer_batch_size=2)


@pytest.fixture(scope="module")
def jobs(run):
    """Jobs whose models are loaded once, and the number of times that they are asked for."""

    def once(job):
        kept, loads = job.load(), []
        object.__setattr__(job, "load", lambda: loads.append(1) or kept)
        return job, loads

    changes = {"search": "sample", "n_best": 2}
    return {
        "translate": once(TranslateJob([str(run)], changes=changes, format="jsonl")),
        "score": once(ScoreJob([str(run)], samples=2)),
    }


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_text("".join(f"{line}\n" for line in LINES * 3))
    return path


def do(job, corpus, word, path):
    said = []
    rate = types.SimpleNamespace(say=said.append, move=lambda number: None)
    corpus_shards.run_shard(job, corpus, Shard(*flags.shard(word)), str(path), rate)
    return said


@pytest.mark.parametrize("kind", ["translate", "score"])
def test_joined_shards_are_the_bytes_of_one_run(jobs, source, tmp_path, kind):
    """Scores of samples to the last digit, numbers of lines, one header."""
    job, loads = jobs[kind]
    corpus = CorpusInput([str(source)] * (1 if kind == "translate" else 2), errors="strict")
    do(job, corpus, "1/1", tmp_path / "whole")
    for number in (2, 3, 1):
        do(job, corpus, f"{number}/3", tmp_path / f"part{number}")
    parts = [(tmp_path / f"part{number}").read_bytes() for number in (1, 2, 3)]
    assert b"".join(parts) == (tmp_path / "whole").read_bytes() and all(parts)
    loads.clear()
    assert "finished already" in do(job, corpus, "2/3", tmp_path / "part2")[0] and not loads
    with pytest.raises(UserError, match="part2 has shard 2/3, not 3/3"):
        do(job, corpus, "3/3", tmp_path / "part2")


def test_a_shard_may_have_no_lines(jobs, tmp_path):
    (tmp_path / "short").write_text("a\n")
    corpus = CorpusInput([str(tmp_path / "short")], errors="strict")
    said = do(jobs["translate"][0], corpus, "1/2", tmp_path / "out")
    assert "shard 1/2: no lines of 1" in said and (tmp_path / "out").read_bytes() == b""


def test_a_shard_of_something_else_is_done_again(jobs, source, tmp_path):
    (job, loads), path = jobs["translate"], tmp_path / "part"
    corpus = CorpusInput([str(source)], errors="strict")
    do(job, corpus, "1/2", path)
    before = path.read_bytes()
    source.write_text(source.read_text().replace("a b c", "c b a"))
    loads.clear()
    do(job, corpus, "1/2", path)
    assert loads and path.read_bytes() != before
    path.unlink()
    do(job, corpus, "1/2", path)
    assert path.exists()


def test_nothing_is_left_of_a_shard_that_fails(jobs, source, tmp_path):
    (job, _), path = jobs["translate"], tmp_path / "part"
    source.write_bytes(b"a b\nc \xff\n")
    corpus = CorpusInput([str(source)], errors="strict")
    with pytest.raises(UserError, match="line 2: byte 0xff"):
        do(job, corpus, "1/1", path)
    assert [one.name for one in tmp_path.iterdir()] == ["source"]


def test_compressed_shards(jobs, source, tmp_path):
    job, _ = jobs["translate"]
    (tmp_path / "source.gz").write_bytes(gzip.compress(source.read_bytes()))
    corpus = CorpusInput([str(tmp_path / "source.gz")], errors="strict")
    for number in (1, 2):
        do(job, corpus, f"{number}/2", tmp_path / f"{number}.gz")
    joined = b"".join((tmp_path / f"{number}.gz").read_bytes() for number in (1, 2))
    rows = [json.loads(row) for row in gzip.decompress(joined).splitlines()]
    assert [row["line"] for row in rows] == list(range(1, 3 * len(LINES) + 1))
    assert [row["source"] for row in rows] == source.read_text().splitlines()


def test_shards_need_files(jobs, source):
    (job, _), corpus = jobs["translate"], CorpusInput([str(source)], errors="strict")
    with pytest.raises(UserError, match="give --output"):
        do(job, corpus, "1/2", "-")
    with pytest.raises(UserError, match="- is none"):
        do(job, CorpusInput(["-"], errors="strict"), "1/2", "x")


def test_a_damaged_shard_is_done_again(jobs, source, tmp_path):
    (job, _), path = jobs["translate"], tmp_path / "part"
    corpus = CorpusInput([str(source)], errors="strict")
    do(job, corpus, "1/2", path)
    before = path.read_bytes()
    path.write_bytes(before[:10])
    do(job, corpus, "1/2", path)
    assert path.read_bytes() == before


def test_an_input_that_becomes_shorter_makes_no_shard(jobs, source, tmp_path, monkeypatch):
    (job, _), path = jobs["translate"], tmp_path / "part"
    corpus = CorpusInput([str(source)], errors="strict")
    counted = corpus.check_is_whole()
    monkeypatch.setattr(CorpusInput, "check_is_whole", lambda self: counted + 8)
    with pytest.raises(UserError, match="shorter"):
        do(job, corpus, "2/2", path)
    assert not path.exists() and not list(tmp_path.glob("part*"))
