"""Sentences of the news: organisations, reports, figures, and interviews in the formal you."""

from __future__ import annotations

from dataclasses import replace

from aevnmt_tf.data.demo import choice, english, german, nouns, verbs, words
from aevnmt_tf.data.demo.choice import pair, statement
from aevnmt_tf.data.demo.meaning import (
    YOU_FORMAL,
    Adjunct,
    Asked,
    Clause,
    Common,
    Name,
    Pronoun,
    Relative,
)

_TRANSITIVE = tuple(f for f in verbs.NEWS if [slot for slot, _ in f.objects] == ["acc"])
_PASSIVE = tuple(f for f in _TRANSITIVE if not f.verb.en_tail)
_PEOPLE = {"official", "group", "speaker"}
WHEN = Adjunct("when", "wann")
WHY = Adjunct("why", "warum")


def _full_name(dice):
    first, surname = dice.pick(words.FIRST_NAMES), dice.pick(words.SURNAMES)
    return Name(f"{first.en} {surname}", f"{first.de} {surname}", first.gender)


def _titled(dice):
    surname = dice.pick(words.SURNAMES)
    if dice.chance(0.5):
        return Name(f"Ms {surname}", f"Frau {surname}", "f")
    return Name(f"Mr {surname}", f"Herr {surname}", "m", f"Herrn {surname}")


def _actor(dice, tags):
    """Somebody who does something in the news."""
    noun = dice.pick(nouns.NEWS[dice.pick(tags)])
    if "group" in noun.tags:
        item = Common(noun, "the" if dice.chance(0.7) else "a", plural=True)
        if dice.chance(0.2):
            return Common(noun, "", plural=True, count=choice.count(dice))
        return choice.with_adjective(dice, item, 0.25)
    if "official" in noun.tags and dice.chance(0.25):
        return _full_name(dice)
    det = "a" if "firm" in noun.tags and dice.chance(0.25) else "the"
    item = choice.with_adjective(dice, Common(noun, det), 0.2)
    if "official" in noun.tags and not item.adjective and dice.chance(0.15):
        city = dice.pick(nouns.NEWS["firm"])
        if "speaker" in noun.tags:
            return replace(item, det="a" if dice.chance(0.4) else "the", of=Common(city))
    return item


def _matter(dice, tags):
    """Something that is done to: a document, a building, an event, people."""
    noun = dice.pick(nouns.NEWS[dice.pick(tags)])
    kinds = set(noun.tags)
    if kinds & {"org", "official", "group"}:
        return _actor(dice, [noun.tags[0]])
    if "set" in kinds:
        return Common(noun, "generic" if dice.chance(0.6) else "the", plural=True)
    if "mass" in kinds:
        return Common(noun, "generic")
    if "pluralonly" in kinds:
        return choice.with_adjective(dice, Common(noun, plural=True), 0.3)
    det = dice.weighted((("the", 6), ("a", 3), ("this", 1)))
    item = Common(noun, det, plural=det != "this" and dice.chance(0.15))
    if kinds & {"danger"}:
        item = Common(noun, "a")
    item = choice.with_adjective(dice, item, 0.4)
    if det == "the" and not item.adjective and kinds & {"paper", "ruling"} and dice.chance(0.3):
        return replace(item, of=Common(dice.pick(nouns.NEWS["org"])))
    return item


def _event(dice, frames=verbs.NEWS):
    """A clause from a frame, still without tense, time and place."""
    frame = dice.pick(frames)
    subject = _actor(dice, frame.subjects)
    objects = [_matter(dice, tags) for _, tags in frame.objects]
    # Nobody meets, criticises or negotiates with himself.
    while any(english.phrase(o) == english.phrase(subject) for o in objects):
        objects = [_matter(dice, tags) for _, tags in frame.objects]
    if frame.verb.infinitive == "entlassen" or frame.verb.infinitive == "stellen":
        objects = [
            _staff(dice) if "staff" in tags else o
            for (_, tags), o in zip(frame.objects, objects, strict=True)
        ]
    return choice.fill(frame, subject=subject, objects=objects, talk=False)


def _staff(dice):
    noun = dice.pick(nouns.NEWS["staff"])
    return Common(noun, "", plural=True, count=choice.count(dice, high=3000, digits=0.4))


