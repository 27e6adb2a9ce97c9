from aevnmt_tf.translator import TranslatedLine
from aevnmt_tf.translator.unknown_words import UnknownWords


def sentence_about(*counts):
    unknown = UnknownWords()
    for words, of_them in counts:
        unknown.add(TranslatedLine([], num_words=words, num_unknown=of_them))
    return unknown.sentence("tokens")


def test_few_are_counted_and_many_explained():
    assert sentence_about((5, 0), (0, 0)) == ""
    assert sentence_about((10, 1), (10, 1)) == "2 of 20 source words are unknown to the model"
    assert "3 of 20" in sentence_about((10, 0), (10, 3))
    assert "takes tokens" in sentence_about((10, 0), (10, 3))
