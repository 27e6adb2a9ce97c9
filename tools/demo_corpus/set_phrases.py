"""Talk that the two languages put quite differently: being somewhere, liking, being hungry."""

from __future__ import annotations

from dataclasses import replace

from . import choice, english, german, nouns, numerals, verbs, words
from .choice import pair, statement
from .meaning import ME, THEY, WE, YOU, Adjunct, Clause, Common, Pronoun
from .talk_parts import (
    clock,
    filled,
    past_time,
    person,
    subject,
    thing,
    told,
)

_SEIN, _HABEN = verbs.special("sein"), verbs.special("haben")
# How a thing is somewhere, and how it gets there. English says "is" and "put" for most.
_POSTURES = {
    "lie": (verbs.special("liegen"), verbs.special("legen")),
    "stand": (verbs.special("stehen"), verbs.special("stellen")),
    "hang": (verbs.special("hängen", "be"), verbs.special("hängen", "hang")),
}
_WITH_HABEN = (
    Adjunct("hungry", "Hunger"),
    Adjunct("thirsty", "Durst"),
    Adjunct("right", "recht"),
    Adjunct("lucky", "Glück"),
    Adjunct("in a hurry", "es eilig"),
)
_WITH_SEIN = (
    Adjunct("tired", "müde"),
    Adjunct("ill", "krank"),
    Adjunct("happy", "glücklich"),
    Adjunct("angry", "wütend"),
    Adjunct("alone", "allein"),
)
_COMPARED = (
    ("older", "älter"),
    ("younger", "jünger"),
    ("taller", "größer"),
    ("faster", "schneller"),
    ("friendlier", "freundlicher"),
)


def _place(dice, noun, case):
    """Somewhere for a thing: the accusative for where to, the dative for where."""
    if "hang" in noun.tags:
        if "wear" in noun.tags:
            return choice.where("in", "in", Common(nouns.find("Schrank")), case)
        return choice.where("on", "an", Common(nouns.find("Wand")), case)
    options = [("on", "auf", "top"), ("in", "in", "room"), ("on", "in", "in_shelf")]
    if "small" in noun.tags:
        options += [("in", "in", "inner_small"), ("in", "in", "inner")]
    if "under_bed" in noun.tags:
        options = [("under", "unter", "under"), ("in", "in", "room")]
    if "stand" in noun.tags:
        options.append(("next to", "neben", "opened"))
    en, de, tag = dice.pick(options)
    return choice.where(en, de, Common(dice.pick(nouns.TALK[tag])), case)


def _position(dice):
    """Put the book on the table; it is on the table."""
    posture = dice.pick(("lie", "stand", "hang"))
    noun = dice.pick(nouns.TALK[posture])
    det = dice.weighted((("the", 5), ("your", 2), ("my", 2)))
    item = choice.with_adjective(dice, Common(noun, det), 0.25)
    being, putting = _POSTURES[posture]
    if dice.chance(0.45):
        clause = Clause(being, item, rest=_place(dice, noun, "dat"), talk=True)
        if dice.chance(0.3):
            return pair(*choice.question(clause), "?")
        return pair(*filled(dice, clause))
    rest = _place(dice, noun, "acc")
    clause = Clause(putting, Pronoun(YOU), accusative=item, rest=rest, talk=True)
    if dice.chance(0.4):
        return pair(english.imperative(clause), german.imperative(clause), "!")
    return pair(*statement(told(dice, replace(clause, subject=subject(dice)))))


def _living(dice):
    """I've been living in Berlin for three years: German has the present and seit."""
    who = subject(dice)
    work = verbs.frame("arbeiten", table=verbs.TALK).verb
    verb = dice.pick((verbs.special("wohnen"), work))
    place = choice.in_city(dice)
    unit = nouns.UNITS[dice.pick(("week", "month", "year"))]
    span = Common(unit, "", plural=True, count=choice.count(dice, high=30, digits=0.0))
    since = Adjunct("", german.prepositional("seit", span, "dat"))
    de = german.clause(Clause(verb, who, time=since, rest=place, talk=True))
    been = english.clause(Clause(_SEIN, who, tense="perfect", talk=True))
    return pair(f"{been} {verb.en_ing} {place.en} for {english.phrase(span)}", de)


def _age(dice):
    who = subject(dice)
    if who.person in (WE, THEY):
        return None
    child = "child" in getattr(getattr(who, "noun", None), "tags", ())
    n = dice.between(2, 25) if child else dice.between(21, 89)
    rest = Adjunct(f"{numerals.english(n)} years old", f"{numerals.german(n)} Jahre alt")
    return pair(*filled(dice, Clause(_SEIN, who, rest=rest, talk=True)))


def _starts(dice):
    """The film starts at half past three: um halb vier."""
    noun = dice.pick(nouns.TALK["starts"])
    verb = verbs.special(dice.pick(("anfangen", "anfangen", "enden")))
    clause = Clause(verb, Common(noun), time=clock(dice), talk=True)
    if dice.chance(0.5):
        clause = replace(clause, tense="past")
    else:
        clause = replace(clause, simple=True)
    if dice.chance(0.3):
        return pair(*choice.question(clause), "?")
    return pair(*filled(dice, clause))