def _past_time(dice):
    kind = dice.below(6)
    if kind == 0:
        return choice.on_day(dice)
    if kind == 1:
        return choice.in_month(dice)
    if kind == 2:
        year = dice.between(1990, 2019)
        return Adjunct(f"in {year}", f"im Jahr {year}")
    if kind == 3:
        unit = nouns.UNITS[dice.pick(("day", "week", "month", "year"))]
        number = choice.count(dice, high=9, digits=0.0)
        item = Common(unit, "", plural=True, count=number)
        return Adjunct(f"{english.phrase(item)} ago", german.prepositional("vor", item, "dat"))
    return dice.pick(words.NEWS_PAST)


def _future_time(dice):
    if dice.chance(0.3):
        return choice.on_day(dice)
    if dice.chance(0.2):
        en, de = dice.pick(words.SEASONS)
        return Adjunct(f"in {en}", f"im {de}")
    return dice.pick(words.NEWS_FUTURE)


def _told(dice, clause, *, place=True, front=True):
    """The clause with a tense and, where they fit, time, place, negation and a front part."""
    kind = dice.weighted((("past", 5), ("perfect", 2), ("future", 2), ("modal", 3)))
    negated = dice.chance(0.12)
    clause = replace(clause, negated=negated)
    if kind == "past":
        time = _past_time(dice) if dice.chance(0.75) else None
        clause = replace(clause, tense="past", time=time)
    elif kind == "perfect":
        adverb = dice.pick(words.NEWS_ADVERBS) if dice.chance(0.4) and not negated else None
        clause = replace(clause, tense="perfect", adverb=adverb)
    elif kind == "future":
        time = _future_time(dice) if dice.chance(0.6) else None
        clause = replace(clause, tense="future", time=time)
    else:
        modal = dice.weighted((("must", 3), ("want", 3), ("can", 2), ("should", 3)))
        past = modal in ("must", "want") and dice.chance(0.3)
        clause = replace(clause, modal=modal, tense="past" if past else "present")
    if place and not negated and dice.chance(0.3):
        clause = replace(clause, place=choice.in_city(dice))
    if front and dice.chance(0.4):
        if clause.time:
            return replace(clause, front="time")
        if clause.place:
            return replace(clause, front="place")
    return clause


def _simple(dice):
    return pair(*statement(_told(dice, _event(dice))))


def _passive(dice):
    clause = _event(dice, _PASSIVE)
    agent = clause.subject if dice.chance(0.4) else None
    clause = replace(
        clause, subject=clause.accusative, accusative=None, agent=agent, passive=True
    )
    clause = _told(dice, clause)
    if clause.modal == "want":
        clause = replace(clause, modal="must")
    return pair(*statement(clause))


def _reported(dice):
    """Somebody said that something is so."""
    inner = _told(dice, _event(dice), place=False, front=False)
    speaker = _actor(dice, ("official", "speaker", "org"))
    verb = verbs.special(dice.pick(("sagen", "erklären")))
    time = choice.on_day(dice) if not inner.time and dice.chance(0.4) else None
    outer = Clause(
        verb,
        speaker,
        time=time,
        tense="past",
        front="time" if time and dice.chance(0.5) else "",
    )
    en, de = statement(outer)
    en_that, de_that = choice.subordinate("that", "dass", inner)
    return pair(f"{en} {en_that}", f"{de}, {de_that}")


def _according_to(dice):
    clause = _told(dice, _event(dice), front=False)
    if dice.chance(0.5):
        source = Common(dice.pick(nouns.NEWS["org"]))
        opening = Adjunct(
            f"according to {english.phrase(source)}",
            f"nach Angaben {german.phrase(source, 'gen')}",
        )
    else:
        source = Common(dice.pick(nouns.NEWS["source"]), dice.pick(("the", "a")))
        opening = choice.where("according to", "laut", source, "dat")
    return pair(*statement(replace(clause, opening=opening, front="opening")))


