"""The demo grammar's words: declension, conjugation and numbers against tables by hand."""

import pytest
from demo_corpus import english, german, inflection, nouns, numerals, verbs, words
from demo_corpus.meaning import (
    IT,
    ME,
    THEY,
    WE,
    YOU,
    YOU_ALL,
    YOU_FORMAL,
    Common,
    Pronoun,
)

SHE = Pronoun(IT, "f")


def decline(noun, det, adjective, *, plural=False):
    item = Common(nouns.find(noun), det, plural, words.BY_ENGLISH[adjective])
    return [german.phrase(item, case) for case in ("nom", "acc", "dat", "gen")]


@pytest.mark.parametrize(
    "noun, det, adjective, plural, expected",
    [
        (
            "Plan",
            "the",
            "new",
            False,
            "der neue Plan|den neuen Plan|dem neuen Plan|des neuen Plans",
        ),
        (
            "Plan",
            "a",
            "new",
            False,
            "ein neuer Plan|einen neuen Plan|einem neuen Plan|eines neuen Plans",
        ),
        (
            "Plan",
            "the",
            "new",
            True,
            "die neuen Pläne|die neuen Pläne|den neuen Plänen|der neuen Pläne",
        ),
        ("Plan", "a", "new", True, "neue Pläne|neue Pläne|neuen Plänen|neuer Pläne"),
        (
            "Reform",
            "the",
            "strict",
            False,
            "die strenge Reform|die strenge Reform|der strengen Reform|der strengen Reform",
        ),
        (
            "Reform",
            "no",
            "strict",
            True,
            "keine strengen Reformen|keine strengen Reformen|"
            "keinen strengen Reformen|keiner strengen Reformen",
        ),
        (
            "Gesetz",
            "this",
            "strict",
            False,
            "dieses strenge Gesetz|dieses strenge Gesetz|"
            "diesem strengen Gesetz|dieses strengen Gesetzes",
        ),
        (
            "Auto",
            "my",
            "expensive",
            False,
            "mein teures Auto|mein teures Auto|meinem teuren Auto|meines teuren Autos",
        ),
        (
            "Wasser",
            "",
            "cold",
            False,
            "kaltes Wasser|kaltes Wasser|kaltem Wasser|kalten Wassers",
        ),
        ("Milch", "", "cold", False, "kalte Milch|kalte Milch|kalter Milch|kalter Milch"),
        ("Tee", "", "warm", False, "warmer Tee|warmen Tee|warmem Tee|warmen Tees"),
        (
            "Auto",
            "Anna's",
            "new",
            False,
            "Annas neues Auto|Annas neues Auto|Annas neuem Auto|Annas neuen Autos",
        ),
        (
            "Präsident",
            "the",
            "former",
            False,
            "der ehemalige Präsident|den ehemaligen Präsidenten|"
            "dem ehemaligen Präsidenten|des ehemaligen Präsidenten",
        ),
        (
            "Ausschuss",
            "the",
            "new",
            False,
            "der neue Ausschuss|den neuen Ausschuss|dem neuen Ausschuss|des neuen Ausschusses",
        ),
        (
            "Kind",
            "your_formal",
            "small",
            True,
            "Ihre kleinen Kinder|Ihre kleinen Kinder|"
            "Ihren kleinen Kindern|Ihrer kleinen Kinder",
        ),
    ],
)
def test_declension(noun, det, adjective, plural, expected):
    assert decline(noun, det, adjective, plural=plural) == expected.split("|")


def test_weak_nouns():
    forms = {"Nachbar": "Nachbarn", "Kollege": "Kollegen", "Student": "Studenten"}
    for noun, oblique in forms.items():
        for case in ("acc", "dat", "gen"):
            assert inflection.noun(nouns.find(noun), case) == oblique
        assert inflection.noun(nouns.find(noun), "nom") == noun


def test_every_noun_of_both_tables_declines():
    for table in (nouns.NEWS, nouns.TALK):
        for noun in {n.de: n for group in table.values() for n in group}.values():
            assert not noun.tags == () and noun.gender in "mfn"
            dative = inflection.noun(noun, "dat", plural=True)
            assert noun.de_plural == "-" or dative.endswith(("n", "s"))


