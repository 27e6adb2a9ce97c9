import gzip
import os
import sys
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.storage import text_files


def test_a_plain_file_beside_a_gzipped_one_is_the_one_read(tmp_path):
    (tmp_path / "f.en").write_bytes(b"plain\n")
    (tmp_path / "f.en.gz").write_bytes(gzip.compress(b"packed\n"))
    assert list(text_files.read_lines(tmp_path / "f.en")) == ["plain"]


def lines_of(content):
    """The lines of a file, which every way to read it agrees on."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        lines = text_files.read_lines(file.name)
        assert list(text_files.FileLines.of(file.name)) == lines
        assert text_files.count_lines(file.name) == len(lines)
    return lines


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))))
def test_lines_are_what_python_splits(expected):
    lines = lines_of("".join(f"{line}\n" for line in expected).encode())
    expected = [line.removesuffix("\r") for line in expected]
    if expected:
        expected[0] = expected[0].removeprefix("\ufeff")
    assert lines == expected


def test_last_line_without_line_feed_counts():
    assert lines_of(b"a\nb") == ["a", "b"]
    assert lines_of(b"a\n\n") == ["a", ""]
    assert lines_of(b"") == []


def test_byte_order_mark_is_no_text():
    assert lines_of(b"\xef\xbb\xbfa\r\nb\n") == ["a", "b"]
    assert lines_of(b"\xef\xbb\xbf") == [""]


@pytest.mark.parametrize("block", [1, 4, 1 << 24])
@pytest.mark.parametrize("packed", [False, True])
def test_bad_utf8_names_file_and_line(tmp_path, monkeypatch, block, packed):
    monkeypatch.setattr(text_files, "_BLOCK", block)
    bad = "grün\nblau\n".encode() + b"gr\xfcn\nrot\n"
    if packed:
        (tmp_path / "f.de.gz").write_bytes(gzip.compress(bad))
    else:
        (tmp_path / "f.de").write_bytes(bad)
    with pytest.raises(UserError, match=r"f\.de(\.gz)?, line 3: byte 0xfc"):
        text_files.read_lines(tmp_path / "f.de")
    with pytest.raises(UserError, match=r"f\.de(\.gz)?, line 3: byte 0xfc"):
        text_files.FileLines.of(tmp_path / "f.de")
    file = text_files.find_file(tmp_path / "f.de")
    with pytest.raises(UserError, match="--errors"):
        text_files.read_lines(file, errors="strict")
    lines = text_files.read_lines(file, errors="replace")
    assert list(lines) == ["grün", "blau", "gr\ufffdn", "rot"]


@pytest.mark.parametrize("block", [1, 4, 1 << 24])
def test_good_utf8_passes_in_blocks_of_any_size(tmp_path, monkeypatch, block):
    monkeypatch.setattr(text_files, "_BLOCK", block)
    text = ["äöü", "", "日本語 " * 3, "😀"]
    (tmp_path / "f").write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    assert text_files.read_lines(tmp_path / "f") == text
    assert list(text_files.FileLines.of(tmp_path / "f")) == text


def test_damaged_gzip_is_an_error_that_names_the_file(tmp_path):
    (tmp_path / "f.en.gz").write_bytes(gzip.compress(b"text\n" * 1000)[:30])
    with pytest.raises(UserError, match=r"cannot read .*f\.en\.gz"):
        text_files.read_lines(tmp_path / "f.en")
    (tmp_path / "f.en.gz").write_bytes(b"no gzip")
    with pytest.raises(UserError, match=r"cannot read .*f\.en\.gz"):
        text_files.read_lines(tmp_path / "f.en")


def test_a_pipe_is_read_and_a_folder_is_not(tmp_path):
    read, write = os.pipe()
    os.write(write, b"a\nb\n")
    os.close(write)
    assert list(text_files.read_lines(f"/dev/fd/{read}")) == ["a", "b"]
    os.close(read)
    with pytest.raises(UserError, match=str(tmp_path)):
        text_files.find_file(tmp_path)


def test_stdin_is_read(monkeypatch, tmp_path):
    (tmp_path / "f").write_bytes(b"a\n")
    with open(tmp_path / "f", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        lines = text_files.read_lines("-")
    assert (list(lines), lines.name) == (["a"], "stdin")