def _figures(dice):
    """Prices rose by 3.5 percent."""
    noun = dice.pick(nouns.NEWS["amount"])
    subject = Common(noun, "generic", plural=True)
    verb = verbs.special(dice.pick(("steigen", "sinken")))
    if dice.chance(0.5):
        whole, tenth = dice.between(0, 9), dice.between(1, 9)
        number = f"{whole}.{tenth}", f"{whole},{tenth}"
    else:
        number = choice.count(dice, low=2, high=40, digits=0.5)
    rest = Adjunct(f"by {number[0]} percent", f"um {number[1]} Prozent")
    tense = dice.weighted((("past", 4), ("perfect", 2), ("future", 2)))
    time = None
    if tense == "past":
        time = _past_time(dice)
    elif tense == "future":
        time = _future_time(dice)
    place = choice.in_city(dice) if dice.chance(0.4) else None
    front = dice.pick(("", "time" if time else "", "place" if place else ""))
    clause = Clause(verb, subject, rest=rest, time=time, place=place, tense=tense, front=front)
    return pair(*statement(clause))


def _crowd(dice):
    """People demonstrate, are hurt, lose their homes."""
    people = nouns.find("Mensch")
    number = (
        choice.count(dice, high=99)
        if dice.chance(0.6)
        else choice.count(dice, low=100, high=9000)
    )
    many = dice.weighted((((0, 0), 4), (("more than", "mehr als"), 2), (("about", "rund"), 2)))
    if many[0]:
        number = f"{many[0]} {number[0]}", f"{many[1]} {number[1]}"
    subject = Common(people, "", plural=True, count=number)
    if dice.chance(0.5):
        against = _matter(dice, ("paper", "ruling"))
        clause = Clause(
            verbs.special("demonstrieren"),
            subject,
            rest=choice.where("against", "gegen", against, "acc"),
            place=choice.in_city(dice),
            time=_past_time(dice) if dice.chance(0.5) else None,
            tense="past",
        )
        return pair(*statement(replace(clause, front=dice.pick(("", "place")))))
    disaster = Common(dice.pick(nouns.NEWS["disaster"]), dice.pick(("the", "a")))
    disaster = choice.with_adjective(dice, disaster, 0.3)
    clause = Clause(
        verbs.special(dice.pick(("verletzen", "töten"))),
        subject,
        passive=True,
        place=choice.where("in", "bei", disaster, "dat"),
        time=_past_time(dice) if dice.chance(0.5) else None,
        tense="past",
    )
    return pair(*statement(replace(clause, front=dice.pick(("", "place")))))


def _happening(dice):
    """An event starts, ends or takes place; an official travels."""
    if dice.chance(0.4):
        verb = verbs.special(dice.pick(("reisen", "zurückkehren")))
        clause = Clause(verb, _actor(dice, ("official",)), rest=choice.to_city(dice))
        return pair(*statement(_told(dice, clause, place=False)))
    noun = dice.pick(nouns.NEWS["event"])
    subject = choice.with_adjective(dice, Common(noun, plural="pluralonly" in noun.tags), 0.5)
    verb = verbs.special(dice.pick(("beginnen", "enden", "stattfinden")))
    clause = replace(_told(dice, Clause(verb, subject)), modal="", negated=False)
    if not clause.time and clause.tense != "perfect":
        clause = replace(clause, tense="past", time=_past_time(dice))
    return pair(*statement(clause))


def _reason(dice):
    """A main clause with because or although; the second subject is a pronoun at times."""
    main = _told(dice, _event(dice), place=False, front=False)
    link = dice.pick((("because", "weil"), ("although", "obwohl")))
    if isinstance(main.subject, Common | Name) and dice.chance(0.6):
        tags = main.subject.noun.tags if isinstance(main.subject, Common) else ("official",)
        frames = [f for f in verbs.NEWS if set(f.subjects) & set(tags)]
        frame = dice.pick(frames)
        subject = choice.refer(main.subject, thing=not set(tags) & _PEOPLE)
        objects = [_matter(dice, t) for _, t in frame.objects]
        inner = choice.fill(frame, subject=subject, objects=objects, talk=False)
    else:
        inner = _event(dice)
    inner = replace(_told(dice, inner, place=False, front=False), time=None)
    main = replace(main, time=None) if dice.chance(0.7) else main
    sub = choice.subordinate(*link, inner)
    en, de = statement(main)
    return pair(f"{en} {sub[0]}", f"{de}, {sub[1]}")


