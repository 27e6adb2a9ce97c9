"""The demo grammar's clauses, held against sentences written by hand."""

from dataclasses import replace

import pytest
from demo_corpus import english, german, inflection, nouns, verbs
from demo_corpus.choice import behind, question, statement, subordinate, where
from demo_corpus.meaning import (
    IT,
    ME,
    THEY,
    WE,
    YOU,
    YOU_FORMAL,
    Adjunct,
    Asked,
    Clause,
    Common,
    Name,
    Pronoun,
    Relative,
)

MYSELF, DU, SHE = Pronoun(ME), Pronoun(YOU), Pronoun(IT, "f")
MINISTER = Common(nouns.find("Minister"))
PROPOSAL = Common(nouns.find("Vorschlag"))
GOVERNMENT = Common(nouns.find("Regierung"))
YESTERDAY = Adjunct("yesterday", "gestern")
IN_BERLIN = Adjunct("in Berlin", "in Berlin")


def news_verb(infinitive):
    return verbs.frame(infinitive, table=verbs.NEWS).verb


def talk_verb(infinitive):
    return verbs.frame(infinitive, table=verbs.TALK).verb


REJECT = Clause(news_verb("ablehnen"), MINISTER, accusative=PROPOSAL)


def test_verb_second_and_separable_verb():
    en, de = statement(replace(REJECT, tense="past", time=YESTERDAY, front="time"))
    assert en == "yesterday the minister rejected the proposal"
    assert de == "gestern lehnte der Minister den Vorschlag ab"
    present = replace(REJECT, place=IN_BERLIN, front="place")
    assert statement(present) == (
        "in Berlin, the minister rejects the proposal",
        "in Berlin lehnt der Minister den Vorschlag ab",
    )


def test_verb_final_joins_the_prefix():
    assert subordinate("because", "weil", REJECT) == (
        "because the minister rejects the proposal",
        "weil der Minister den Vorschlag ablehnt",
    )
    assert german.clause(replace(REJECT, tense="perfect"), order="final") == (
        "der Minister den Vorschlag abgelehnt hat"
    )
    assert german.clause(replace(REJECT, modal="must"), order="final") == (
        "der Minister den Vorschlag ablehnen muss"
    )


def test_a_fronted_clause_counts_as_the_first_place():
    inner = Clause(
        verbs.special("haben"),
        DU,
        accusative=Common(nouns.find("Zeit"), ""),
        talk=True,
        simple=True,
    )
    cinema = where("to", "in", Common(nouns.find("Kino")), "acc")
    main = Clause(verbs.special("gehen"), Pronoun(WE), rest=cinema, modal="can", talk=True)
    assert behind(subordinate("if", "wenn", inner), main) == (
        "if you have time, we can go to the cinema",
        "wenn du Zeit hast, können wir ins Kino gehen",
    )


def test_infinitive_clauses():
    assert english.clause(REJECT, infinitive=True) == "to reject the proposal"
    assert german.clause(REJECT, order="infinitive") == "den Vorschlag abzulehnen"
    sign = replace(REJECT, verb=news_verb("unterzeichnen"))
    assert german.clause(sign, order="infinitive") == "den Vorschlag zu unterzeichnen"


@pytest.mark.parametrize(
    "changes, en, de",
    [
        (
            {"tense": "past"},
            "the minister rejected the proposal",
            "der Minister lehnte den Vorschlag ab",
        ),
        (
            {"tense": "perfect"},
            "the minister has rejected the proposal",
            "der Minister hat den Vorschlag abgelehnt",
        ),
        (
            {"tense": "future"},
            "the minister will reject the proposal",
            "der Minister wird den Vorschlag ablehnen",
        ),
        (
            {"tense": "future", "talk": True},
            "the minister will reject the proposal",
            "der Minister lehnt den Vorschlag ab",
        ),
        (
            {"tense": "past", "talk": True},
            "the minister rejected the proposal",
            "der Minister hat den Vorschlag abgelehnt",
        ),
        (
            {"tense": "past", "negated": True},
            "the minister did not reject the proposal",
            "der Minister lehnte den Vorschlag nicht ab",
        ),
        (
            {"modal": "want"},
            "the minister wants to reject the proposal",
            "der Minister will den Vorschlag ablehnen",
        ),
        (
            {"modal": "must", "tense": "past"},
            "the minister had to reject the proposal",
            "der Minister musste den Vorschlag ablehnen",
        ),
        (
            {"modal": "must", "negated": True},
            "the minister must not reject the proposal",
            "der Minister darf den Vorschlag nicht ablehnen",
        ),
        (
            {"modal": "have to", "negated": True, "talk": True},
            "the minister doesn't have to reject the proposal",
            "der Minister muss den Vorschlag nicht ablehnen",
        ),
        (
            {"modal": "can", "negated": True},
            "the minister cannot reject the proposal",
            "der Minister kann den Vorschlag nicht ablehnen",
        ),
    ],
)
def test_tenses_and_modals(changes, en, de):
    assert statement(replace(REJECT, **changes)) == (en, de)


