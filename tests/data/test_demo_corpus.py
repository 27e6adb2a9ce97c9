"""The demo corpus as it is shipped and written."""

import os
import re
from pathlib import Path

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data.demo_corpus import MOST_PAIRS, write_demo


def read(prefix):
    """(English, German, register) of each pair."""
    columns = [
        Path(f"{prefix}.{ending}").read_text(encoding="utf-8").splitlines()
        for ending in ("en", "de", "register")
    ]
    return list(zip(*columns, strict=True))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    prefixes = write_demo(tmp_path_factory.mktemp("new") / "demo")
    return {name: read(prefix) for name, prefix in prefixes.items()}


def test_default_sizes(corpus):
    sizes = {name: len(pairs) for name, pairs in corpus.items()}
    assert sizes == {"train": MOST_PAIRS, "dev": 1000, "test": 1000}


def test_no_sentence_occurs_twice_and_all_look_like_text(corpus):
    for side in range(2):
        lines = [pair[side] for pairs in corpus.values() for pair in pairs]
        assert len(set(lines)) == len(lines)
        assert all(re.fullmatch(r"[A-ZÄÖÜ0-9].*[.?!]", line) for line in lines)


def test_registers_are_about_half_each_and_speak_differently(corpus):
    for pairs in corpus.values():
        assert 0.45 < sum(register == "0" for *_, register in pairs) / len(pairs) < 0.55
        for english, german, register in pairs:
            if register == "0":
                assert "'" not in english and not re.search(r"\b([Dd]u|[Ii]ch)\b", german)
            if re.search(r"\bbill\b", english):
                assert ("Gesetzentw" if register == "0" else "Rechnung") in german


def test_held_out_parts_do_not_depend_on_the_size(tmp_path, corpus):
    small = {name: read(prefix) for name, prefix in write_demo(tmp_path, num_pairs=10).items()}
    assert small == {**corpus, "train": corpus["train"][:10]}
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_a_size_over_what_is_shipped_is_refused(tmp_path):
    with pytest.raises(UserError, match="demo_pairs"):
        write_demo(tmp_path, num_pairs=MOST_PAIRS + 1)
    assert not [*tmp_path.iterdir()]


def test_writing_again_touches_only_what_is_not_there_already(tmp_path):
    write_demo(tmp_path, num_pairs=30)
    names = ("train.en", "train.de", "dev.en", "dev.de")
    whole = {name: (tmp_path / name).read_bytes() for name in names}
    (tmp_path / "train.de").write_bytes(whole["train.de"][:100])
    (tmp_path / "dev.de").unlink()
    os.utime(tmp_path / "train.en", (1, 1))
    write_demo(tmp_path, num_pairs=30)
    assert {name: (tmp_path / name).read_bytes() for name in names} == whole
    assert (tmp_path / "train.en").stat().st_mtime == 1
    write_demo(tmp_path, num_pairs=31)
    longer = (tmp_path / "train.en").read_bytes()
    assert longer.startswith(whole["train.en"]) and longer.count(b"\n") == 31
