import errno
import random
import re
import shutil
import subprocess
import sys

import pytest

from aevnmt_tf import hparams, text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data import corpus_preparation
from aevnmt_tf.data.corpus_preparation import ensure_prepared, prepare
from aevnmt_tf.data.pairs import read_pairs

FIRST_LEARNT_PIECE = 3 + 256  # after <unk>, <s>, </s> and the bytes
WORDS = {"dog": "Hund", "spoon": "Löffel", "tree": "Baum", "sees": "sieht", "buys": "kauft"}


def write(prefix, count, seed=1):
    rng = random.Random(seed)
    rows = [rng.choices(sorted(WORDS), k=rng.randint(3, 8)) for _ in range(count)]
    english = "".join(f"The {' '.join(row)}.\n" for row in rows)
    german = "".join(f"Ein {' '.join(WORDS[word] for word in row)}.\n" for row in rows)
    prefix.with_name(f"{prefix.name}.en").write_text(english)
    prefix.with_name(f"{prefix.name}.de").write_text(german)
    return str(prefix)


@pytest.fixture
def settings(tmp_path):
    def load(**overrides):
        base = dict(src="en", tgt="de", vocab_size=320, out_dir=str(tmp_path / "run"))
        named = dict(
            train_prefix=str(tmp_path / "train"),
            dev_prefix=str(tmp_path / "dev"),
            test_prefix=str(tmp_path / "test"),
        )
        return hparams.load(**{**base, **named, **overrides})

    for seed, (name, count) in enumerate([("train", 200), ("dev", 10), ("test", 10)]):
        write(tmp_path / name, count, seed)
    return load


def silent(sentence):
    """For runs whose reports are not the matter."""


