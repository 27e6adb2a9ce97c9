import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.data.pairs import read_pairs

LANGUAGES = dict(src="en", tgt="de")


@pytest.mark.parametrize("packed", [False, True])
def test_reads_plain_and_gzipped_files(write_pairs, packed):
    prefix = write_pairs(["a b", "ü"], ["c", "d e"], packed=packed)
    pairs = read_pairs(prefix, **LANGUAGES)
    assert list(pairs) == [("a b", "c"), ("ü", "d e")]
    assert len(pairs) == 2


def test_only_a_line_feed_ends_a_line(write_pairs):
    odd = ["a\u2028b", "c\x0bd", "e\x85f", "g\rh", "i\x1cj\x0c", "\x00k"]
    prefix = write_pairs(odd, "\r\n".join(["1", "2", "3", "4", "5", "6"]).encode())
    pairs = read_pairs(prefix, **LANGUAGES)
    assert list(pairs.src) == odd
    assert list(pairs.tgt) == ["1", "2", "3", "4", "5", "6"]


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


@pytest.mark.parametrize("max_pairs, expected", [(0, 3), (2, 2), (3, 3), (9, 3)])
def test_max_pairs_takes_the_first(write_pairs, max_pairs, expected):
    prefix = write_pairs(["a", "b", "c"], ["d", "e", "f"])
    pairs = read_pairs(prefix, max_pairs=max_pairs, **LANGUAGES)
    assert list(pairs) == [("a", "d"), ("b", "e"), ("c", "f")][:expected]


def test_a_source_of_unicode_spaces_gets_no_tag(write_pairs):
    lines = ["made", "\u00a0\u3000", ""]
    pairs = read_pairs(write_pairs(lines, ["real"] * 3), tag="<bt>", **LANGUAGES)
    assert [source for source, _ in pairs] == ["<bt> made", "\u00a0\u3000", ""]
