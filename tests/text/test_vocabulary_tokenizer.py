import keras
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from aevnmt_tf import text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.text.vocabulary_tokenizer import VocabularyTokenizer, read_vocabulary

SPECIAL = ["<unk>", "<s>", "</s>"]
WORDS = [*SPECIAL, "der", "Hund", "bel@@", "lt", "@@", "ä@@", "öß", "a\u00a0b", "."]


@pytest.fixture(scope="module")
def tokenizer():
    return VocabularyTokenizer(WORDS, "bpe")


def decode(tokenizer, rows):
    found = tokenizer.decode(tf.ragged.constant(rows, tf.int32, ragged_rank=1))
    return [row.decode() for row in found.numpy()]


def write(path, words, end="\n"):
    path.write_bytes(end.join([*words, ""]).encode())
    return path


def test_encode_looks_words_up(tokenizer):
    rows = tf.constant(["der Hund bel@@ lt .", "", "  der\t Katze ", "a\u00a0b"])
    ids = tokenizer.encode(rows)
    assert ids.dtype == tf.int32
    assert ids.to_list() == [[3, 4, 5, 6, 11], [], [3, 0], [10]]


def test_text_cannot_spell_the_end_of_a_sentence(tokenizer):
    assert tokenizer.encode(["<s> der </s> <unk>"]).to_list() == [[0, 3, 0, 0]]


def test_decode_undoes_bpe(tokenizer):
    rows = [[1, 3, 4, 5, 6, 2, 2], [8, 9, 11], [5, 8, 6], [4, 8], [5], [], [2, 3], [0, 3]]
    expected = ["der Hund bellt", "äöß .", "belält", "Hund ä", "bel", "", "", "<unk> der"]
    assert decode(tokenizer, rows) == expected


def test_a_lone_separator_is_a_word(tokenizer):
    assert decode(tokenizer, [[3, 7, 4], [7], [5, 7, 4]]) == ["der @@ Hund", "@@", "bel@@ Hund"]


def test_without_subwords_nothing_is_joined():
    assert decode(VocabularyTokenizer(WORDS), [[3, 5, 6]]) == ["der bel@@ lt"]


def test_decode_takes_dense_ids_of_any_rank(tokenizer):
    ids = tf.constant([[[3, 4, 2], [3, 2, 2]], [[2, 2, 2], [5, 6, 2]]])
    found = tokenizer.decode(ids).numpy().tolist()
    assert found == [[b"der Hund", b"der"], [b"", b"bellt"]]


def test_ids_that_do_not_exist_are_unknown(tokenizer):
    assert decode(tokenizer, [[3, -1, 99]]) == ["der <unk> <unk>"]
    assert tokenizer.pieces(tf.constant([[2, 3], [99, 5]])).numpy().tolist() == [
        [b"</s>", b"der"],
        [b"<unk>", b"bel@@"],
    ]


WORD = st.text(st.characters(codec="utf-8", exclude_characters=" \t\n\v\f\r@"), min_size=1)


@given(st.lists(WORD.filter(lambda word: word not in SPECIAL), max_size=12))
def test_known_words_round_trip(words):
    tokenizer = VocabularyTokenizer([*SPECIAL, *dict.fromkeys(words)])
    line = " ".join(words)
    assert decode(tokenizer, tokenizer.encode([line]).to_list()) == [line]


@given(
    st.lists(st.lists(WORD.filter(lambda word: word not in SPECIAL), min_size=1), max_size=6)
)
def test_split_words_round_trip(words):
    pieces = [[f"{piece}@@" for piece in word[:-1]] + [word[-1]] for word in words]
    flat = [piece for word in pieces for piece in word]
    tokenizer = VocabularyTokenizer([*SPECIAL, *dict.fromkeys(flat)], "bpe")
    ids = tokenizer.encode([" ".join(flat)])
    assert ids.to_list() == [[tokenizer.words.index(piece) for piece in flat]]
    assert decode(tokenizer, ids.to_list()) == [" ".join("".join(word) for word in words)]


def test_works_in_tf_data_after_seeding_and_clearing(tokenizer):
    tf.random.set_seed(1)
    keras.utils.clear_session()
    dataset = tf.data.Dataset.from_tensor_slices(["der Hund", "Hund"]).batch(2)
    dataset = dataset.map(tokenizer.encode, num_parallel_calls=2)
    assert [batch.to_list() for batch in dataset] == [[[3, 4], [4]]]