def content(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def test_models_are_learnt_once_and_found_again(settings, tmp_path):
    said = []
    hp = settings()
    first = ensure_prepared(hp, tmp_path / "run" / "text", report=said.append)
    assert any(str(tmp_path / "train") in sentence for sentence in said)
    made = content(tmp_path / "run" / "text")
    said.clear()
    (tmp_path / "train.en").write_text("other text\n")  # a run keeps its models
    second = ensure_prepared(hp, tmp_path / "run" / "text", report=said.append)
    assert not said
    assert content(tmp_path / "run" / "text") == made
    assert first.x_tokenizer.model_proto == second.x_tokenizer.model_proto
    assert first.hp == second.hp == hp
    assert first.x_moses is None and first.y_moses is None
    assert first.raw == {"dev": (hp.dev_prefix,), "test": (hp.test_prefix,)}
    (decoded,) = first.y_tokenizer.decode(first.y_tokenizer.encode(["Ein Löffel."])).numpy()
    assert decoded.decode() == "Ein Löffel."


def test_a_shared_model_is_one_object(settings, tmp_path):
    found = ensure_prepared(settings(share_vocab=True), tmp_path / "text", report=silent)
    assert found.x_tokenizer is found.y_tokenizer
    assert [path.name for path in (tmp_path / "text").glob("vocab.*")] == ["vocab.shared.model"]
    for line in ("Ein Löffel.", "The spoon."):  # learnt from both: no bytes
        assert found.x_tokenizer.encode([line]).numpy().min() >= FIRST_LEARNT_PIECE


def test_a_half_made_folder_is_made_again(settings, tmp_path):
    whole = tmp_path / "whole" / "text"
    ensure_prepared(settings(), whole, report=silent)
    for missing in ("text.json", "vocab.de.model"):
        half = tmp_path / f"without-{missing}" / "text"
        half.mkdir(parents=True)
        (half / "vocab.en.model").write_bytes(b"half")
        if missing != "vocab.de.model":
            (half / "vocab.de.model").write_bytes(b"half")
        ensure_prepared(settings(), half, report=silent)
        assert content(half) == content(whole)


def test_tf_nmt_vocabularies_are_used_and_copied(settings, tmp_path):
    for lang, words in (("en", ["The", "dog"]), ("de", ["Ein", "Hu@@", "nd"])):
        rows = ["<unk>", "<s>", "</s>", *words]
        (tmp_path / f"voc.{lang}").write_text("".join(f"{word}\n" for word in rows))
    hp = settings(vocab_prefix=str(tmp_path / "voc"), subword_option="bpe")
    found = ensure_prepared(hp, tmp_path / "run" / "text", report=silent)
    assert found.x_tokenizer.words[3:] == ("The", "dog")
    for lang in ("en", "de"):
        (tmp_path / f"voc.{lang}").unlink()  # the run has its own
    found = ensure_prepared(hp, tmp_path / "run" / "text", report=silent)
    assert found.hp.vocab_prefix == str(tmp_path / "voc")
    ids = found.y_tokenizer.encode(["Ein Hu@@ nd"])
    assert found.y_tokenizer.decode(ids).numpy().tolist() == [b"Ein Hund"]


def test_words_without_a_vocabulary_make_one(settings, tmp_path):
    found = ensure_prepared(settings(subword_option=""), tmp_path / "text", report=silent)
    assert found.x_tokenizer.words[3] == "The"


def test_a_vocabulary_that_is_missing_is_an_error(settings, tmp_path):
    hp = settings(vocab_prefix=str(tmp_path / "nothing"))
    with pytest.raises(UserError, match="nothing.en.model"):
        ensure_prepared(hp, tmp_path / "text", report=silent)


def test_other_settings_in_the_same_run_are_refused(settings, tmp_path):
    ensure_prepared(settings(), tmp_path / "text", report=silent)
    with pytest.raises(UserError, match="share_vocab false, not true: choose another out_dir"):
        ensure_prepared(settings(share_vocab=True), tmp_path / "text", report=silent)


def test_the_demo_corpus_where_none_is_named(tmp_path):
    hp = hparams.load(demo_pairs=300, vocab_size=500)
    found = ensure_prepared(hp, tmp_path / "run" / "text", report=silent)
    assert found.hp.train_prefix.startswith(str(tmp_path / "run" / "demo"))
    assert len(read_pairs(found.hp.train_prefix, src="en", tgt="de")) == 300
    assert len(read_pairs(found.hp.dev_prefix, src="en", tgt="de")) > 0
    assert found.hp.test_prefix is not None
    assert ensure_prepared(hp, tmp_path / "run" / "text", report=silent).hp == found.hp


def fault_of(kind, fault, folder):
    """Spoil the files of a kind and return what the error says."""
    english, german = folder / f"{kind}.en", folder / f"{kind}.de"
    if fault == "missing":
        german.unlink()
        return f"neither {german} nor"
    english.write_text("")
    if fault == "misaligned":
        return f"{english} has 0 lines"
    german.write_text("")
    return f"{english} and {german} are empty"


@pytest.mark.parametrize("fault", ["missing", "empty", "misaligned"])
@pytest.mark.parametrize("kind", ["train", "dev"])
def test_faults_of_files_are_known_before_models_are_learnt(settings, tmp_path, kind, fault):
    message = fault_of(kind, fault, tmp_path)
    said = []
    with pytest.raises(UserError, match=re.escape(message)):
        ensure_prepared(settings(), tmp_path / "run" / "text", report=said.append)
    assert not said
    assert not list(tmp_path.glob("run/text/vocab.*"))


def test_a_run_does_not_need_the_test_set(settings, tmp_path):
    fault_of("test", "missing", tmp_path)
    prepared = ensure_prepared(settings(), tmp_path / "run" / "text", report=silent)
    assert prepared.x_tokenizer.vocab_size > 3


def test_a_run_whose_folder_cannot_be_made(settings, tmp_path):
    with pytest.raises(UserError, match="cannot write into .*train.en/text"):
        ensure_prepared(settings(), tmp_path / "train.en" / "text", report=silent)


def test_a_file_system_without_locks(settings, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    prepared = ensure_prepared(settings(), tmp_path / "run" / "text", report=silent)
    assert prepared.x_tokenizer.vocab_size > 3


class TestMoses:
    """Raw text is prepared in the run's directory, prepared text is taken as it is."""

    def test_raw_text_is_prepared_once(self, settings, tmp_path):
        hp = settings(text_pipeline="moses", vocab_size=15)
        said = []
        found = ensure_prepared(hp, tmp_path / "run" / "text", report=said.append)
        assert len(said) == 1 and "Moses" in said[0]
        assert found.hp.train_prefix == str(tmp_path / "run" / "prepared" / "train")
        self.check(found, hp, tmp_path / "run" / "prepared")
        again = ensure_prepared(hp, tmp_path / "run" / "text", report=said.append)
        assert len(said) == 1
        assert again.hp == found.hp

    def check(self, found, hp, folder):
        pairs = read_pairs(found.hp.train_prefix, src="en", tgt="de")
        first = next(iter(pairs.src)).replace("@@ ", "")
        assert first.startswith("The ") and first.endswith(" .")
        assert found.raw == {kind: (str(folder / "raw" / kind),) for kind in ("dev", "test")}
        raw = read_pairs(found.raw["dev"][0], src="en", tgt="de")
        assert list(raw) == list(read_pairs(hp.dev_prefix, src="en", tgt="de"))
        dev = read_pairs(found.hp.dev_prefix, src="en", tgt="de")
        for line, prepared in zip(raw.src, dev.src, strict=True):
            assert found.x_moses.forward(line) == prepared
            ids = found.x_tokenizer.encode([prepared])
            assert text.UNK not in ids.to_list()[0]
            (joined,) = found.x_tokenizer.decode(ids).numpy()
            assert found.x_moses.inverse(joined.decode()) == line

    def test_a_run_keeps_its_models_when_the_text_changes(self, settings, tmp_path):
        hp = settings(text_pipeline="moses", vocab_size=60)
        ensure_prepared(hp, tmp_path / "run" / "text", report=silent)
        models = content(tmp_path / "run" / "text")
        write(tmp_path / "train", 150, seed=11)
        said = []
        found = ensure_prepared(hp, tmp_path / "run" / "text", report=said.append)
        assert "Moses" in said[0] and "train.en has changed" in said[1]
        assert content(tmp_path / "run" / "text") == models
        assert len(read_pairs(found.hp.train_prefix, src="en", tgt="de")) == 150

    def test_a_run_may_be_copied_and_moved(self, settings, tmp_path):
        hp = settings(text_pipeline="moses", vocab_size=15)
        ensure_prepared(hp, tmp_path / "run" / "text", report=silent)
        shutil.copytree(tmp_path / "run", tmp_path / "copy")
        (tmp_path / "run").rename(tmp_path / "moved")
        for name in ("copy", "moved"):
            found = ensure_prepared(hp, tmp_path / name / "text", report=pytest.fail)
            assert found.hp.train_prefix == str(tmp_path / name / "prepared" / "train")
            self.check(found, hp, tmp_path / name / "prepared")

    def test_a_run_may_go_on_from_another_folder(self, settings, tmp_path, monkeypatch):
        hp = settings(text_pipeline="moses", vocab_size=15)
        monkeypatch.chdir(tmp_path)
        ensure_prepared(hp, "run/text", report=silent)
        monkeypatch.chdir(tmp_path / "run")
        found = ensure_prepared(hp, "text", report=pytest.fail)
        assert len(read_pairs(found.hp.train_prefix, src="en", tgt="de")) == 200
        assert found.hp.dev_prefix == "prepared/dev"

    def test_a_run_does_not_need_the_test_set(self, settings, tmp_path):
        fault_of("test", "missing", tmp_path)
        hp = settings(text_pipeline="moses", vocab_size=15)
        ensure_prepared(hp, tmp_path / "run" / "text", report=silent)
        found = ensure_prepared(hp, tmp_path / "run" / "text", report=pytest.fail)
        assert found.hp.test_prefix is None and found.raw["test"] == ()
        both = [hp.test_prefix, write(tmp_path / "other", 5)]
        hp = hp.replace(test_prefix=both)
        found = ensure_prepared(hp, tmp_path / "run" / "text", report=silent)
        assert len(read_pairs(found.raw["test"][0], src="en", tgt="de")) == 5

    def test_merges_that_cannot_be_found_are_reported(self, settings, tmp_path):
        said = []
        prepare(
            settings(text_pipeline="moses", vocab_size=999),
            tmp_path / "out",
            report=said.append,
        )
        assert len(said) == 2
        codes = (tmp_path / "out" / "text" / "moses.de.codes").read_text().splitlines()
        assert (
            f"de: the text yields {len(codes) - 1} BPE merges, fewer than vocab_size 999"
            in said[1]
        )

    def test_prepared_text_is_not_prepared_twice(self, settings, tmp_path):
        hp = settings(text_pipeline="moses", vocab_size=60)
        prepare(hp, tmp_path / "out", report=silent)
        ready = hparams.load(tmp_path / "out" / "hparams.json")
        found = ensure_prepared(ready, tmp_path / "run" / "text", report=silent)
        assert found.hp == ready
        assert not (tmp_path / "run" / "prepared").exists()
        self.check(found, hp, tmp_path / "out")

    def test_raw_and_prepared_text_do_not_mix(self, settings, tmp_path):
        hp = settings(text_pipeline="moses", vocab_size=60)
        prepare(hp, tmp_path / "out", report=silent)
        ready = hparams.load(tmp_path / "out" / "hparams.json")
        mixed = ready.replace(test_prefix=hp.test_prefix)
        with pytest.raises(UserError, match="prepare all corpora together"):
            ensure_prepared(mixed, tmp_path / "run" / "text", report=silent)


ENSURE = """
import hashlib, sys
from aevnmt_tf import hparams
from aevnmt_tf.data.corpus_preparation import ensure_prepared

found = ensure_prepared(hparams.load(sys.argv[1]), sys.argv[2], report=lambda sentence: None)
for tokenizer in (found.x_tokenizer, found.y_tokenizer):
    print(hashlib.sha256(tokenizer.model_proto).hexdigest())
"""


@pytest.mark.slow
def test_two_workers_may_start_together(settings, tmp_path):
    settings().save(tmp_path / "hparams.json")
    command = [sys.executable, "-c", ENSURE]
    command += [str(tmp_path / "hparams.json"), str(tmp_path / "run" / "text")]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    found = [worker.communicate(timeout=120)[0].split() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    assert len(found[0]) == 2
    assert found[0] == found[1]


def test_ids_beside_prepared_text_that_cannot_be_written_are_the_run_s_own(
    tmp_path, monkeypatch
):
    shared = tmp_path / "prepared"
    (shared / "ids").mkdir(parents=True)
    (shared / "manifest.json").write_text('{"settings": {}, "corpora": {}, "models": {}}')
    hp = hparams.load(None, src="en", tgt="de", train_prefix=str(shared / "train"))
    own = tmp_path / "run" / "text"
    assert corpus_preparation._ids_folder(hp, own) == shared / "ids"
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert corpus_preparation._ids_folder(hp, own) == own / "ids"
