import errno
import gzip
import json
import random

import pytest

from aevnmt_tf import hparams, prepare
from aevnmt_tf.data.pairs import read_pairs

NOUNS = {"dog": "Hund", "table": "Tisch", "spoon": "Löffel", "tree": "Baum", "ball": "Fußball"}
VERBS = {"sees": "sieht", "buys": "kauft", "finds": "findet", "likes": "mag", "seeks": "sucht"}


def sentences(count, seed=1):
    rng = random.Random(seed)
    for _ in range(count):
        (a, c), (b, d) = rng.sample(sorted(NOUNS.items()), 2)
        verb, verb_de = rng.choice(sorted(VERBS.items()))
        number = rng.randint(2, 99)
        yield (
            f"The {a} {verb} the {b}, isn't it {number}?",
            f"Der {c} {verb_de} den {d}, nicht wahr: {number}?",
        )


def write(prefix, pairs, packed=False):
    for lang, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        data = "".join(f"{line}\n" for line in lines).encode()
        if packed:
            (prefix.parent / f"{prefix.name}.{lang}.gz").write_bytes(gzip.compress(data))
        else:
            (prefix.parent / f"{prefix.name}.{lang}").write_bytes(data)
    return str(prefix)


@pytest.fixture
def corpus(tmp_path):
    """A training corpus with four faults, packed, and a dev set with two that stay."""
    train = list(sentences(300))
    train[5:5] = [("", "leer"), ("empty", " \t"), ("word " * 51, "lang"), ("x", "wort " * 51)]
    dev = [*sentences(10, seed=2), ("", "leer"), ("word " * 60, "wort " * 60)]
    return {
        "train_prefix": write(tmp_path / "train", train, packed=True),
        "dev_prefix": write(tmp_path / "dev", dev),
    }


def run(tmp_path, corpus, *flags, out="out"):
    settings = {"src": "en", "tgt": "de", "vocab_size": 350, **corpus}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    arguments = ["--hparams", str(tmp_path / "settings.json"), "--out", str(tmp_path / out)]
    return prepare.main([*arguments, *flags])


def manifest(tmp_path, out="out"):
    return json.loads((tmp_path / out / "manifest.json").read_text())


def test_what_was_dropped_is_counted_and_shown(tmp_path, corpus, capsys):
    assert run(tmp_path, corpus) == 0
    assert manifest(tmp_path)["corpora"]["train"]["counts"] == {
        "read": 304,
        "empty_source": 1,
        "empty_target": 1,
        "over_50_words": 2,
        "kept": 300,
    }
    assert manifest(tmp_path)["corpora"]["dev"]["counts"]["kept"] == 12
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert "corpus read empty source empty target over 50 words kept".split() in rows
    assert ["train", "304", "1", "1", "2", "300"] in rows
    assert ["dev", "12", "0", "0", "0", "12"] in rows
    assert rows[-1][0] == "next:" and rows[-1][-4] == "--hparams"


def test_sentencepiece_keeps_raw_text_and_settings_name_the_files(tmp_path, corpus):
    run(tmp_path, corpus)
    hp = hparams.load(tmp_path / "out" / "hparams.json")
    assert hp.train_prefix == str(tmp_path / "out" / "train")
    assert list(read_pairs(hp.train_prefix, src="en", tgt="de")) == list(sentences(300))
    dev = read_pairs(hp.dev_prefix, src="en", tgt="de")
    assert list(dev) == list(read_pairs(tmp_path / "dev", src="en", tgt="de"))
    assert sorted(path.name for path in (tmp_path / "out" / "text").iterdir()) == [
        "text.json",
        "vocab.de.model",
        "vocab.en.model",
    ]


def test_the_same_text_gives_the_same_files(tmp_path, corpus):
    for flags in ([], ["--text_pipeline", "moses", "--vocab_size", "60"]):
        run(tmp_path, corpus, *flags, out="one")
        run(tmp_path, corpus, *flags, out="two")
        one = {p.relative_to(tmp_path / "one"): p.read_bytes() for p in files(tmp_path / "one")}
        two = {p.relative_to(tmp_path / "two"): p.read_bytes() for p in files(tmp_path / "two")}
        assert one == two


