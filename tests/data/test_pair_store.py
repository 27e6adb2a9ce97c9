"""The ids on the disk: written once, whole or not at all, and noticed where text changes."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from aevnmt_tf import hparams
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data import pair_encoding, pair_store
from aevnmt_tf.data.training_data import load_training_data

LINES = [f"w{n} w{n + 1}" if n % 7 else "" for n in range(90)]


@pytest.fixture
def small_chunks(monkeypatch):
    """Four lines a chunk, two chunks a commit."""
    monkeypatch.setattr(pair_encoding, "LINES_PER_CALL", 4)
    monkeypatch.setattr(pair_store, "LINES_PER_COMMIT", 8)


@pytest.fixture
def store(write_pairs, tokenizer, tmp_path):
    """Opens the store of a corpus, and counts the chunks that are tokenised for it."""
    prefix = write_pairs(LINES, LINES[::-1])

    class Opened:
        folder = tmp_path / "ids"
        said = []
        tokenised = 0

        def __call__(self, **changes):
            named = dict(src="en", tgt="de", train_prefix=str(prefix), batch_size=4)
            hp = hparams.load(None, **(named | changes))
            tokenizers = dict(x_tokenizer=tokenizer, y_tokenizer=tokenizer)
            return load_training_data(
                hp, **tokenizers, folder=self.folder, report=self.said.append
            )

        def files(self):
            """The content of all files but locks, by name."""
            return {
                path.name: path.read_bytes()
                for path in sorted(self.folder.rglob("*"))
                if path.is_file() and path.name != ".lock"
            }

    opened = Opened()
    chunks = pair_encoding.PairEncoder.chunks

    def counted(self, pairs, *, first=0):
        for chunk in chunks(self, pairs, first=first):
            opened.tokenised += 1
            yield chunk

    opened.counted = counted
    return opened


@pytest.fixture
def counting(store, monkeypatch):
    monkeypatch.setattr(pair_encoding.PairEncoder, "chunks", store.counted)
    return store


def batches_of(data):
    return [
        {name: value.tolist() for name, value in batch.items()}
        for batch in data.dataset().take(2 * data.batches_per_epoch).as_numpy_iterator()
    ]


def test_a_second_start_tokenises_nothing_and_trains_on_the_same(counting, small_chunks):
    first = counting()
    assert counting.tokenised == -(-len(LINES) // 4) and not counting.said
    again = counting()
    assert counting.tokenised == -(-len(LINES) // 4)
    assert batches_of(first) == batches_of(again)
    assert first.counts == again.counts and first.counts.corpora[0].kept < len(LINES)
    assert again.digests == first.digests


def test_ids_are_mapped_and_take_two_bytes(store):
    store()
    (manifest,) = store.folder.glob("*/manifest.json")
    about = json.loads(manifest.read_text())
    assert about["dtype"] == "uint16"
    kept = about["counts"]["kept"]
    assert about["files"]["0.x.offsets"]["bytes"] == 8 * (kept + 1)
    ids = np.memmap(manifest.parent / "0.x.ids", np.uint16, mode="r")
    assert about["files"]["0.x.ids"]["bytes"] == 2 * len(ids) and (ids == 2).sum() == kept


def test_a_changed_file_is_named_and_tokenised_again(counting, tmp_path):
    before = counting()
    path = tmp_path / "train.en"
    os.utime(path, (1, 1))  # the same text: read again, but not tokenised again
    tokenised = counting.tokenised
    counting()
    assert counting.tokenised == tokenised and not counting.said
    path.write_text(path.read_text().replace("w5 w6", "w6 w5"), encoding="utf-8")
    after = counting()
    (sentence,) = counting.said
    assert "train.en has changed" in sentence and counting.tokenised > tokenised
    changed = [name for name in after.digests if after.digests[name] != before.digests[name]]
    assert [os.path.basename(name) for name in changed] == ["train.en"]


@pytest.mark.parametrize("name", ["0.x.ids", "0.y.offsets"])
def test_a_truncated_store_is_named_and_made_again(counting, name):
    counting()
    whole = counting.files()
    (path,) = counting.folder.rglob(name)
    os.truncate(path, path.stat().st_size - 2)
    counting()
    (sentence,) = counting.said
    assert name in sentence and "damaged" in sentence
    assert counting.files() == whole


@pytest.mark.parametrize("after", [1, 9, 22])
def test_a_failure_in_the_middle_goes_on_and_gives_the_same_bytes(
    counting, small_chunks, monkeypatch, after
):
    counting()
    whole = counting.files()
    for path in counting.folder.rglob("*.*"):
        path.unlink()
    append, appended = pair_store._Files.append, []

    def fail(self, versions):
        appended.append(len(versions[0]))
        append(self, versions)
        if len(appended) == after:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pair_store._Files, "append", fail)
        with pytest.raises(KeyboardInterrupt):
            counting()
    assert not list(counting.folder.glob("*/manifest.json"))
    counting.tokenised = 0
    counting()
    assert counting.files() == whole
    committed = (after - 1) // 2 * 8
    assert counting.tokenised == -(-(len(LINES) - committed) // 4)


def test_other_settings_have_a_store_of_their_own(store):
    first = store()
    store(src_max_len=3)
    store(max_train=50)
    assert len(list(store.folder.glob("*/manifest.json"))) == 3
    assert batches_of(store()) == batches_of(first)


def test_a_corpus_of_which_nothing_is_left_is_refused_each_time(store):
    for _ in range(2):
        with pytest.raises(UserError, match="none of 90 pairs is left"):
            store(src_max_len=1, tgt_max_len=1, max_train=0)


def test_an_array_that_is_missing_beside_progress_is_made_again(
    store, small_chunks, monkeypatch
):
    write = pair_store.atomic_writes.write_json

    def stop(path, value):
        write(path, value)
        if path.name == pair_store.PROGRESS:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(pair_store.atomic_writes, "write_json", stop)
        store()
    (path,) = store.folder.rglob("0.y.ids")
    path.unlink()
    assert store().counts.corpora[0].kept > 0


def test_a_store_that_another_process_writes_too_is_refused(store, monkeypatch):
    """As on a disk without locks."""
    write = pair_store.PairStore._write

    def disturbed(self, *arguments):
        manifest = write(self, *arguments)
        os.truncate(self.folder / "0.x.ids", 6)
        return manifest

    monkeypatch.setattr(pair_store.PairStore, "_write", disturbed)
    with pytest.raises(UserError, match="another process has written .*0.x.ids"):
        store()


KILLED = """
import itertools, os, signal, sys
from aevnmt_tf.data import pair_encoding, pair_store, training_data
pair_encoding.LINES_PER_CALL = 4
pair_store.LINES_PER_COMMIT = 8
append, number = pair_store._Files.append, itertools.count(1)
def kill(self, versions):
    append(self, versions)
    self.flush()
    if next(number) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
pair_store._Files.append = kill
from aevnmt_tf import hparams, text
tokenizer = text.VocabularyTokenizer(["<unk>", "<s>", "</s>", *(f"w{n}" for n in range(100))])
hp = hparams.load(None, src="en", tgt="de", train_prefix=sys.argv[2], batch_size=4)
training_data.load_training_data(
    hp, x_tokenizer=tokenizer, y_tokenizer=tokenizer, folder=sys.argv[3]
)
"""


@pytest.mark.slow
def test_kill_9_while_the_store_is_written_and_again_gives_the_same_bytes(store, tmp_path):
    store()
    whole = store.files()
    other = tmp_path / "deeper" / "ids"

    def run(after):
        words = [sys.executable, "-c", KILLED, str(after), str(tmp_path / "train"), str(other)]
        return subprocess.run(words, check=False, capture_output=True).returncode

    assert [run(5), run(7), run(99)] == [-signal.SIGKILL, -signal.SIGKILL, 0]
    store.folder = other
    found = store.files()
    assert {n: c for n, c in found.items() if n != "manifest.json"} == {
        n: c for n, c in whole.items() if n != "manifest.json"
    }