def test_pieces_of_sentencepiece_are_joined(tmp_path):
    write(tmp_path / "v.en", ["▁the", "▁do", "g", "s"])  # without special words
    tokenizer = text.load_prefix(tmp_path / "v", "en", subword_option="spm")
    assert tokenizer.words[:4] == ("<unk>", "<s>", "</s>", "▁the")
    ids = tokenizer.encode(["▁the ▁do g s"]).to_list()
    assert ids == [[3, 4, 5, 6]] and decode(tokenizer, ids) == ["the dogs"]
    assert not tokenizer.takes_raw_text


def test_a_vocabulary_of_words_has_no_pieces(tmp_path):
    write(tmp_path / "vocab.en", ["<unk>", "<s>", "</s>", "low", "new@@"])
    with pytest.raises(UserError, match="vocab.en has no SentencePiece pieces.*subword_option"):
        VocabularyTokenizer.from_file(tmp_path / "vocab.en", subword_option="spm")


def test_special_words_are_put_first_where_there_are_none(tmp_path):
    path = write(tmp_path / "v.en", ["a", "b"])
    assert read_vocabulary(path) == ["<unk>", "<s>", "</s>", "a", "b"]
    write(path, ["a", "</s>"])
    with pytest.raises(UserError, match="line 1: found a instead of <unk>"):
        read_vocabulary(path)
    write(path, ["a", "b", "a"])
    with pytest.raises(UserError, match="line 3: a is also on line 1"):
        read_vocabulary(path)


@pytest.mark.parametrize("option", ["", "bpe", "spm"])
def test_save_and_load_keep_the_option(option, tmp_path):
    *_, path = VocabularyTokenizer(WORDS, option).save(tmp_path / "text", "de")
    assert path.name == "vocab.de"
    loaded = text.load(tmp_path / "text", "de")
    assert (loaded.words, loaded.subword_option) == (tuple(WORDS), option)


def test_a_plain_file_is_read_with_the_option_given(tmp_path):
    write(tmp_path / "voc.en", [*SPECIAL, "a@@", "b"], end="\r\n")
    tokenizer = text.load_prefix(tmp_path / "voc", "en", subword_option="bpe")
    assert decode(tokenizer, [[3, 4]]) == ["ab"]
    assert text.load_prefix(tmp_path / "voc", "en").subword_option == ""


def test_only_special_words(tmp_path):
    tokenizer = text.load_prefix(write(tmp_path / "v.en", SPECIAL).with_suffix(""), "en")
    assert tokenizer.vocab_size == 3
    assert tokenizer.encode(["a b"]).to_list() == [[0, 0]]


def test_other_names_of_the_specials(tmp_path):
    path = write(tmp_path / "v.en", ["<unk>", "BOS", "EOS", "a"])
    assert read_vocabulary(path, sos="BOS", eos="EOS")[3] == "a"
    with pytest.raises(UserError, match="line 2: found BOS instead of <s>"):
        read_vocabulary(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"v\.en, line 1: found the end of the file instead of <unk>"),
        (b"<unk>\n</s>\n<s>\n", r"v\.en, line 2: found </s> instead of <s>"),
        (b"<unk>\n<s>\n</s>\na\nb\na\n", r"v\.en, line 6: a is also on line 4"),
        (b"<unk>\n<s>\n</s>\na\n\nb\n", r"v\.en, line 5: .*one word"),
        (b"<unk>\n<s>\n</s>\na b\n", r"v\.en, line 4: .*one word"),
        (b"<unk>\n<s>\n</s>\na\n\xff\n", r"v\.en, line 5: byte 0xff"),
    ],
)
def test_a_bad_file_is_named_with_its_line(content, message, tmp_path):
    (tmp_path / "v.en").write_bytes(content)
    with pytest.raises(UserError, match=message):
        text.load_prefix(tmp_path / "v", "en")


def test_a_missing_file_and_a_bad_option(tmp_path):
    with pytest.raises(UserError, match=r"v\.en"):
        read_vocabulary(tmp_path / "v.en")
    with pytest.raises(UserError, match='subword_option "unigram"'):
        VocabularyTokenizer(WORDS, "unigram")
    write(tmp_path / "v.en", SPECIAL)
    (tmp_path / "v.en.json").write_text("[]")
    with pytest.raises(UserError, match=r"v\.en\.json"):
        text.load_prefix(tmp_path / "v", "en")


def test_tokens_are_asked_for():
    assert not VocabularyTokenizer(["<unk>", "<s>", "</s>", "a", "b@@"], "bpe").takes_raw_text
