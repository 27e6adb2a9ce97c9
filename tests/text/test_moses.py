import pytest
from hypothesis import given
from hypothesis import strategies as st

from aevnmt_tf.cli.errors import UserError
from aevnmt_tf.text import moses, subwords

GERMAN = [
    "Der Hund sieht die Katze.",
    "Die Katze sieht den Hund nicht, aber der Hund bellt.",
    "Am 3. Oktober 2019 kostete das 1.234,56 Euro.",
    'Er sagte: "Das ist überraschend", und schloß die Tür.',
    "Ein 25-jähriger Bäcker aus Nordrhein-Westfalen (NRW) öffnet früh.",
    "Um 14 Uhr war z.B. die Straße noch gesperrt!",
    "Was möchten Sie, Frau Dr. Müller?",
    "Ich sehe Sie und ich sehe sie.",
    "Die Übung macht den Meister; größer & besser < 5%.",
]
ENGLISH = [
    "The dog doesn't see the cat.",
    "She said: \"It's Mr. Smith's house,\" and left.",
    "In 2019, prices rose by 3.5% to $1,234.56.",
    "A well-known, 25-year-old player isn't there (yet).",
    "Why not? Because we can't!",
]


def pipeline_of(lang, lines, num_merges=200):
    pipeline = moses.learn_truecaser(lang, map(moses_tokeniser(lang), lines))
    words = moses.count_words(pipeline.truecase(pipeline.tokenise(line)) for line in lines)
    return pipeline.with_codes(moses.learn_codes(words, num_merges=num_merges))


def moses_tokeniser(lang):
    return moses.learn_truecaser(lang, []).tokenise


@pytest.fixture(scope="module")
def german():
    return pipeline_of("de", GERMAN * 3)


@pytest.fixture(scope="module")
def english():
    return pipeline_of("en", ENGLISH * 3)


@pytest.mark.parametrize("line", GERMAN[:3] + GERMAN[4:])
def test_german_round_trip(german, line):
    assert german.inverse(german.forward(line)) == line


def test_a_word_without_end_is_segmented_in_parts(german, monkeypatch):
    longest = []
    segment = german._bpe.segment
    monkeypatch.setattr(german._bpe, "segment", lambda w: longest.append(len(w)) or segment(w))
    line = "Der " + "Hundkatze" * 100 + " sieht " + "x" * 401 + "."
    assert german.inverse(german.forward(line)) == line
    assert max(longest) == moses.LONGEST_WORD and 1 in longest


@pytest.mark.parametrize("line", ENGLISH[:1] + ENGLISH[2:])
def test_english_round_trip(english, line):
    assert english.inverse(english.forward(line)) == line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Zum Beispiel: die Katze.", "Zum Beispiel: Die Katze."),
        ("um 14:30 Uhr  5 %", "Um 14: 30 Uhr 5%"),
    ],
)
def test_what_moses_cannot_bring_back(german, line, expected):
    assert german.inverse(german.forward(line)) == expected


def test_unseen_words_round_trip(german):
    line = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich."
    forward = german.forward(line)
    assert "@@ " in forward
    assert german.inverse(forward) == line


def test_tokens_are_those_of_moses(german, english):
    assert german.tokenise("z.B. am 3. Mai (1.234,5 €).") == "z.B. am 3. Mai ( 1.234,5 € ) ."
    assert english.tokenise("It isn't Mr. X & Co.") == "It isn &apos;t Mr. X &amp; Co .".strip()


def test_truecasing_changes_what_starts_a_sentence(german):
    assert german.truecase("Der Hund bellt . Die Katze") == "der Hund bellt . die Katze"
    assert german.truecase("Ich sehe Sie und ich sehe sie").endswith("Sie und ich sehe sie")


def test_inverse_takes_joined_words_and_a_split_line_end(german):
    line = "Der Hund bellt."
    joined = german.forward(line).replace("@@ ", "")
    assert german.inverse(joined) == line
    assert german.inverse("der Hund bel@@ lt@@") == "Der Hund bellt"
    assert german.inverse("") == ""


def test_save_and_load_give_the_same_pipeline(german, english, tmp_path):
    german.save(tmp_path)
    english.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "moses.de.codes",
        "moses.de.truecaser",
        "moses.en.codes",
        "moses.en.truecaser",
    ]
    for pipeline, lines in ((german, GERMAN), (english, ENGLISH)):
        loaded = moses.load(tmp_path, pipeline.lang)
        assert loaded.codes == pipeline.codes
        for line in [*lines, "DER HUND ist GROSS", "ganz Neue Wörter"]:
            assert loaded.forward(line) == pipeline.forward(line)


def test_words_without_merges(tmp_path):
    pipeline = moses.learn_truecaser("de", ["Der Hund ist der Hund ."])
    pipeline.save(tmp_path)
    assert moses.load(tmp_path, "de").forward("Der Hund.") == "der Hund ."
    assert moses.load(tmp_path, "en") is None


@given(st.text(max_size=60))
def test_any_line_gives_one_line_of_subwords(german, line):
    forward = german.forward(line)
    # Whatever ends a line or separates words elsewhere is gone.
    assert forward.split(" ") == forward.split() or not forward
    assert "\n" not in german.inverse(forward)


WORD = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=9)


@given(st.lists(WORD, min_size=1, max_size=8))
def test_bpe_is_undone_exactly(german, words):
    line = " ".join(words)
    pieces = german.segment(line)
    assert subwords.join_bpe(pieces) == line


def test_merges_are_learnt_in_order_of_frequency_and_no_more_than_asked_for():
    words = {"abab": 5, "abc": 3, "xyz": 1}
    codes = moses.learn_codes(words, num_merges=2).splitlines()
    assert codes == ["#version: 0.2", "a b", "ab a"]
    assert len(moses.learn_codes(words, num_merges=1000).splitlines()) < 10


def test_learning_is_silent(capfd):
    moses.learn_codes({"abab": 5}, num_merges=50)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("words", [{}, {"a": 4}])
def test_no_words_is_an_error(words):
    with pytest.raises(UserError, match="train.de has no words"):
        moses.learn_codes(words, num_merges=5, name="train.de")


def test_too_little_text_is_an_error():
    with pytest.raises(UserError, match="no pair of symbols occurs twice"):
        moses.learn_codes({"ab": 1}, num_merges=5)


def test_damaged_files_are_named(german, tmp_path):
    german.save(tmp_path)
    (tmp_path / "moses.de.codes").write_text("#version: 0.2\na b\na b c\n")
    with pytest.raises(UserError, match=r"moses\.de\.codes, line 3"):
        moses.load(tmp_path, "de")
    (tmp_path / "moses.de.truecaser").write_text("Hund\n")
    with pytest.raises(UserError, match=r"moses\.de\.truecaser is not a truecaser model"):
        moses.load(tmp_path, "de")