def files(folder):
    """All but settings and the manifest of ids, which name places and times."""
    named = [folder / "hparams.json", *folder.glob("ids/*/manifest.json")]
    return [path for path in folder.rglob("*") if path.is_file() and path not in named]


def test_moses_writes_subwords_and_keeps_raw_dev(tmp_path, corpus):
    run(tmp_path, corpus, "--text_pipeline", "moses", "--vocab_size", "60")
    out = tmp_path / "out"
    first = (out / "train.en").read_text().splitlines()[0]
    assert first.replace("@@ ", "").startswith("the ")
    assert "isn &apos;t it" in first.replace("@@ ", "")
    codes = (out / "text" / "moses.de.codes").read_text().splitlines()
    assert len(codes) == 61
    words = (out / "text" / "vocab.de").read_text().splitlines()
    assert words[:3] == ["<unk>", "<s>", "</s>"]
    used = {
        word for line in (out / "train.de").read_text().splitlines() for word in line.split()
    }
    assert used == set(words[3:])
    assert (out / "raw" / "dev.de").read_text() == (tmp_path / "dev.de").read_text()
    assert manifest(tmp_path)["corpora"]["train"]["counts"]["kept"] == 300


def test_moses_shares_merges_and_vocabulary(tmp_path, corpus):
    flags = ["--text_pipeline", "moses", "--vocab_size", "60", "--share_vocab"]
    run(tmp_path, corpus, *flags)
    text = tmp_path / "out" / "text"
    assert (text / "moses.de.codes").read_text() == (text / "moses.en.codes").read_text()
    assert {"den", "the"} <= set((text / "vocab.shared").read_text().splitlines())


def test_moses_without_subwords(tmp_path, corpus):
    run(tmp_path, corpus, "--text_pipeline", "moses", "--subword_option", "")
    text = tmp_path / "out" / "text"
    assert "Löffel" in (text / "vocab.de").read_text().splitlines()
    assert not (text / "moses.de.codes").exists()


def test_monolingual_and_synthetic_text_teach_the_models(tmp_path, corpus):
    (tmp_path / "mono.de").write_text("der Zwiebelkuchen schmeckt\n\n" * 20)
    (tmp_path / "back.de").write_text("die Kürbissuppe dampft\n" * 20)
    (tmp_path / "back.translation.en").write_text("zzsoup zzsteams\n" * 19 + "\n")
    flags = ["--text_pipeline", "moses", "--vocab_size", "400"]
    flags += ["--mono_tgt", str(tmp_path / "mono.de")]
    run(tmp_path, {**corpus, "synthetic_prefix": str(tmp_path / "back")}, *flags)
    text = tmp_path / "out" / "text"
    german = (text / "vocab.de").read_text().splitlines()
    assert {"Zwiebelkuchen", "Kürbissuppe"} <= set(german)
    assert "zz" not in (text / "moses.en.codes").read_text()  # made by a machine
    counts = {name: c["counts"] for name, c in manifest(tmp_path)["corpora"].items()}
    assert counts["mono.de"] == {"read": 40, "empty": 20, "over_50_words": 0, "kept": 20}
    assert counts["synthetic"]["empty_source"] == 1
    lines = (tmp_path / "out" / "synthetic.translation.en").read_text().splitlines()
    assert len(lines) == len((tmp_path / "out" / "synthetic.de").read_text().splitlines()) == 19


def test_several_corpora(tmp_path, corpus):
    talk = write(tmp_path / "talk", list(sentences(50, seed=3)))
    corpus["train_prefix"] = [corpus["train_prefix"], talk]
    run(tmp_path, corpus)
    hp = hparams.load(tmp_path / "out" / "hparams.json")
    assert hp.train_prefix == tuple(str(tmp_path / "out" / f"train-{n}") for n in (1, 2))
    assert len(read_pairs(hp.train_prefix[1], src="en", tgt="de")) == 50


