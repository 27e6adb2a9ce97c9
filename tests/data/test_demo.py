"""The demo corpus as a whole: sizes, splits, files, and how hard it is."""

import collections
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

from aevnmt_tf.data import demo
from aevnmt_tf.errors import UserError

ROOT = Path(demo.__file__).parents[3]
WORD = re.compile(r"[\w']+(?:[-.,]\w+)*|[^\w\s]")


@pytest.fixture(scope="module")
def corpus():
    return demo.splits(seed=1)


def _everything(corpus):
    return corpus.train + corpus.dev + corpus.test


def test_default_sizes(corpus):
    assert [len(part) for part in corpus] == [20000, 1000, 1000]


def test_no_sentence_occurs_twice(corpus):
    pairs = _everything(corpus)
    assert len({pair.english for pair in pairs}) == len(pairs)
    assert len({pair.german for pair in pairs}) == len(pairs)


def test_both_registers_about_half_each(corpus):
    for part in corpus:
        news = sum(pair.register == demo.NEWS for pair in part) / len(part)
        assert 0.45 < news < 0.55


def test_sentences_look_like_text(corpus):
    for pair in _everything(corpus):
        for side in pair[:2]:
            assert re.fullmatch(r"[A-ZÄÖÜ0-9].*[.?!]", side), side
            assert not re.search(r"\s\s|\s[,.?!]|,[^\s\d]|,,|,[.?!]|[|_~*+]|^\s|\s$", side), (
                side
            )
            assert 4 <= len(side.split()) <= 18, side
        assert pair.english[-1] == pair.german[-1]
    mean = sum(len(pair.english.split()) for pair in corpus.train) / len(corpus.train)
    assert 7 < mean < 12


def test_vocabulary_is_small_and_seen_in_training(corpus):
    for side, most in ((0, 1500), (1, 2200)):
        known = collections.Counter(
            w for pair in corpus.train for w in WORD.findall(pair[side])
        )
        assert 800 < len(known) < most
        words = [w for pair in corpus.test for w in WORD.findall(pair[side])]
        assert sum(w not in known for w in words) / len(words) < 0.01


def test_registers_speak_differently(corpus):
    """Contractions and du belong to talk, the formal Sie inside a sentence to news."""
    for pair in corpus.train:
        if pair.register == demo.NEWS:
            assert "'" not in pair.english
            assert not re.search(r"\b([Dd]u|[Ii]ch|dich|dir|mich|mir)\b", pair.german)
        else:
            assert not re.search(r"(?<!^)(?<![.?!] )\b(Sie|Ihnen)\b", pair.german)


def test_one_english_word_has_a_translation_for_each_register(corpus):
    for english, news, talk in (
        ("bill", "Gesetzentw", "Rechnung"),
        ("plant", "Werk", "Pflanze"),
        ("cabinet", "Kabinett", "Schrank"),
        ("already", "bereits", "schon"),
        ("last week", "vergangenen Woche", "etzte Woche"),
    ):
        for register, word in ((demo.NEWS, news), (demo.TALK, talk)):
            found = [
                pair.german
                for pair in corpus.train
                if pair.register == register and re.search(rf"\b{english}\b", pair.english)
            ]
            assert len(found) > 20 and all(word in german for german in found), english


def test_prefix_and_held_out_parts_do_not_depend_on_size(corpus):
    assert demo.generate(seed=1, num_pairs=50) == demo.generate(seed=1, num_pairs=80)[:50]
    small = demo.splits(seed=1, num_train=10)
    assert small.dev == corpus.dev and small.test == corpus.test
    assert small.train == corpus.train[:10]


def test_another_seed_gives_another_corpus():
    assert demo.generate(seed=1, num_pairs=20) != demo.generate(seed=2, num_pairs=20)


def test_a_used_up_grammar_is_an_error(monkeypatch):
    same = demo.Pair("A b c d.", "A b c d.", 0)
    monkeypatch.setattr("aevnmt_tf.data.demo.corpus._stream", lambda seed: iter([same] * 9999))
    with pytest.raises(UserError, match="only 1 of 2 different pairs"):
        demo.generate(seed=1, num_pairs=2)


