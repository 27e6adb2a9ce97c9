"""Sets of sentences: from files, prefixes and what a run knows of itself."""

import gzip
import json
import types

import pytest

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.evaluation import evaluation_sets


def settings(**changes):
    names = {
        "src": "en",
        "text_pipeline": "sentencepiece",
        "subword_option": "spm",
        "tgt": "de",
        "train_prefix": "t",
        "dev_prefix": None,
        "test_prefix": None,
    }
    return types.SimpleNamespace(**{**names, **changes})


@pytest.fixture
def corpus(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test.en").write_text(f"{folder} one\n{folder} two\n")
        (tmp_path / folder / "test.de.gz").write_bytes(gzip.compress(b"eins\nzwei\n"))
    return tmp_path


def test_lines_end_at_line_feeds_alone(tmp_path):
    path = tmp_path / "x"
    path.write_bytes("\ufeffa\u2028b\r\n\x85\n\nc".encode())
    assert evaluation_sets.read_lines(path) == ["a\u2028b", "\x85", "", "c"]


def test_a_prefix_finds_packed_files(corpus):
    one = evaluation_sets.from_prefix(corpus / "a" / "test", src="en", tgt="de")
    assert (one.name, len(one)) == ("test", 2)
    assert one.sources == ["a one", "a two"] and one.references == ["eins", "zwei"]
    assert one.reference_file.endswith("test.de.gz")
    alone = evaluation_sets.from_prefix(corpus / "a" / "test", src=None, tgt="de", name="x")
    assert alone.sources is None and alone.source_file is None and alone.name == "x"


def test_a_run_has_sets_of_its_own(corpus):
    one = str(corpus / "a" / "test")
    for changes in ({"test_prefix": one, "dev_prefix": "none"}, {"dev_prefix": one}):
        (found,) = evaluation_sets.of_run(settings(**changes), run=corpus)
        assert found.sources[0] == "a one"
    # A run without train_prefix was trained on the demo corpus, which is in its directory.
    (corpus / "a").rename(corpus / "demo")
    (found,) = evaluation_sets.of_run(settings(train_prefix=None), run=corpus)
    assert found.sources[0] == "a one" and found.name == "test"
    (corpus / "demo").rename(corpus / "a")
    both = [one, str(corpus / "b" / "test")]
    found = evaluation_sets.of_run(settings(test_prefix=both), run=corpus)
    assert [(s.name, s.sources[0]) for s in found] == [("a_test", "a one"), ("b_test", "b one")]
    found = evaluation_sets.of_run(settings(test_prefix=[one, one]), run=corpus)
    assert [s.name for s in found] == ["0_test", "1_test"]
    with pytest.raises(UserError, match="neither test_prefix nor dev_prefix"):
        evaluation_sets.of_run(settings(), run=corpus)


def test_after_the_moses_pipeline_the_raw_text_is_scored(corpus):
    manifest = {"settings": {"text_pipeline": "moses"}, "corpora": {"test": {}}, "models": {}}
    (corpus / "a" / "manifest.json").write_text(json.dumps(manifest))
    (corpus / "a" / "raw").mkdir()
    for lang in ("en", "de"):
        (corpus / "a" / "raw" / f"test.{lang}").write_text("Raw.\n")
    hp = settings(test_prefix=str(corpus / "a" / "test"), text_pipeline="moses")
    (found,) = evaluation_sets.of_run(hp, run=corpus)
    assert found.sources == found.references == ["Raw."]
    # Also where somebody names the prepared text; a run that reads that gets it as it is.
    (found,) = evaluation_sets.for_run(hp, [("x", hp.test_prefix)])
    assert found.sources == ["Raw."] and found.name == "x"
    hp = settings(test_prefix=hp.test_prefix, subword_option="bpe")
    (found,) = evaluation_sets.of_run(hp, run=corpus)
    assert found.sources == ["a one", "a two"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "all", "\0"])
def test_names_that_cannot_be_files(name):
    with pytest.raises(UserError, match="is not a valid name"):
        evaluation_sets.checked_name(name)