def _liking(dice):
    """I like the jacket: in German the jacket pleases me."""
    who = subject(dice)
    kind = dice.pick(("liked", "food", "drink"))
    item = thing(dice, kind, who)
    if item.det in ("", "a") or item.count:
        item = replace(item, det="the", count=None)
    verb = verbs.special("gefallen" if kind == "liked" else "schmecken")
    negated = dice.chance(0.25)
    asks = who.person == YOU or (who.person not in (ME, WE) and dice.chance(0.15))
    spoken = Clause(verb, who, accusative=item, negated=negated, talk=True)
    en = english.clause(spoken, question=asks)
    said = Clause(verb, item, dative=who, negated=negated, talk=True)
    if asks:
        return pair(en, german.clause(said, order="first"), "?")
    if isinstance(who, Pronoun):
        return pair(en, german.clause(said))
    # A noun in the dative opens the sentence: "Meinem Bruder gefällt der Film."
    opening = Adjunct("", german.phrase(who, "dat"))
    said = replace(said, dative=None, opening=opening, front="opening")
    return pair(en, german.clause(said))


def _feeling(dice):
    """I'm hungry is "I have hunger" in German."""
    who = subject(dice)
    kind = dice.below(4)
    if kind == 0:
        of = thing(dice, dice.pick(("pet", "visited")), who)
        fear = f"Angst {german.prepositional('vor', of, 'dat')}"
        rest, verb = Adjunct(f"afraid of {english.phrase(of)}", fear), _HABEN
    elif kind == 1:
        rest, verb = dice.pick(_WITH_SEIN), _SEIN
    else:
        rest, verb = dice.pick(_WITH_HABEN), _HABEN
    tense = dice.pick(("present", "past"))
    time = past_time(dice) if tense == "past" and dice.chance(0.5) else None
    said = Clause(_SEIN, who, rest=rest, tense=tense, time=time, talk=True)
    if who.person not in (ME, WE) and dice.chance(0.25):
        en, de = choice.question(said)[0], choice.question(replace(said, verb=verb))[1]
        return pair(en, de, "?")
    if time and dice.chance(0.4):
        said = replace(said, front="time")
    return pair(english.clause(said), german.clause(replace(said, verb=verb)))


def _having(dice):
    """Having and not having: kein."""
    who = subject(dice)
    noun = dice.pick(nouns.TALK[dice.pick(("countable", "had"))])
    item = Common(noun, "" if "mass" in noun.tags else "a")
    item = choice.with_adjective(dice, item, 0.4)
    tense = dice.pick(("present", "present", "past"))
    clause = Clause(_HABEN, who, accusative=item, tense=tense, talk=True)
    if who.person == YOU:
        return pair(*choice.question(clause), "?")
    return pair(*filled(dice, replace(clause, negated=dice.chance(0.6))))


def _belongs(dice):
    item = Common(dice.pick(nouns.TALK["thing"]), dice.pick(("the", "this")))
    item = choice.with_adjective(dice, item, 0.4)
    owner = Pronoun(ME) if dice.chance(0.15) else person(dice, Pronoun(ME), pronoun=0.3)
    clause = Clause(verbs.special("gehören"), item, dative=owner, talk=True)
    if dice.chance(0.3):
        return pair(*choice.question(clause), "?")
    return pair(*statement(replace(clause, negated=dice.chance(0.2))))


def _comparison(dice):
    """Anna is older than Paul."""
    who = subject(dice)
    other = person(dice, who, pronoun=0)
    than, als = english.phrase(other), german.phrase(other, "nom")
    en, de = dice.pick(_COMPARED)
    kind = getattr(getattr(other, "noun", None), "tags", ())
    if "child" in kind or ("elder" in kind and en == "older"):
        return None
    rest = Adjunct(f"{en} than {than}", f"{de} als {als}")
    clause = Clause(_SEIN, who, rest=rest, talk=True)
    if who.person not in (ME, WE) and dice.chance(0.25):
        return pair(*choice.question(clause), "?")
    return pair(*filled(dice, clause, 0.2))


def _existence(dice):
    """There is: es gibt, with the accusative."""
    noun = dice.pick(nouns.TALK["outing"][:-1])
    size = dice.pick((None, *(words.BY_ENGLISH[en] for en in ("new", "old", "big", "small"))))
    item = Common(noun, "a", adjective=size)
    place = choice.in_city(dice)
    en = english.phrase(item)
    if dice.chance(0.4):
        return pair(
            f"is there {en} {place.en}", f"gibt es {place.de} {german.phrase(item, 'acc')}", "?"
        )
    return pair(f"there's {en} {place.en}", f"es gibt {place.de} {german.phrase(item, 'acc')}")


PATTERNS = (
    (_position, 10),
    (_living, 4),
    (_age, 2),
    (_starts, 3),
    (_liking, 6),
    (_feeling, 5),
    (_having, 5),
    (_belongs, 4),
    (_comparison, 4),
    (_existence, 2),
)
