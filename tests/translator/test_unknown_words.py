from aevnmt_tf.translator.unknown_words import UnknownWords


def about(*counts):
    unknown = UnknownWords("tokens")
    for words, of_them in counts:
        unknown.add({"words": words, "unknown": of_them})
    return unknown


def test_few_are_counted_and_many_explained():
    assert list(about((5, 0), (0, 0)).lines()) == []
    few = "2 of 20 source words are unknown to the model"
    assert list(about((10, 1), (10, 1)).lines()) == [few]
    (many,) = about((10, 0), (10, 3)).lines()
    assert "3 of 20" in many and "takes tokens" in many


def test_parts_are_added():
    whole = UnknownWords()
    for part in (about((10, 0)), about((10, 3))):
        whole.merge(part.state())
    assert list(whole.lines()) == list(about((10, 0), (10, 3)).lines())
