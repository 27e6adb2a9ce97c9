import hashlib
import io
import random
import subprocess
import sys
import unicodedata

import keras
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from aevnmt_tf import text
from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.text import sentencepiece_tokenizer
from aevnmt_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer

ADVERSARIAL = [
    "",
    " ",
    "\t",
    "\r\n",
    "  two  spaces\tand a tab ",
    "line\nbreak",
    "NUL \x00 inside",
    "\x00",
    "\x01\x02\x1f\x7f\x85",
    "caf\u00e9",
    "cafe\u0301",
    "\u0301 starts with a mark",
    "😀👩‍👩‍👧‍👦🏳️‍🌈",
    "مرحبا بالعالم ١٢٣",
    "שָׁלוֹם \u202eright to left\u202c",
    "日本語のテキスト、中国話",
    "한국어 \u1112\u1161\u11ab",
    "ﬁ ① ½ … ａｂ Å",
    "\u200b\u00ad\ufeff\u2060\u2028\u3000\u00a0",
    "\ufffd\U0010ffff\ue000",
    "<unk> <s> </s> <0x41> ⁇",
    "▁ literal ▁▁ meta symbol▁",
    "@@ b@@ pe",
    "o" * 997,
    "Zo" + "o" * 50 + "a" * 50,
    "x" * 20000,
    "der Hund " * 5000,
]


def adversarial_lines(real, count):
    """Real-looking lines, some of them damaged, and noise of many alphabets."""
    rng = random.Random(3)
    alphabets = ["ab", "o", "aeiorn ", "äöüßÄÖÜ eHund", "0123456789.,:- "]
    for low, high in [(1, 0x250), (0x370, 0x600), (0x900, 0xE00), (0x3040, 0x9000)]:
        alphabets.append("".join(chr(rng.randrange(low, high)) for _ in range(60)))
    alphabets.append("".join(chr(rng.randrange(0x1F300, 0x1FA00)) for _ in range(60)))
    rows = list(ADVERSARIAL)
    while len(rows) < count:
        kind = rng.randrange(6)
        line = rng.choice(real)
        if kind == 0:
            line = unicodedata.normalize("NFD", line)
        elif kind == 1:
            position = rng.randrange(len(line))
            line = (
                line[:position]
                + chr(rng.choice([0x1F600, 9, 0, 0x300, 0x5D0]))
                + line[position:]
            )
        elif kind == 2:
            size = rng.choice([1, 10, 100, 300])
            line = "".join(rng.choice(rng.choice(alphabets)) for _ in range(size))
        elif kind == 3:
            alphabet = rng.choice(alphabets)
            line = "".join(rng.choice(alphabet) for _ in range(rng.choice([3, 30, 300])))
        rows.append(line)
    return rows


@pytest.fixture(scope="module")
def tokenizer(model_proto):
    return SentencePieceTokenizer(model_proto)


@pytest.fixture(scope="module")
def processor(model_proto):
    return sentencepiece.SentencePieceProcessor(model_proto=model_proto)


def normalised(processor, line):
    """What the model's normaliser makes of a line: the text that decode must return."""
    return processor.normalize(line).replace("▁", " ").removeprefix(" ")


def encode(tokenizer, lines):
    return tokenizer.encode(tf.constant(lines, tf.string)).to_list()


def test_ids_equal_the_sentencepiece_package(tokenizer, processor, lines):
    rows = adversarial_lines(lines, 10_000)
    ours, theirs = encode(tokenizer, rows), processor.encode(rows)
    different = [row for row, a, b in zip(rows, ours, theirs, strict=True) if a != b]
    assert not different


@pytest.fixture(scope="module")
def double_letters():
    """Text whose model has pieces such as oo and o, so that ooo can be split in two ways."""
    rng = random.Random(5)
    syllables = "oo o aa a oon aar oo aa no ra ro na o a".split()
    return [
        " ".join("".join(rng.choices(syllables, k=rng.randint(1, 5))) for _ in range(8))
        for _ in range(2000)
    ]