@pytest.mark.parametrize(
    "changes, en, de",
    [
        (
            {"tense": "past"},
            "the proposal was rejected by the government",
            "der Vorschlag wurde von der Regierung abgelehnt",
        ),
        (
            {"tense": "perfect"},
            "the proposal has been rejected by the government",
            "der Vorschlag ist von der Regierung abgelehnt worden",
        ),
        (
            {"tense": "future"},
            "the proposal will be rejected by the government",
            "der Vorschlag wird von der Regierung abgelehnt werden",
        ),
        (
            {"modal": "must"},
            "the proposal must be rejected by the government",
            "der Vorschlag muss von der Regierung abgelehnt werden",
        ),
    ],
)
def test_passive(changes, en, de):
    clause = Clause(news_verb("ablehnen"), PROPOSAL, agent=GOVERNMENT, passive=True)
    assert statement(replace(clause, **changes)) == (en, de)


def test_perfect_with_sein():
    up = Clause(talk_verb("aufstehen"), MYSELF, tense="past", talk=True)
    assert statement(up) == ("I got up", "ich bin aufgestanden")
    fly = Clause(verbs.special("fliegen"), SHE, tense="perfect", talk=True)
    assert statement(fly) == ("she's flown", "sie ist geflogen")


def test_negation_with_kein():
    car = Common(nouns.find("Auto"), "a")
    clause = Clause(verbs.special("haben"), MYSELF, accusative=car, negated=True, talk=True)
    assert statement(clause) == ("I don't have a car", "ich habe kein Auto")
    money = replace(clause, accusative=Common(nouns.find("Geld"), ""))
    assert statement(money) == ("I don't have any money", "ich habe kein Geld")


def test_contractions_belong_to_talk():
    read = Clause(talk_verb("lesen"), MYSELF, accusative=Common(nouns.find("Buch")), talk=True)
    assert english.clause(read) == "I'm reading the book"
    assert english.clause(replace(read, negated=True)) == "I'm not reading the book"
    assert (
        english.clause(replace(read, subject=SHE, negated=True)) == "she isn't reading the book"
    )
    assert english.clause(replace(read, tense="future")) == "I'll read the book"
    assert (
        english.clause(replace(read, tense="future", negated=True)) == "I won't read the book"
    )
    assert english.clause(replace(read, modal="can", negated=True)) == "I can't read the book"
    assert english.clause(replace(read, modal="would like")) == "I'd like to read the book"
    assert english.clause(replace(read, tense="past", negated=True)) == "I didn't read the book"
    assert english.clause(replace(read, talk=False, negated=True)) == "I do not read the book"


def test_questions():
    read = Clause(talk_verb("lesen"), DU, accusative=Common(nouns.find("Buch")), talk=True)
    assert question(replace(read, tense="past")) == (
        "did you read the book",
        "hast du das Buch gelesen",
    )
    asked = replace(read, opening=Adjunct("where", "wo"), front="opening", tense="past")
    assert question(asked) == ("where did you read the book", "wo hast du das Buch gelesen")
    what = replace(read, accusative=Asked("what", (("acc", "was"),)))
    assert question(what) == ("what are you reading", "was liest du")
    who = replace(read, subject=Asked("who", (("nom", "wer"),)), tense="past")
    assert question(who) == ("who read the book", "wer hat das Buch gelesen")


def test_formal_and_informal_you():
    for subject, de in (
        (DU, "wann unterzeichnest du"),
        (Pronoun(YOU_FORMAL), "wann unterzeichnen Sie"),
    ):
        clause = Clause(
            news_verb("unterzeichnen"), subject, accusative=Common(nouns.find("Vertrag"))
        )
        asked = replace(clause, opening=Adjunct("when", "wann"), front="opening")
        assert question(asked) == ("when do you sign the contract", f"{de} den Vertrag")
    spoken = replace(REJECT, subject=Pronoun(YOU_FORMAL), tense="past")
    assert question(spoken)[1] == "haben Sie den Vorschlag abgelehnt"