def test_pronouns_take_the_gender_of_the_german_noun():
    for gender, forms in {"m": "er ihn ihm", "f": "sie sie ihr", "n": "es es ihm"}.items():
        said = [german.phrase(Pronoun(IT, gender, True), c) for c in ("nom", "acc", "dat")]
        assert said == forms.split()
        assert english.phrase(Pronoun(IT, gender, True)) == "it"
    assert german.phrase(Pronoun(YOU_FORMAL), "dat") == "Ihnen"
    assert english.phrase(SHE) == "her" and english.phrase(SHE, subject=True) == "she"


@pytest.mark.parametrize(
    "infinitive, present, past, participle",
    [
        ("kaufen", "kaufe kaufst kauft kaufen kauft kaufen", "kaufte", "gekauft"),
        (
            "arbeiten",
            "arbeite arbeitest arbeitet arbeiten arbeitet arbeiten",
            "arbeitete",
            "gearbeitet",
        ),
        (
            "unterzeichnen",
            "unterzeichne unterzeichnest unterzeichnet unterzeichnen unterzeichnet "
            "unterzeichnen",
            "unterzeichnete",
            "unterzeichnet",
        ),
        ("ändern", "ändere änderst ändert ändern ändert ändern", "änderte", "geändert"),
        (
            "kritisieren",
            "kritisiere kritisierst kritisiert kritisieren kritisiert kritisieren",
            "kritisierte",
            "kritisiert",
        ),
        ("aufräumen", "räume räumst räumt räumen räumt räumen", "räumte", "aufgeräumt"),
        (
            "vorbereiten",
            "bereite bereitest bereitet bereiten bereitet bereiten",
            "bereitete",
            "vorbereitet",
        ),
        ("lesen", "lese liest liest lesen lest lesen", "las", "gelesen"),
        ("annehmen", "nehme nimmst nimmt nehmen nehmt nehmen", "nahm", "angenommen"),
        ("einladen", "lade lädst lädt laden ladet laden", "lud", "eingeladen"),
        ("anbieten", "biete bietest bietet bieten bietet bieten", "bot", "angeboten"),
        ("zurücktreten", "trete trittst tritt treten tretet treten", "trat", "zurückgetreten"),
    ],
)
def test_conjugation(infinitive, present, past, participle):
    verb = verbs.frame(infinitive).verb
    persons = (ME, YOU, IT, WE, YOU_ALL, THEY)
    assert [inflection.finite(verb, p, "present") for p in persons] == present.split()
    assert inflection.finite(verb, YOU_FORMAL, "present") == verb.infinitive
    assert inflection.finite(verb, IT, "past") == past
    assert inflection.finite(verb, THEY, "past") == past + ("n" if past.endswith("e") else "en")
    assert verb.participle == participle


def test_english_forms():
    forms = {v.en: v for v in [f.verb for f in verbs.NEWS + verbs.TALK]}
    assert (forms["carry"].en_past, english.third_person("carry")) == ("carried", "carries")
    assert (forms["stop"].en_past, forms["stop"].en_ing) == ("stopped", "stopping")
    assert (forms["raise"].en_past, forms["raise"].en_ing) == ("raised", "raising")
    assert (english.third_person("watch"), english.third_person("go")) == ("watches", "goes")
    assert [english.article(w) for w in ("egg", "union", "hour", "European")] == [
        "an",
        "a",
        "an",
        "a",
    ]


@pytest.mark.parametrize(
    "n, en, de",
    [
        (0, "zero", "null"),
        (1, "one", "eins"),
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (76, "seventy-six", "sechsundsiebzig"),
        (100, "one hundred", "hundert"),
        (101, "one hundred and one", "hunderteins"),
        (121, "one hundred and twenty-one", "hunderteinundzwanzig"),
        (999, "nine hundred and ninety-nine", "neunhundertneunundneunzig"),
        (1000, "one thousand", "tausend"),
        (1001, "one thousand and one", "tausendeins"),
        (1100, "one thousand one hundred", "tausendeinhundert"),
        (
            2345,
            "two thousand three hundred and forty-five",
            "zweitausenddreihundertfünfundvierzig",
        ),
        (
            9999,
            "nine thousand nine hundred and ninety-nine",
            "neuntausendneunhundertneunundneunzig",
        ),
    ],
)
def test_numbers(n, en, de):
    assert numerals.english(n) == en
    assert numerals.german(n) == de


def test_all_numbers_differ():
    assert len({numerals.english(n) for n in range(10000)}) == 10000
    assert len({numerals.german(n) for n in range(10000)}) == 10000
    with pytest.raises(ValueError, match="10000"):
        numerals.german(10000)
    assert (numerals.english_digits(1200), numerals.german_digits(1200)) == ("1,200", "1.200")