def test_words_of_text_that_is_in_subwords_are_counted(tmp_path):
    pairs = [("a@@ b " * 40, "c " * 50), ("a@@ b " * 51, "c")]
    train = write(tmp_path / "train", pairs)
    run(tmp_path, {"train_prefix": train}, "--subword_option", "bpe")
    assert manifest(tmp_path)["corpora"]["train"]["counts"]["over_50_words"] == 1
    words = (tmp_path / "out" / "text" / "vocab.en").read_text().split()
    assert words == ["<unk>", "<s>", "</s>", "a@@", "b"]


def test_another_pipeline_in_the_same_folder_leaves_nothing_behind(tmp_path, corpus):
    run(tmp_path, corpus)
    run(tmp_path, corpus, "--text_pipeline", "moses", "--vocab_size", "60")
    names = {path.name for path in (tmp_path / "out" / "text").iterdir()}
    assert "vocab.de" in names and "vocab.de.model" not in names
    run(tmp_path, corpus)
    names = {path.name for path in (tmp_path / "out" / "text").iterdir()}
    assert names == {"text.json", "vocab.de.model", "vocab.en.model"}


def test_given_models_are_used(tmp_path, corpus):
    flags = ["--text_pipeline", "moses", "--vocab_size", "60"]
    run(tmp_path, corpus, *flags, out="one")
    other = write(tmp_path / "other", list(sentences(40, seed=9)))
    given = ["--vocab_prefix", str(tmp_path / "one" / "text" / "vocab")]
    run(tmp_path, {"train_prefix": other}, *flags, *given, out="two")
    for name in ("vocab.de", "moses.de.codes", "moses.de.truecaser"):
        one, two = (tmp_path / folder / "text" / name for folder in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_a_failure_leaves_a_folder_that_claims_nothing(tmp_path, corpus, monkeypatch):
    run(tmp_path, corpus)

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("aevnmt_tf.data.corpus_preparation.learn_tokenizers", stop)
    assert run(tmp_path, corpus) == 130
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert not left & {"manifest.json", "hparams.json"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_prefix": "nowhere/train"}, "nowhere/train.en"),
        ({"train_prefix": "x" * 300}, "Cannot read xxx"),
        ({"vocab_size": 100}, "vocab_size 100 is too small"),
        ({"vocab_prefix": "nowhere/vocab"}, "neither nowhere/vocab.en.model nor"),
        ({"text_pipeline": "moses", "vocab_prefix": "PLAIN"}, "moses.en.truecaser"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, corpus, capsys, change, message):
    for lang in ("en", "de"):
        (tmp_path / f"plain.{lang}").write_text("<unk>\n<s>\n</s>\na\n")
    change = {k: str(tmp_path / "plain") if v == "PLAIN" else v for k, v in change.items()}
    assert run(tmp_path, {**corpus, **change}) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("aevnmt prepare: ") and error.count("\n") == 1


def test_misaligned_files_and_an_empty_corpus(tmp_path, corpus, capsys):
    (tmp_path / "dev.de").write_text("nur eine\n")
    assert run(tmp_path, corpus) == 2
    assert "dev.de has 1" in capsys.readouterr().err
    train = write(tmp_path / "void", [("", "a"), ("b", "")])
    assert run(tmp_path, {"train_prefix": train}) == 2
    assert "after cleaning" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [[], ["--text_pipeline", "moses"]])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("train", {"train_prefix": "OUT/train"}),
        ("train-2", {"train_prefix": ["train", "OUT/train-2"]}),
        ("dev", {"dev_prefix": "LINK/dev"}),
        ("test", {"test_prefix": "OUT/../OUT/test"}),
        ("train", {"test_prefix": "OUT/train"}),
        ("demo/test", {"test_prefix": "OUT/demo/test", "train_prefix": None}),
        ("dev", {"test_prefix": "OUT/dev", "train_prefix": None}),
    ],
)
def test_no_file_that_is_read_is_replaced(
    tmp_path, corpus, capsys, monkeypatch, name, settings, packed, flags
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "OUT" / "demo").mkdir(parents=True)
    (tmp_path / "LINK").symlink_to(tmp_path / "OUT")
    write(tmp_path / "OUT" / name, list(sentences(20)), packed=packed)
    before = {path: path.read_bytes() for path in files(tmp_path / "OUT")}
    base = corpus if settings.get("train_prefix", "") is not None else {}
    assert run(tmp_path, {**base, **settings}, *flags, out="OUT") == 2
    error = capsys.readouterr().err
    assert f"--out {tmp_path / 'OUT'} would overwrite " in error and error.count("\n") == 1
    assert f"{name.split('/')[-1]}.en{'.gz' * packed}: " in error
    assert {path: path.read_bytes() for path in files(tmp_path / "OUT")} == before