def test_relative_clauses():
    jacket = nouns.find("Jacke")
    bought = Clause(
        talk_verb("kaufen"),
        MYSELF,
        accusative=Relative(jacket),
        tense="past",
        time=YESTERDAY,
        talk=True,
    )
    subject = Common(jacket, relative=bought)
    clause = Clause(verbs.special("sein"), subject, rest=Adjunct("small", "klein"), talk=True)
    en, de = statement(clause)
    assert en == "the jacket that I bought yesterday is small"
    assert de == "die Jacke , die ich gestern gekauft habe , ist klein"
    bus = nouns.find("Bus")
    wait = verbs.frame("warten", table=verbs.TALK)
    inner = Clause(
        wait.verb, MYSELF, object=Relative(bus), object_preposition=("auf", "acc"), talk=True
    )
    item = Common(bus, relative=inner)
    assert english.phrase(item) == "the bus that I'm waiting for"
    assert german.phrase(item, "dat") == "dem Bus , auf den ich warte ,"
    who = Relative(nouns.find("Experte"), plural=True)
    assert german.phrase(who, "dat") == "denen" and english.phrase(who) == "who"


def test_two_way_prepositions():
    table, kitchen = Common(nouns.find("Tisch")), Common(nouns.find("Küche"))
    assert where("on", "auf", table, "acc").de == "auf den Tisch"
    assert where("on", "auf", table, "dat").de == "auf dem Tisch"
    assert where("in", "in", kitchen, "acc").de == "in die Küche"
    assert where("in", "in", Common(nouns.find("Garten")), "dat").de == "im Garten"
    assert where("to", "zu", Common(nouns.find("Tante"), "my"), "dat").de == "zu meiner Tante"


def test_commands():
    book = Common(nouns.find("Buch"))
    rest = where("on", "auf", Common(nouns.find("Tisch")), "acc")
    put = Clause(verbs.special("legen"), DU, accusative=book, rest=rest, talk=True)
    assert english.imperative(put) == "put the book on the table"
    assert german.imperative(put) == "leg das Buch auf den Tisch"
    call = Clause(talk_verb("anrufen"), DU, accusative=MYSELF, talk=True)
    assert (english.imperative(call), german.imperative(call)) == ("call me", "ruf mich an")
    for infinitive, form in {
        "lesen": "lies",
        "essen": "iss",
        "geben": "gib",
        "einladen": "lade",
        "warten": "warte",
        "helfen": "hilf",
        "waschen": "wasch",
    }.items():
        assert inflection.imperative(talk_verb(infinitive)) == form
    off = Clause(talk_verb("ausmachen"), DU, accusative=Pronoun(IT, "f", True), negated=True)
    assert english.imperative(off) == "don't turn it off"
    assert german.imperative(off) == "mach sie nicht aus"


def test_order_of_objects_and_pronouns():
    brother, book = Common(nouns.find("Bruder"), "my"), Common(nouns.find("Buch"))
    give = Clause(
        talk_verb("geben"), brother, dative=MYSELF, accusative=book, tense="past", talk=True
    )
    assert statement(give) == (
        "my brother gave me the book",
        "mein Bruder hat mir das Buch gegeben",
    )
    early = replace(give, time=YESTERDAY, front="time")
    assert german.clause(early) == "gestern hat mir mein Bruder das Buch gegeben"
    back = replace(give, subject=MYSELF, dative=brother, time=YESTERDAY)
    assert german.clause(back) == "ich habe gestern meinem Bruder das Buch gegeben"
    they = Clause(talk_verb("anrufen"), Pronoun(THEY), accusative=SHE, tense="past", talk=True)
    assert statement(they) == ("they called her", "sie haben sie angerufen")


def test_reflexive_verbs():
    glad = verbs.frame("freuen", table=verbs.TALK)
    weekend = Common(nouns.find("Wochenende"))
    clause = Clause(
        glad.verb, MYSELF, object=weekend, object_preposition=("auf", "acc"), talk=True
    )
    assert statement(clause) == (
        "I'm looking forward to the weekend",
        "ich freue mich auf das Wochenende",
    )
    noun = replace(clause, subject=Common(nouns.find("Tante"), "my"))
    assert german.clause(noun, order="final") == "sich meine Tante auf das Wochenende freut"


def test_genitive_and_names():
    of = Common(nouns.find("Vorschlag"), of=Common(nouns.find("Ministerium")))
    assert english.phrase(of) == "the proposal of the ministry"
    assert german.phrase(of, "acc") == "den Vorschlag des Ministeriums"
    weber = Name("Mr Weber", "Herr Weber", "m", "Herrn Weber")
    clause = Clause(news_verb("danken"), GOVERNMENT, dative=weber, tense="past")
    assert statement(clause) == (
        "the government thanked Mr Weber",
        "die Regierung dankte Herrn Weber",
    )


def test_a_relative_clause_waits_for_the_last_verb():
    noun = nouns.find("Vorschlag")
    inner = Clause(
        news_verb("vorstellen"), GOVERNMENT, accusative=Relative(noun), tense="perfect"
    )
    clause = replace(REJECT, accusative=Common(noun, relative=inner), tense="past")
    assert statement(clause) == (
        "the minister rejected the proposal that the government has presented",
        "der Minister lehnte den Vorschlag ab, den die Regierung vorgestellt hat",
    )
