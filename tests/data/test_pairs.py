import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aevnmt_tf.data import pairs as pairs_module
from aevnmt_tf.data.pairs import Lines, read_lines, read_pairs, read_synthetic
from aevnmt_tf.errors import UserError

LANGUAGES = dict(src="en", tgt="de")


@pytest.mark.parametrize("packed", [False, True])
def test_reads_plain_and_gzipped_files(write_pairs, packed):
    prefix = write_pairs(["a b", "ü"], ["c", "d e"], packed=packed)
    pairs = read_pairs(prefix, **LANGUAGES)
    assert list(pairs) == [("a b", "c"), ("ü", "d e")]
    assert len(pairs) == 2


def test_a_plain_file_beside_a_gzipped_one_is_the_one_read(tmp_path):
    (tmp_path / "f.en").write_bytes(b"plain\n")
    (tmp_path / "f.en.gz").write_bytes(gzip.compress(b"packed\n"))
    assert list(read_lines(tmp_path / "f.en")) == ["plain"]


def test_only_a_line_feed_ends_a_line(write_pairs):
    odd = ["a\u2028b", "c\x0bd", "e\x85f", "g\rh", "i\x1cj\x0c", "\x00k"]
    prefix = write_pairs(odd, "\r\n".join(["1", "2", "3", "4", "5", "6"]).encode())
    pairs = read_pairs(prefix, **LANGUAGES)
    assert list(pairs.src) == odd
    assert list(pairs.tgt) == ["1", "2", "3", "4", "5", "6"]


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))))
def test_lines_are_what_python_splits(expected):
    lines = Lines("".join(f"{line}\n" for line in expected).encode(), name="x")
    expected = [line.removesuffix("\r") for line in expected]
    if expected:
        expected[0] = expected[0].removeprefix("\ufeff")
    assert list(lines) == expected
    assert lines[:] == expected
    assert [lines[index] for index in range(len(lines))] == expected
    assert lines.encoded(slice(1, 3)) == [line.encode() for line in expected[1:3]]


def test_last_line_without_line_feed_counts():
    assert list(Lines(b"a\nb", name="x")) == ["a", "b"]
    assert list(Lines(b"a\n\n", name="x")) == ["a", ""]
    assert list(Lines(b"", name="x")) == []


def test_byte_order_mark_is_no_text():
    assert list(Lines(b"\xef\xbb\xbfa\r\nb\n", name="x")) == ["a", "b"]
    assert list(Lines(b"\xef\xbb\xbf", name="x")) == [""]


def test_missing_file_names_what_was_looked_for(write_pairs, tmp_path):
    write_pairs(["a"], ["b"])
    with pytest.raises(UserError) as error:
        read_pairs(tmp_path / "train", src="en", tgt="fr")
    assert f"{tmp_path}/train.fr " in str(error.value)
    assert f"{tmp_path}/train.fr.gz" in str(error.value)


def test_different_line_counts_name_both(write_pairs):
    prefix = write_pairs(["a", "b", "c"], ["d", "e"])
    with pytest.raises(UserError, match=r"train\.en has 3 lines but .*train\.de has 2"):
        read_pairs(prefix, **LANGUAGES)
    with pytest.raises(UserError, match="has 3 lines"):
        read_pairs(prefix, max_pairs=1, **LANGUAGES)


@pytest.mark.parametrize("block", [1, 4, 1 << 24])
@pytest.mark.parametrize("packed", [False, True])
def test_bad_utf8_names_file_and_line(write_pairs, monkeypatch, block, packed):
    monkeypatch.setattr(pairs_module, "_BLOCK", block)
    bad = "grün\nblau\n".encode() + b"gr\xfcn\nrot\n"
    prefix = write_pairs(["a", "b", "c", "d"], bad, packed=packed)
    with pytest.raises(UserError, match=r"train\.de(\.gz)?, line 3: byte 0xfc"):
        read_pairs(prefix, **LANGUAGES)


@pytest.mark.parametrize("block", [1, 4, 1 << 24])
def test_good_utf8_passes_in_blocks_of_any_size(write_pairs, monkeypatch, block):
    monkeypatch.setattr(pairs_module, "_BLOCK", block)
    text = ["äöü", "", "日本語 " * 3, "😀"]
    assert list(read_pairs(write_pairs(text, text), **LANGUAGES).src) == text


def test_damaged_gzip_is_an_error_that_names_the_file(tmp_path):
    (tmp_path / "f.en.gz").write_bytes(gzip.compress(b"text\n" * 1000)[:30])
    with pytest.raises(UserError, match=r"Cannot read .*f\.en\.gz"):
        read_lines(tmp_path / "f.en")
    (tmp_path / "f.en.gz").write_bytes(b"no gzip")
    with pytest.raises(UserError, match=r"Cannot read .*f\.en\.gz"):
        read_lines(tmp_path / "f.en")


@pytest.mark.parametrize("max_pairs, expected", [(0, 3), (2, 2), (3, 3), (9, 3)])
def test_max_pairs_takes_the_first(write_pairs, max_pairs, expected):
    prefix = write_pairs(["a", "b", "c"], ["d", "e", "f"])
    pairs = read_pairs(prefix, max_pairs=max_pairs, **LANGUAGES)
    assert list(pairs) == [("a", "d"), ("b", "e"), ("c", "f")][:expected]


def test_synthetic_files_have_tf_nmt_names(write_pairs):
    prefix = write_pairs(["made"], ["real"], src_name="translation.en")
    assert list(read_synthetic(prefix, **LANGUAGES)) == [("made", "real")]
    with pytest.raises(UserError, match=r"train\.en"):
        read_pairs(prefix, **LANGUAGES)


def test_a_source_of_unicode_spaces_gets_no_tag(write_pairs, tmp_path):
    lines = ["made", "\u00a0\u3000", ""]
    write_pairs(lines, ["real"] * 3, name="mono", src_name=f"translation.{LANGUAGES['src']}")
    pairs = read_synthetic(tmp_path / "mono", tag="<bt>", **LANGUAGES)
    assert [source for source, _ in pairs] == ["<bt> made", "\u00a0\u3000", ""]