def _relative(dice):
    """A noun with a relative clause as the subject of a sentence."""
    frame = dice.pick([f for f in _TRANSITIVE if not f.verb.en_tail])
    outer = _told(dice, _event(dice), place=False)
    if dice.chance(0.5):
        tag = dice.pick(frame.subjects)
        noun = dice.pick(nouns.NEWS[tag])
        plural = "group" in noun.tags
        objects = [_matter(dice, t) for _, t in frame.objects]
        inner = choice.fill(frame, subject=Relative(noun, plural), objects=objects, talk=False)
        fitting = [f for f in verbs.NEWS if set(f.subjects) & set(noun.tags)]
        second = dice.pick(fitting)
        outer_objects = [_matter(dice, t) for _, t in second.objects]
        inner = replace(inner, tense=dice.pick(("past", "perfect")))
        subject = Common(noun, plural=plural, relative=inner)
        outer = choice.fill(second, subject=subject, objects=outer_objects, talk=False)
        outer = _told(dice, outer, place=False, front=False)
    else:
        outer = _event(dice, _TRANSITIVE)
        if not isinstance(outer.accusative, Common) or outer.accusative.count:
            return None
        noun, plural = outer.accusative.noun, outer.accusative.plural
        fitting = [f for f in _TRANSITIVE if set(f.objects[0][1]) & set(noun.tags)]
        second = dice.pick(fitting)
        actor = _actor(dice, second.subjects)
        inner = choice.fill(second, subject=actor, objects=[Relative(noun, plural)], talk=False)
        time = _past_time(dice) if dice.chance(0.4) else None
        inner = replace(
            inner, tense="past" if time else dice.pick(("past", "perfect")), time=time
        )
        target = Common(noun, "the", plural, None, None, None, inner)
        outer = replace(
            _told(dice, replace(outer, accusative=target), place=False, front=False), time=None
        )
    return pair(*statement(outer))


def _intention(dice):
    """Plans, promises and decisions, with an infinitive clause."""
    inner = replace(_event(dice), tense="present")
    verb = verbs.special(dice.pick(("planen", "versprechen", "beschließen")))
    tense = dice.pick(("past", "perfect")) if verb.infinitive != "planen" else "present"
    outer = Clause(verb, inner.subject, tense=tense)
    en, de = statement(outer)
    if dice.chance(0.3) and tense == "past":
        outer = replace(outer, time=_past_time(dice), front="time")
        en, de = statement(outer)
    en_inner = english.clause(inner, infinitive=True)
    return pair(f"{en} {en_inner}", f"{de}, {german.clause(inner, order='infinitive')}")


def _interview(dice):
    """A question in the formal you: "Frau Weber, wann werden Sie ...?"."""
    frame = dice.pick([f for f in verbs.NEWS if set(f.subjects) & {"official", "firm"}])
    objects = [_matter(dice, t) for _, t in frame.objects]
    clause = choice.fill(frame, subject=Pronoun(YOU_FORMAL), objects=objects, talk=False)
    kind = dice.weighted((("future", 3), ("past", 3), ("want", 2), ("must", 2), ("can", 2)))
    if kind in ("future", "past"):
        clause = replace(clause, tense=kind)
    else:
        clause = replace(clause, modal=kind)
    word = dice.pick((None, WHEN, WHY, Asked("what", (("acc", "was"),))))
    if isinstance(word, Asked):
        if not clause.accusative or clause.dative or clause.verb.en_tail:
            word = WHY
        else:
            clause = replace(clause, accusative=word)
    if isinstance(word, Adjunct):
        clause = replace(clause, opening=word, front="opening")
    en, de = choice.question(clause)
    person = _titled(dice)
    return pair(f"{person.en}, {en}", f"{person.de}, {de}", "?")


PATTERNS = (
    (_simple, 24),
    (_passive, 10),
    (_reported, 12),
    (_according_to, 8),
    (_figures, 9),
    (_crowd, 7),
    (_happening, 8),
    (_reason, 8),
    (_relative, 8),
    (_intention, 6),
    (_interview, 10),
)
