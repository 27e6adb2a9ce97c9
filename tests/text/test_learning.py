import pytest

from aevnmt_tf import text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.text.learning import learn_tokenizers, split_words


def test_words_by_frequency_and_then_by_the_alphabet():
    texts = {"en": ["b a\ta", "c b  a </s>"], "de": ["x"]}
    found = learn_tokenizers(texts, subword_option="", vocab_size=5)
    assert found["en"].words == ("<unk>", "<s>", "</s>", "a", "b")
    assert found["de"].words == ("<unk>", "<s>", "</s>", "x")


def test_all_subwords_are_kept():
    texts = {"en": ["b@@ a a", "c b@@"], "de": ["x"]}
    found = learn_tokenizers(texts, subword_option="bpe", vocab_size=4)
    assert found["en"].words[3:] == ("a", "b@@", "c")
    assert found["en"].subword_option == "bpe"


def test_a_shared_vocabulary_is_one_object():
    texts = {"en": ["a"], "de": ["b b"]}
    found = learn_tokenizers(texts, subword_option="", vocab_size=9, share_vocab=True)
    assert found["en"] is found["de"]
    assert found["en"].words[3:] == ("b", "a")


def test_a_vocabulary_that_cannot_be_filled_is_reported(lines):
    said = []
    found = learn_tokenizers(
        {"de": lines[:20]}, subword_option="spm", vocab_size=5000, report=said.append
    )
    assert len(said) == 1
    assert f"{found['de'].vocab_size:,} pieces, fewer than vocab_size 5,000" in said[0]


@pytest.mark.parametrize("option", ["", "bpe", "spm"])
def test_no_text_is_an_error(option):
    with pytest.raises(UserError, match=r"the training text \(de\) has no"):
        learn_tokenizers({"de": ["", " "]}, subword_option=option, vocab_size=300)


def test_words_are_split_as_in_the_graph():
    line = " a\tb\u00a0c\x85  d\r"
    assert split_words(line) == ["a", "b\u00a0c\x85", "d"]
    tokenizer = text.VocabularyTokenizer(["<unk>", "<s>", "</s>", *split_words(line)])
    assert tokenizer.encode([line]).to_list() == [[3, 4, 5]]