def test_synthetic_and_monolingual_files_are_not_replaced_either(tmp_path, corpus, capsys):
    out = tmp_path / "out"
    out.mkdir()
    for name in ("synthetic.translation.en", "synthetic.de", "mono-2.de", "other.de"):
        (out / name).write_text("ein Satz\n")
    before = {path: path.read_bytes() for path in files(out)}
    assert run(tmp_path, {**corpus, "synthetic_prefix": str(out / "synthetic")}) == 2
    assert f"input {out / 'synthetic.translation.en'}: " in capsys.readouterr().err
    mono = [flag for name in ("other", "mono-2") for flag in ("--mono_tgt", f"{out}/{name}.de")]
    assert run(tmp_path, corpus, *mono) == 2
    assert f"overwrite the input {out / 'mono-2.de'}: " in capsys.readouterr().err
    assert {path: path.read_bytes() for path in files(out)} == before
    assert run(tmp_path, corpus, *mono[:2]) == 0  # no file of that name is written


def test_raw_dev_is_kept_only_by_moses(tmp_path, corpus, capsys):
    raw = tmp_path / "out" / "raw"
    raw.mkdir(parents=True)
    corpus["dev_prefix"] = write(raw / "dev", list(sentences(10)))
    assert run(tmp_path, corpus, "--text_pipeline", "moses", "--vocab_size", "60") == 2
    assert f"overwrite the input {raw / 'dev.en'}: " in capsys.readouterr().err
    assert run(tmp_path, corpus) == 0


def test_a_folder_that_cannot_be_made(tmp_path, corpus, capsys):
    (tmp_path / "file").write_text("not a folder\n")
    for out in ("file", "file/folder", "/proc/folder"):
        assert run(tmp_path, corpus, out=out) == 2
        error = capsys.readouterr().err
        assert "cannot write" in error and str(tmp_path / out) in error
        assert error.count("\n") == 1
    assert (tmp_path / "file").read_text() == "not a folder\n"


@pytest.mark.parametrize(
    ("settings", "place"),
    [({}, "out/.work/Cleaning"), ({"train_prefix": None}, "out/demo/dev.en")],
)
def test_a_full_disk_is_a_sentence(tmp_path, corpus, capsys, monkeypatch, settings, place):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    base = corpus if "train_prefix" not in settings else {"demo_pairs": 100}
    monkeypatch.setattr("os.replace", refuse)
    assert run(tmp_path, {**base, **settings}, "--subword_option", "") == 2
    error = capsys.readouterr().err
    assert f"cannot write {tmp_path / place}: the disk is full" in error
    assert error.count("\n") == 1
    assert not list((tmp_path / "out").rglob(".train.en.*"))  # nothing half written stays


def test_missing_and_empty_files_leave_no_folder_or_models(tmp_path, corpus, capsys):
    mono = ["--mono_src", str(tmp_path / "nowhere.en")]
    assert run(tmp_path, corpus, *mono) == 2
    assert "nowhere.en" in capsys.readouterr().err
    assert run(tmp_path, {**corpus, "test_prefix": str(tmp_path / "nowhere")}) == 2
    assert "nowhere.en" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    for lang in ("en", "de"):
        (tmp_path / f"none.{lang}").touch()
    assert run(tmp_path, {**corpus, "test_prefix": str(tmp_path / "none")}) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path}/none.en and {tmp_path}/none.de are empty: check test_prefix" in error
    assert not (tmp_path / "out" / "text").exists()


def test_out_is_needed(capsys):
    assert prepare.main([]) == 2
    assert "--out is missing" in capsys.readouterr().err