@pytest.mark.parametrize("rounded", [True, False])
def test_ties_are_broken_alike_because_scores_are_rounded(double_letters, rounded, monkeypatch):
    if not rounded:
        monkeypatch.setattr(sentencepiece_tokenizer, "_round_scores", lambda model: model)
    model = sentencepiece_tokenizer.train(double_letters, vocab_size=400)
    rng = random.Random(6)
    rows = ["".join(rng.choices("oanr", k=60)) + "o" * 9 for _ in range(3000)]
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model).encode(rows)
    assert (encode(SentencePieceTokenizer(model), rows) == theirs) == rounded


def test_decode_returns_the_normalised_text(tokenizer, processor, lines):
    rows = [row for row in adversarial_lines(lines, 4000) if "▁" not in row]
    decoded = tokenizer.decode(tokenizer.encode(tf.constant(rows))).numpy()
    for row, found in zip(rows, decoded, strict=True):
        assert found.decode() == normalised(processor, row)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=8))
def test_any_text(tokenizer, processor, rows):
    ids = tokenizer.encode(tf.constant(rows, tf.string))
    assert ids.to_list() == processor.encode(rows)
    assert not {text.UNK, text.SOS, text.EOS} & set(ids.flat_values.numpy().tolist())
    for row, found in zip(rows, tokenizer.decode(ids).numpy(), strict=True):
        assert "▁" in row or found.decode() == normalised(processor, row)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=20), min_size=1, max_size=4))
def test_bytes_that_are_not_utf8_become_valid_text(tokenizer, processor, rows):
    ids = tokenizer.encode(tf.constant(rows, tf.string))
    assert ids.to_list() == [processor.encode(row) for row in rows]
    for found in tokenizer.decode(ids).numpy():
        found.decode("utf-8")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-5, 510), max_size=12))
def test_any_ids_decode_to_valid_text(tokenizer, ids):
    (found,) = tokenizer.decode(tf.constant([ids], tf.int32)).numpy()
    found.decode("utf-8")
    assert tokenizer.pieces(tf.constant(ids, tf.int32)).shape == (len(ids),)


def test_decode_stops_at_the_first_end_and_leaves_out_the_start(tokenizer):
    (ids,) = encode(tokenizer, ["Der Hund liest."])
    (other,) = encode(tokenizer, ["Die Katze"])
    rows = [[1, *ids, 2, 2], [*ids, 2, *other], [1, 2], [], [2, *ids]]
    decoded = tokenizer.decode(tf.ragged.constant(rows, tf.int32))
    assert decoded.numpy().tolist() == [b"Der Hund liest."] * 2 + [b""] * 3


def test_decode_takes_dense_ids_of_any_rank(tokenizer):
    ids = tokenizer.encode(tf.constant(["Der Hund", "Die Katze", "Das", ""]))
    dense = text.append_eos(ids).to_tensor(default_value=text.EOS)
    decoded = tokenizer.decode(tf.reshape(dense, [2, 2, -1]))
    assert decoded.numpy().tolist() == [[b"Der Hund", b"Die Katze"], [b"Das", b""]]
    assert tokenizer.decode(tf.zeros([2, 0], tf.int32)).numpy().tolist() == [b"", b""]


def test_pieces_keep_the_shape(tokenizer, processor):
    ids = tf.constant([[0, 1, 2], [300, 301, 302]])
    found = tokenizer.pieces(ids).numpy().tolist()
    assert found[0] == [b"<unk>", b"<s>", b"</s>"]
    assert found[1] == [processor.id_to_piece(i).encode() for i in (300, 301, 302)]


def test_append_eos():
    ids = text.append_eos(tf.ragged.constant([[5, 6], [], [7]], tf.int32))
    assert ids.to_list() == [[5, 6, 2], [2], [7, 2]]
    assert ids.dtype == tf.int32


def test_works_in_tf_data(tokenizer, lines):
    dataset = tf.data.Dataset.from_tensor_slices(lines[:64]).batch(16)
    dataset = dataset.map(tokenizer.encode, num_parallel_calls=2)
    found = [row for batch in dataset for row in batch.to_list()]
    assert found == encode(tokenizer, lines[:64])