def test_processes_agree_whatever_the_hash_seed():
    code = (
        "import sys, hashlib; from aevnmt_tf.data import demo;"
        "text = repr([tuple(p) for p in demo.generate(seed=5, num_pairs=1500)]);"
        "print(hashlib.sha256(text.encode()).hexdigest(), 'tensorflow' in sys.modules)"
    )
    here = repr([tuple(p) for p in demo.generate(seed=5, num_pairs=1500)])
    expected = f"{hashlib.sha256(here.encode()).hexdigest()} False"
    for hash_seed in ("1", "77"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == expected


def _dictionary(pairs, *, rounds=3):
    """The most likely translation of every word, learnt from pairs as IBM's model 1."""
    table = collections.defaultdict(lambda: collections.defaultdict(lambda: 1.0))
    for _ in range(rounds):
        counts = collections.defaultdict(lambda: collections.defaultdict(float))
        for source, target in pairs:
            rows = [(table[s], counts[s]) for s in source]
            for t in target:
                shares = [row[t] for row, _ in rows]
                total = sum(shares)
                for (_, count), share in zip(rows, shares, strict=True):
                    count[t] += share / total
        table = counts
        for row in table.values():
            total = sum(row.values())
            for t in row:
                row[t] /= total
    return {s: max(row, key=lambda t: (row[t], t)) for s, row in table.items()}


@pytest.mark.parametrize("source, target", [(0, 1), (1, 0)])
def test_word_by_word_translation_is_poor(corpus, source, target):
    learnt = _dictionary(
        [(WORD.findall(p[source]), WORD.findall(p[target])) for p in corpus.train[:5000]]
    )
    outputs = []
    for pair in corpus.test:
        text = " ".join(learnt.get(word, word) for word in WORD.findall(pair[source]))
        text = re.sub(r" ([.,?!])", r"\1", text)
        outputs.append(text[:1].upper() + text[1:])
    bleu = sacrebleu.corpus_bleu(outputs, [[pair[target] for pair in corpus.test]]).score
    # More than nothing, so the dictionary did learn; far from a translation.
    assert 8 < bleu < 30


def test_write_makes_parallel_files(tmp_path):
    prefixes = demo.write(
        tmp_path / "new" / "demo", seed=3, num_pairs=40, num_dev=7, num_test=5
    )
    made = demo.splits(seed=3, num_train=40, num_dev=7, num_test=5)
    assert list(prefixes) == ["train", "dev", "test"]
    for name, pairs in made._asdict().items():
        columns = [
            Path(f"{prefixes[name]}.{end}").read_text(encoding="utf-8").splitlines()
            for end in ("en", "de", "register")
        ]
        assert list(zip(*columns, strict=True)) == [(p[0], p[1], str(p[2])) for p in pairs]
    assert not [f for f in (tmp_path / "new" / "demo").iterdir() if f.name.startswith(".")]


def test_write_again_does_nothing_unless_something_changed(tmp_path):
    sizes = {"num_pairs": 30, "num_dev": 4, "num_test": 4}
    demo.write(tmp_path, seed=3, **sizes)
    train = tmp_path / "train.en"
    os.utime(train, (1, 1))
    demo.write(tmp_path, seed=3, **sizes)
    assert train.stat().st_mtime == 1
    first = train.read_text(encoding="utf-8")

    demo.write(tmp_path, seed=4, **sizes)
    assert train.read_text(encoding="utf-8") != first
    demo.write(tmp_path, seed=3, **{**sizes, "num_pairs": 31})
    assert train.read_text(encoding="utf-8").startswith(first)
    assert len(train.read_text(encoding="utf-8").splitlines()) == 31


@pytest.mark.parametrize("harm", ["cut", "remove", "stamp"])
def test_write_repairs_a_damaged_folder(tmp_path, harm):
    sizes = {"num_pairs": 30, "num_dev": 4, "num_test": 4}
    demo.write(tmp_path, **sizes)
    whole = (tmp_path / "train.de").read_bytes()
    if harm == "cut":
        (tmp_path / "train.de").write_bytes(whole[:100])
    elif harm == "remove":
        (tmp_path / "train.de").unlink()
    else:
        (tmp_path / "demo.json").write_text("{", encoding="utf-8")
        (tmp_path / "train.de").write_bytes(b"")
    demo.write(tmp_path, **sizes)
    assert (tmp_path / "train.de").read_bytes() == whole


def test_a_new_grammar_makes_the_files_anew(tmp_path, monkeypatch):
    sizes = {"num_pairs": 10, "num_dev": 2, "num_test": 2}
    demo.write(tmp_path, **sizes)
    before = (tmp_path / "train.en").read_text(encoding="utf-8")
    patterns = "aevnmt_tf.data.demo.corpus._PATTERNS"
    from aevnmt_tf.data.demo import news, talk

    monkeypatch.setattr(patterns, {0: news.PATTERNS[:3], 1: talk.PATTERNS[:3]})
    demo.write(tmp_path, **sizes)
    assert (tmp_path / "train.en").read_text(encoding="utf-8") != before


def test_a_failed_write_leaves_no_stamp(tmp_path, monkeypatch):
    sizes = {"num_pairs": 10, "num_dev": 2, "num_test": 2}
    demo.write(tmp_path, seed=1, **sizes)
    real = os.replace

    def full_disk(source, target):
        if Path(target).name == "dev.de":
            raise OSError("no space left")
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full_disk)
        with pytest.raises(OSError, match="no space"):
            demo.write(tmp_path, seed=2, **sizes)
    assert not [f for f in tmp_path.iterdir() if f.name.startswith(".")]
    demo.write(tmp_path, seed=1, **sizes)
    assert (tmp_path / "train.en").read_text(encoding="utf-8").splitlines() == [
        pair.english for pair in demo.splits(seed=1, num_train=10, num_dev=2, num_test=2).train
    ]