def test_seeding_and_clearing_leave_the_model_alone(model_proto):
    # Both empty TensorFlow's cache of kernels, which owns tensorflow-text's own resource.
    tokenizer = SentencePieceTokenizer(model_proto)
    twin = SentencePieceTokenizer(model_proto)
    tf.random.set_seed(1)
    keras.utils.clear_session()
    (expected,) = encode(twin, ["Der Hund"])
    del twin
    assert encode(tokenizer, ["Der Hund"]) == [expected]


def test_save_and_load(tokenizer, tmp_path, lines):
    *_, path = tokenizer.save(tmp_path / "text", "de")
    assert path.name == "vocab.de.model"
    loaded = text.load(tmp_path / "text", "de")
    assert loaded.vocab_size == tokenizer.vocab_size
    assert encode(loaded, lines[:50]) == encode(tokenizer, lines[:50])


def test_one_shared_file_serves_both_languages(tokenizer, tmp_path):
    tokenizer.save(tmp_path, "shared")
    for lang in ("de", "en"):
        assert text.load(tmp_path, lang).model_proto == tokenizer.model_proto


@pytest.mark.slow
def test_training_is_deterministic_across_processes(lines, model_proto, tmp_path):
    (tmp_path / "text.de").write_text("\n".join(lines), encoding="utf-8")
    program = (
        "import sys, hashlib; from aevnmt_tf.text import sentencepiece_tokenizer as t;"
        "lines = open(sys.argv[1], encoding='utf-8').read().split('\\n');"
        "print(hashlib.sha256(t.train(lines, vocab_size=500)).hexdigest())"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "text.de")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[
        -1
    ]
    assert found == hashlib.sha256(model_proto).hexdigest()


def test_too_large_a_vocabulary_gives_a_smaller_model():
    tokenizer = SentencePieceTokenizer(
        sentencepiece_tokenizer.train(["ein kleiner Text", "noch ein Text"], vocab_size=8000)
    )
    assert 259 < tokenizer.vocab_size < 8000
    (found,) = tokenizer.decode(tokenizer.encode(["ein Text"])).numpy()
    assert found == b"ein Text"


def test_too_small_a_vocabulary_names_the_least(lines):
    with pytest.raises(UserError, match=r"vocab_size 200 .* of at least (\d+)") as error:
        sentencepiece_tokenizer.train(lines, vocab_size=200, name="train.de")
    least = int(str(error.value).split()[-1].rstrip("."))
    assert "train.de" in str(error.value)
    model = sentencepiece_tokenizer.train(lines, vocab_size=least)
    assert SentencePieceTokenizer(model).vocab_size == least


@pytest.mark.parametrize("rows", [[], ["", "  "]])
def test_no_text_is_an_error(rows):
    with pytest.raises(UserError, match="train.de has no lines"):
        sentencepiece_tokenizer.train(rows, vocab_size=300, name="train.de")


def test_training_survives_control_characters(lines):
    odd = ["NUL \x00 here", "\x01\x02", "▁ meta", "▅ reserved", "tab\there", "\u2028"]
    model = sentencepiece_tokenizer.train(odd + lines[:500], vocab_size=400)
    assert SentencePieceTokenizer(model).vocab_size <= 400


def test_a_file_that_is_no_model_is_named(tmp_path):
    (tmp_path / "vocab.de.model").write_text("no model")
    with pytest.raises(UserError, match=r"vocab\.de\.model: This is not a SentencePiece model"):
        text.load(tmp_path, "de")


def test_a_model_with_other_special_ids_is_refused(lines, tmp_path):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=200,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
    )
    (tmp_path / "vocab.de.model").write_bytes(model.getvalue())
    with pytest.raises(UserError, match=r"are \(1, 2, 3\) and must be \(0, 1, 2\)"):
        text.load(tmp_path, "de")


def test_a_missing_tokenizer_is_named(tmp_path):
    with pytest.raises(UserError, match=r"vocab\.de\.model nor .*vocab\.de"):
        text.load(tmp_path, "de")
